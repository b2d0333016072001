"""Read the cards of clients: what they say of themselves, their holds and their waits.

Theory. Anybody who may write to the server can forge a card, and other versions write other
fields. So each value has a type and a bound, and each text is made safe. A value that does not fit
is left out, and its client is marked as doubtful. No lock algorithm reads a card.

The format is that of `interlock._core.insight.card`, which writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from interlock._core.insight.card import CARD, FORMAT
from interlock._core.model.foreign_text import safe
from interlock.inspection.info import ClientInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_VALUE = 4096
"""Bytes of one value of a card that are read."""
LONGEST_TEXT = 300
"""Characters of a name that a card tells."""
AHEAD = 60.0
"""Seconds by which a card may seem to come from the future: servers take each other's place."""
LONGEST_TIME = 10 * 365 * 86400.0
"""Seconds: no hold is older."""


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
    """How a hold ended: seconds ago, whether it was lost, and if so why."""

    age: float
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
    holds: dict[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    waits: dict[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    wishes: dict[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    ends: dict[tuple[str, str], End] = field(default_factory=dict[tuple[str, str], End])
    permits: int = 0
    ended: int = 0


class DoubtError(ValueError):
    """A part of a card that cannot be what a client has written."""


def card_key(client_id: str) -> str:
    """Return the key of the card of *client_id*."""
    return CARD.format(client_id)


def read_card(client_id: str, reply: object) -> Card | None:
    """Return the card of *client_id* from the *reply* to `card_read`; None if there is none."""
    if reply is None:
        return None
    try:
        now, *flat = cast("list[Any]", reply)
        fields = {_text(flat[i]): flat[i + 1] for i in range(0, len(flat) - 1, 2)}
        _ = fields.pop("number", None)
        written = _bounded(float(fields.pop("written", None) or "nan"), 0, now + 1000 * AHEAD)
        silent = max((now - written) / 1000, 0.0)
        told = _object(fields.pop("client", b""))
        if (version := told.get("format")) != FORMAT:
            return _doubtful(client_id, f"its format is {str(version)[:20]!r}, not {FORMAT}")
        period = _bounded(told.get("period"), 0.01, LONGEST_TIME)
    except (DoubtError, TypeError, ValueError) as error:
        return _doubtful(client_id, safe(str(error)[:100]) or "it cannot be read")
    entries: dict[str, dict[tuple[str, str], Entry]] = {"h": {}, "w": {}, "p": {}}
    ends: dict[tuple[str, str], End] = {}
    doubt = ""
    for (name, value), parsed in zip(fields.items(), _together(fields.values()), strict=True):
        try:
            mark, holder, key = name.split(" ", 2)
            place = safe(holder), key
            if ":" in holder and not place[0].startswith(f"{client_id}:"):
                raise DoubtError("it tells of another client's hold")
            content = _object(value) if parsed is None else parsed
            if mark == "x":
                ends[place] = _end(content, silent)
            else:
                entries[mark][place] = _entry(*place, content, silent)
        except (KeyError, TypeError, ValueError) as error:
            doubt = safe(str(error)[:100])
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
        doubt=doubt,
    )
    counts = [_whole(told.get(name)) or 0 for name in ("permits", "ended")]
    return Card(client, entries["h"], entries["w"], entries["p"], ends, *counts)


def _doubtful(client_id: str, why: str) -> Card:
    return Card(ClientInfo(client_id, library="interlock", doubt=f"its card is doubtful: {why}"))


def _entry(holder: str, key: str, told: dict[str, Any], silent: float) -> Entry:
    return Entry(
        holder,
        key,
        _bounded(told.get("age"), 0, LONGEST_TIME) + silent,
        int(_bounded(told.get("owner"), 0, 2**53)),
        _short(told.get("thread")),
        _bounded(told.get("lease", 0), 0, LONGEST_TIME),
        told.get("renewed") is True,
        _short(told.get("trace")),
    )


def _end(told: dict[str, Any], silent: float) -> End:
    age = _bounded(told.get("age"), 0, LONGEST_TIME) + silent
    return End(age, told.get("how") != "released", _short(told.get("why")))


def _together(values: Iterable[object]) -> list[dict[str, Any] | None]:
    """Return each of *values* parsed, at once; None for one that is to be parsed by itself.

    There may be very many. A forger may spread one value over several fields. All that he gets is
    a card with other values, and he could have written these as well.
    """
    texts = [value if isinstance(value, bytes) else b"null" for value in values]
    try:
        found = json.loads((b"[%s]" % b",".join(texts)).decode())
    except (ValueError, RecursionError):
        return [None] * len(texts)
    parsed = cast("list[object]", found)
    if len(parsed) != len(texts):
        return [None] * len(texts)
    return [cast("dict[str, Any]", each) if isinstance(each, dict) else None for each in parsed]


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, int):
        raise DoubtError(f"a value has {value} bytes")
    try:
        found = json.loads(cast("bytes", value))
    except (ValueError, RecursionError) as error:
        raise DoubtError("a value is no JSON") from error
    if not isinstance(found, dict):
        raise DoubtError("a value is no JSON object")
    return cast("dict[str, Any]", found)


def _bounded(value: object, least: float, most: float) -> float:
    kind = type(value)
    if (kind is not float and kind is not int) or not least <= cast("float", value) <= most:
        raise DoubtError(f"wanted a number from {least:g} to {most:g}, found {str(value)[:20]!r}")
    return float(cast("float", value))


def _whole(value: object) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return cast("int", value) if known else None


def _short(value: object) -> str:
    return safe(value[:LONGEST_TEXT]) if isinstance(value, str) else ""


def _text(value: object) -> str:
    return cast("bytes", value).decode("utf-8", "replace")
