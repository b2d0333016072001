"""Read the cards of clients: what they say of themselves, their holds and their waits.

Theory. Anybody who may write to the server can forge a card, and other versions write other
fields. So each value has a type and a bound, and each text is made safe. A value that does not fit
is left out, and its client is marked as doubtful. No lock algorithm reads a card.

The format is that of `interlock._core.insight.card`, which writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from interlock._core.insight.card import CARD, FORMAT, INDEX
from interlock._core.insight.connection_name import client_in_names, client_part
from interlock._core.model.foreign_text import safe
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection.info import ClientInfo
from interlock.inspection.service import load, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.service import Call, Service

LONGEST_VALUE = 4096
"""Bytes of one value of a card that are read."""
LONGEST_TEXT = 300
"""Characters of a name that a card tells."""
LONGEST_ID = 100
"""Bytes of the id of a client."""
LONGEST_TIME = 10 * 365 * 86400.0
"""Seconds: no hold is older."""
AHEAD = 60.0
"""Seconds by which a card may seem to come from the future: servers take each other's place."""
FRESH = 2.0
"""Seconds for which a card proves that its client is alive."""
BACK_WITHIN = 60
"""Seconds after the start of a server in which its clients connect again."""
STEP = 500
"""Keys that one SCAN looks at."""
KEPT = 10_000
"""Cards of holders that are kept for the next pages."""
CARD_READ = load("card_read")
_CARD_BEGIN, _CARD_END = CARD.format("\n").split("\n")
Place: TypeAlias = tuple[str, str]
"""A holder id, or the ids of permits, and the lock's key."""


@dataclass(slots=True)  # frozen ones take several times as long to make
class Entry:
    """A hold or a wait, as a card tells it.

    Attributes:
        holder: the holder id of it.
        key: the lock's key.
        age: seconds since it began, by the server's clock.
        owner: tells the threads and tasks of one client apart.
        thread: what the thread or task is called.
        lease: seconds; 0 for a wait.
        renewed: whether the hold is renewed.
        trace_id: of the trace in which it was acquired; empty if there is none.
    """

    holder: str
    key: str
    age: float
    owner: int
    thread: str = ""
    lease: float = 0.0
    renewed: bool = False
    trace_id: str = ""


class End(NamedTuple):
    """How a hold ended, as the card of its client tells it for a minute.

    Attributes:
        holder: the holder id.
        client: its client.
        ago: seconds since then.
        lost: whether it was lost; else it was released.
        why: the reason of a loss, with what an operator said who broke the hold; empty for a
            release.
    """

    holder: str
    client: ClientInfo
    ago: float
    lost: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """What a card tells.

    Attributes:
        client: of whom it tells.
        holds: by holder and key.
        waits: by holder and key.
        wishes: waits for permits and latches, by holder and key.
        ends: how holds ended, by holder and key.
        permits: how many of its holds are permits of semaphores.
        ended: how many ends it tells.
    """

    client: ClientInfo
    holds: dict[Place, Entry] = field(default_factory=dict[Place, Entry])
    waits: dict[Place, Entry] = field(default_factory=dict[Place, Entry])
    wishes: dict[Place, Entry] = field(default_factory=dict[Place, Entry])
    ends: dict[Place, End] = field(default_factory=dict[Place, End])
    permits: int = 0
    ended: int = 0


class CardReader:
    """Reads cards from the servers.

    Args:
        service: where to ask.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.forget()

    def forget(self, *, closely: bool = False) -> None:
        """Read everything again from now on.

        *closely*: look for the connection of each client whose card is not fresh.
        """
        self._kept: dict[str, Card | None] = {}
        self._connected: frozenset[str] | None = None
        self._uptime: int | None = None
        self._looked = False
        self._closely = closely

    def of(self, clients: set[str]) -> dict[str, Card]:
        """Return the cards of *clients*; most are asked for again with the next page."""
        if len(self._kept) > KEPT:
            self._kept.clear()
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in clients - self._kept.keys():
            self._kept[client_id] = None
            key = CARD.format(client_id)
            by_node.setdefault(self._service.owner(key), []).append(key)
        for node, keys in by_node.items():
            self._kept |= {card.client.client_id: card for card in self._read(node, keys, whole=1)}
        return {each: found for each in clients if (found := self._kept.get(each)) is not None}

    def all(self, *, ended: bool = False) -> Iterator[Card]:
        """Yield the cards of clients that wait or hold permits, or else that tell of ends.

        There may be very many. Most are not needed, and what they say of the client tells it.
        """
        for node, keys in self._keys():
            heads = self._read(node, keys, whole=0)
            wanted = [
                CARD.format(head.client.client_id)
                for head in heads
                if (head.ended if ended else head.client.waits or head.permits)
            ]
            yield from self._read(node, wanted, whole=1)

    def _keys(self) -> Iterator[tuple[Endpoint, list[str]]]:
        """Yield the keys of all cards, some at a time, with the server that has them."""
        if isinstance(self._service.servers, Cluster):
            for node in self._service.nodes:
                pattern = f"{_CARD_BEGIN}*{_CARD_END}"
                for keys in self._service.scan(node, "hash", pattern, STEP):
                    yield node, keys
            return
        [node], cursor = self._service.nodes, ""
        while cursor != "0":
            [reply] = self._service.ask(node, [("ZSCAN", INDEX, cursor or "0", "COUNT", STEP)])
            if isinstance(reply, ReplyError):
                raise ServerUnavailableError(f"{node.where} refused {INDEX}: {reply}")
            told, flat = cast("tuple[bytes, list[bytes]]", reply)
            cursor = told.decode()
            ids = [text_of(each) for each in flat[::2] if len(each) <= LONGEST_ID]
            yield node, [CARD.format(each) for each in ids]

    def _read(self, node: Endpoint, keys: list[str], *, whole: int) -> Iterator[Card]:
        """Yield the cards that there are."""
        while keys:
            again: list[str] = []
            calls: list[Call] = [((key,), (whole,)) for key in keys]
            replies = self._service.run(node, CARD_READ, LONGEST_VALUE, calls)
            for key, reply in zip(keys, replies, strict=True):
                if reply == 1:
                    again.append(key)
                elif reply is not None and not isinstance(reply, ReplyError):
                    client_id = safe(key.removeprefix(_CARD_BEGIN).removesuffix(_CARD_END))
                    yield self._with_connection(read_card(client_id, reply))
            keys = again

    def _with_connection(self, card: Card) -> Card:
        """Return *card*; if its client is late, with whether the server has a connection of it."""
        client = card.client
        doubtful = self._closely and client.answering and (client.silent or 0) > FRESH
        if not client.named or not (doubtful or client.answering is False):
            return card
        if not self._looked:
            self._looked = True
            self._look_for_connections()
        if self._connected is None:
            return card
        connected, uptime = client_part(client.client_id) in self._connected, self._uptime
        # A client that was silent before the server started may not have connected again.
        if not connected and uptime is not None and uptime < min(BACK_WITHIN, client.silent or 0):
            return card
        return replace(card, client=replace(client, connected=connected))

    def _look_for_connections(self) -> None:
        """Find the clients that have a connection, unless the user may not see connections.

        Cost:
            Two round trips for each primary; one reply has about 350 bytes for each connection.
        """
        found: set[str] = set()
        for node in self._service.nodes:
            # Some services permit this to nobody.
            command = ("CLIENT", "LIST", "TYPE", "NORMAL")
            [reply] = self._service.ask(node, [command], may_lack=True)
            if isinstance(reply, ReplyError):
                return
            found |= client_in_names(cast("bytes", reply))
        self._connected, self._uptime = frozenset(found), self._service.uptime()


def read_card(client_id: str, reply: object) -> Card:
    """Return the card of *client_id* from the *reply* to `card_read`."""
    try:
        now, *flat = cast("list[Any]", reply)
        fields = {flat[i].decode("utf-8", "replace"): flat[i + 1] for i in range(0, len(flat), 2)}
        written = _bounded(float(fields.pop("written", None) or "nan"), 0, now + 1000 * AHEAD)
        silent = max((now - written) / 1000, 0.0)
        told = _object(fields.pop("client", b""))
        if told.get("format") != FORMAT:
            wrong = f"its format is {str(told.get('format'))[:20]!r}, not {FORMAT}"
            return _doubtful(client_id, wrong)
        period = _bounded(told.get("period"), 0.01, LONGEST_TIME)
    except (TypeError, ValueError) as error:
        return _doubtful(client_id, safe(str(error)[:100]) or "it cannot be read")
    client = ClientInfo(
        client_id,
        library="interlock",
        version=_short(told.get("version")),
        host=_short(told.get("host")),
        pid=_whole(told.get("pid")),
        program=_short(told.get("program")),
        # One round may be late because its thread was; two are not. The last card is never renewed.
        answering=None if told.get("last") is True else silent < 2 * period + 1,
        silent=silent,
        named=told.get("named") is not False,
        holds=_whole(told.get("holds")),
        waits=_whole(told.get("waits")),
    )
    permits, ended = (_whole(told.get(name)) or 0 for name in ("permits", "ended"))
    card = Card(client, permits=permits, ended=ended)
    doubt = ""
    for name, value in fields.items():
        if name != "number":
            try:
                _add(card, name, _object(value))
            except (KeyError, TypeError, ValueError) as error:
                doubt = safe(str(error)[:100])
    return replace(card, client=replace(client, doubt=doubt)) if doubt else card


def _doubtful(client_id: str, why: str) -> Card:
    return Card(ClientInfo(client_id, library="interlock", doubt=f"its card is doubtful: {why}"))


def _add(card: Card, name: str, told: dict[str, Any]) -> None:
    """Add what the field *name* of *card* tells.

    Raises:
        ValueError: no client has written that.
        KeyError: nor that.
    """
    mark, of, key = name.split(" ", 2)
    client, holder = card.client, safe(of)
    if ":" in holder and not holder.startswith(f"{client.client_id}:"):
        raise ValueError("it tells of another client's hold")
    age = _bounded(told.get("age"), 0, LONGEST_TIME) + (client.silent or 0.0)
    if mark == "x":
        lost, why = told.get("how") != "released", _short(told.get("why"))
        card.ends[holder, key] = End(holder, client, age, lost, why)
        return
    {"h": card.holds, "w": card.waits, "p": card.wishes}[mark][holder, key] = Entry(
        holder,
        key,
        age,
        int(_bounded(told.get("owner"), 0, 2**53)),
        _short(told.get("thread")),
        _bounded(told.get("lease", 0), 0, LONGEST_TIME),
        told.get("renewed") is True,
        _short(told.get("trace")),
    )


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
    kind = type(value)
    if (kind is not float and kind is not int) or not least <= cast("float", value) <= most:
        raise ValueError(f"wanted a number from {least:g} to {most:g}, found {str(value)[:20]!r}")
    return float(cast("float", value))


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _short(value: object) -> str:
    return safe(value[:LONGEST_TEXT]) if isinstance(value, str) else ""
