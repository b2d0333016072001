"""Read the cards of clients: what they say of themselves, their holds and their waits.

Theory. Anybody who may write to the server can forge a card, and other versions write other
fields. So each value has a type and a bound, and each text is made safe. A value that does not fit
is left out, and its client is marked as doubtful. No lock algorithm reads a card.

The format is that of `interlock._core.insight.card`, which writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from interlock._core.insight.card import CARD, FORMAT, index_of
from interlock._core.insight.connection_name import client_in_names, client_part
from interlock._core.model.foreign_text import safe
from interlock._links.resp import ReplyError
from interlock.inspection.info import ClientInfo, HolderInfo, WaiterInfo
from interlock.inspection.service import STEP, load, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.service import Service

ID = 36
"""Characters of a client's id."""
LONGEST_VALUE, LONGEST_TEXT, LONGEST_ID = 4096, 300, 100
"""Bytes of one value that are read; characters of a name that a card tells; bytes of an id."""
LONGEST_TIME = 10 * 365 * 86400.0
"""Seconds: no hold is older."""
AHEAD = 60.0
"""Seconds by which a card may seem to come from the future: servers take each other's place."""
FRESH = 2.0
"""Seconds for which a card proves that its client is alive."""
BACK_WITHIN = 60
"""Seconds after the start of a server in which its clients connect again."""
TOGETHER = 50
"""Whole cards that are read at once."""
CARD_READ = load("card_read")
Place: TypeAlias = tuple[str, str]
"""Two of: a holder id or the ids of permits, a key, a kind."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a card tells of its client, its holds, and its waits for locks.

    Wishes are waits for permits and latches; `about` is all that it says of its client.
    """

    client: ClientInfo
    holds: dict[Place, HolderInfo] = field(default_factory=dict[Place, HolderInfo])
    waits: dict[Place, WaiterInfo] = field(default_factory=dict[Place, WaiterInfo])
    wishes: dict[Place, WaiterInfo] = field(default_factory=dict[Place, WaiterInfo])
    about: dict[str, Any] = field(default_factory=dict[str, Any])


class CardReader:
    """Reads the cards of one look, and looks for connections of clients whose cards are late.

    *closely*: also of those whose cards are not fresh.
    """

    def __init__(self, service: Service, *, closely: bool = False) -> None:
        self._service = service
        self._closely = closely
        self._prefix = service.options.prefix or ""
        self._kept: dict[str, Card | None] = {}

    def of(self, clients: Iterable[str]) -> dict[str, Card]:
        """Return the cards of *clients*; most are asked for again with the next page."""
        if len(self._kept) > 20 * STEP:
            self._kept.clear()
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in set(clients) - self._kept.keys() - {""}:
            self._kept[client_id] = None
            key = CARD.format(self._prefix + client_id)
            by_node.setdefault(self._service.owner(key), []).append(key)
        for node, keys in by_node.items():
            self._kept |= {card.client.client_id: card for card in self._read(node, keys, whole=1)}
        return {each: card for each in clients if (card := self._kept.get(each)) is not None}

    def all(self, *words: str) -> Iterator[Card]:
        """Yield the cards that tell a number of one of *words* (``waits``); most need no reading."""
        for node, keys in self._keys():
            wanted = [
                CARD.format(self._prefix + head.client.client_id)
                for head in self._read(node, keys, whole=0)
                if any(_whole(head.about.get(word)) for word in words)
            ]
            yield from self._read(node, wanted, whole=1)

    def _keys(self) -> Iterator[tuple[Endpoint, list[str]]]:
        """Yield the keys of all cards, some at a time, with the server that has them."""
        if self._service.servers.clustered:
            for node in self._service.nodes:
                for keys in self._service.scan(node, "hash", CARD.format(f"{self._prefix}*")):
                    # What is in front of an id is another tenant's prefix.
                    yield node, [key for key in keys if len(self._client_of(key)) == ID]
            return
        [node], cursor, index = self._service.nodes, "", index_of(self._prefix)
        while cursor != "0":
            told, flat = self._service.one(node, "ZSCAN", index, cursor or "0", "COUNT", STEP)
            cursor = told.decode()
            ids = [text_of(each) for each in flat[::2] if len(each) <= LONGEST_ID]
            yield node, [CARD.format(self._prefix + each) for each in ids]

    def _client_of(self, key: str) -> str:
        """Return the client whose card is *key*."""
        before, after = CARD.format(f"{self._prefix}\n").split("\n")
        return key.removeprefix(before).removesuffix(after)

    def _read(self, node: Endpoint, keys: list[str], *, whole: int) -> Iterator[Card]:
        """Yield the cards that there are; *whole* ones are long, and only a few come together."""
        step = TOGETHER if whole else STEP
        for some in (keys[at : at + step] for at in range(0, len(keys), step)):
            calls = [(1, key, LONGEST_VALUE, whole) for key in some]
            replies = self._service.run(node, CARD_READ, calls)
            for key, reply in zip(some, replies, strict=True):
                if reply is not None and not isinstance(reply, ReplyError):
                    client_id = safe(self._client_of(key))
                    yield self._with_connection(read_card(client_id, reply))

    def _with_connection(self, card: Card) -> Card:
        """Return *card*; if its client is late, with whether the server has a connection of it."""
        client, silent = card.client, card.client.silent or 0.0
        doubtful = self._closely and client.answering and silent > FRESH
        if card.about.get("named") is False or not (doubtful or client.answering is False):
            return card
        names, uptime = self._connections
        connected = names is not None and client_part(client.client_id) in names
        # A client that was silent before the server started may not have connected again.
        early = uptime is not None and uptime < min(BACK_WITHIN, silent)
        if names is None or (early and not connected):
            return card
        return replace(card, client=replace(client, connected=connected))

    @cached_property
    def _connections(self) -> tuple[set[str] | None, int | None]:
        """The clients that have a connection, None if the user may not see any; and the uptime."""
        found = set[str]()
        for node in self._service.nodes:
            # Some services permit this to nobody.
            command = ("CLIENT", "LIST", "TYPE", "NORMAL")
            [reply] = self._service.ask(node, [command], may_lack=True)
            if isinstance(reply, ReplyError):
                return None, None
            found |= client_in_names(cast("bytes", reply))
        return found, self._service.uptime()


def read_card(client_id: str, reply: object) -> Card:
    """Return the card of *client_id* from the *reply* to `card_read`."""
    try:
        now, *flat = cast("list[Any]", reply)
        fields = {flat[i].decode("utf-8", "replace"): flat[i + 1] for i in range(0, len(flat), 2)}
        written = _bounded(float(fields.pop("written", None) or "nan"), 0, now + 1000 * AHEAD)
        silent = max((now - written) / 1000, 0.0)
        told = _object(fields.pop("client", b""))
        _ = _bounded(told.get("format"), FORMAT, FORMAT)
        period = _bounded(told.get("period"), 0.01, LONGEST_TIME)
    except (TypeError, ValueError) as error:
        why = safe(str(error)[:100]) or "it cannot be read"
        return Card(ClientInfo(client_id, doubt=f"its card is doubtful: {why}"))
    client = ClientInfo(
        client_id,
        version=_short(told.get("version")),
        host=_short(told.get("host")),
        pid=_whole(told.get("pid")),
        program=_short(told.get("program")),
        # One round may be late because its thread was; two are not.
        answering=silent < 2 * period + 1,
        silent=silent,
        holds=_whole(told.get("holds")),
        waits=_whole(told.get("waits")),
    )
    card, doubt = Card(client, about=told), ""
    for name, value in fields.items():
        try:
            _add(card, name, _object(value))
        except (KeyError, TypeError, ValueError) as error:
            doubt = safe(str(error)[:100])
    return replace(card, client=replace(client, doubt=doubt)) if doubt else card


def _add(card: Card, name: str, told: dict[str, Any]) -> None:
    """Add what the field *name* of *card* tells; ValueError and KeyError: no client wrote it."""
    mark, of, key = name.split(" ", 2)
    client, holder = card.client, safe(of)
    if ":" in holder and not holder.startswith(f"{client.client_id}:"):
        raise ValueError("it tells of another client's hold")
    age = _bounded(told.get("age"), 0, LONGEST_TIME) + (client.silent or 0.0)
    owner, thread = int(_bounded(told.get("owner"), 0, 2**53)), _short(told.get("thread"))
    if mark == "h":
        card.holds[holder, key] = HolderInfo(
            holder,
            client,
            held_for=age,
            lease=_bounded(told.get("lease", 0), 0, LONGEST_TIME),
            renewed=told.get("renewed") is True,
            thread=thread,
            place=_short(told.get("place")),
            trace_id=_short(told.get("trace")),
            owner=owner,
        )
    else:
        waits = {"w": card.waits, "p": card.wishes}[mark]
        waits[holder, key] = WaiterInfo(holder, client, age, thread=thread, owner=owner)


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, int):
        raise TypeError(f"a value has {value} bytes")
    try:
        found = json.loads(cast("bytes", value))
    except (ValueError, RecursionError) as error:
        raise ValueError("a value is no JSON") from error
    if not isinstance(found, dict):
        raise TypeError("a value is no JSON object")
    return cast("dict[str, Any]", found)


def _bounded(value: object, least: float, most: float) -> float:
    if type(value) in (int, float) and least <= cast("float", value) <= most:
        return float(cast("float", value))
    raise ValueError(f"wanted a number from {least:g} to {most:g}, found {str(value)[:20]!r}")


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _short(value: object) -> str:
    return safe(value[:LONGEST_TEXT]) if isinstance(value, str) else ""
