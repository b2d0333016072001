"""Locks as lines of text, for `interlock list`."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from interlock._core.model.foreign_text import safe
from interlock.inspection.kinds import sight_of
from interlock.inspection.words import client_of, counted, duration, given_to, without_holders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.inspection import HolderInfo, LockInfo

HEADINGS = ("NAME", "KIND", "HELD FOR", "RENEWED", "HOLDER", "WAITING")
_SHORTEST = (10, 12, 8, 8, 24, 7)
_WIDEST = (48, 22, 11, 10, 84, 40)
_NARROW = (0, 3, 5, 4, 2, 1)
"""The order of the columns where the last ones are cut off."""


class Row(NamedTuple):
    """One line of the list."""

    name: str
    kind: str
    held_for: str
    renewed: str
    holder: str
    waiting: str


def clock_time(seconds: float | None) -> str:
    """Return *seconds* as hours, minutes and seconds; a question mark if they are not known."""
    if seconds is None:
        return "?"
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


def kind_of(info: LockInfo) -> str:
    """Return the kind of a lock in one or two words."""
    if info.kind == "semaphore" and info.total is None and not info.awaited:
        return "semaphore or latch"
    short = sight_of(info.kind).short
    word = info.mode or (info.kind if short is None else short)
    depth = max((holder.depth for holder in info.holders), default=1)
    if info.holder_count > 1:
        return f"{word} by {info.holder_count}"
    return f"{word} x{depth}" if depth > 1 else word


def holder_of(info: LockInfo, first: HolderInfo | None = None) -> str:
    """Return who holds a lock: *first*, and how many others."""
    if not info.holders:
        return without_holders(info)
    text, more = person_of(first or info.holders[0]), info.holder_count - 1
    return f"{text} and {more} more" if more > 0 else text


def person_of(holder: HolderInfo) -> str:
    """Return who *holder* is, as far as that is known."""
    text = given_to(holder) if holder.claim else client_of(holder.client, holder.holder)
    return f"{text} {holder.thread}" if holder.thread else text


def renewed_of(holder: HolderInfo) -> str:
    """Return when a hold was renewed last."""
    if holder.client.dead:
        return "DEAD"
    ago = holder.renewed_ago
    if ago is None:
        return "fixed" if holder.renewed is False else "?"
    return f"LATE {ago:.0f}s" if holder.late else f"{ago:.0f} s ago"


def waiting_of(info: LockInfo) -> str:
    """Return how many wait, and how long the first of them has."""
    if not info.awaited:
        return "-"
    count = 0 if info.waited_by_clients else max(info.waiter_count, len(info.waiters))
    longest = info.longest_wait
    clients = info.waiting_clients
    text = counted(clients, "client") if clients else ""
    if count > 1:
        text = f"{count} in {text}" if text else str(count)
    return text if longest is None else f"{text}, first {clock_time(longest)}"


def row_of(info: LockInfo) -> Row:
    """Return the line of a lock."""
    bad = next((each for each in info.holders if each.client.dead), None)
    late = bad or next((holder for holder in info.holders if holder.late), None)
    holder = late or next(iter(info.holders), None)
    waiting = waiting_of(info)
    if info.deadlock:
        waiting = f"DEADLOCK {waiting}"
    if late is not None and late.remaining is not None:
        waiting = f"{waiting}  ends in {duration(late.remaining)}"
    return Row(
        safe(info.name),
        kind_of(info),
        clock_time(info.held_for),
        "" if holder is None else renewed_of(holder),
        safe(holder_of(info, holder)),
        waiting,
    )


def places(text: str) -> int:
    """Return how many columns of a terminal *text* takes: letters of Chinese or Japanese take two.

    This is for text that `safe` has passed.
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) != 0 for letter in text)


def widths_of(rows: Sequence[Row]) -> list[int]:
    """Return how wide the columns of *rows* are: as wide as these need, within bounds."""
    return [
        min(max(shortest, *(places(row[column]) for row in (HEADINGS, *rows))), widest)
        for column, (shortest, widest) in enumerate(zip(_SHORTEST, _WIDEST, strict=True))
    ]


def lines(
    rows: Sequence[Row], *, heading: bool, narrow: bool = False, widths: Sequence[int] = ()
) -> Iterator[str]:
    """Yield *rows* in columns, below the headings if they are wanted.

    The columns have *widths*, or what these rows need. In a *narrow* terminal, which cuts lines
    off, those come first that tell of trouble.
    """
    table: list[tuple[str, ...]] = [HEADINGS] if heading else []
    table += rows
    widths = widths or widths_of(rows)
    order = _NARROW if narrow else range(len(HEADINGS))
    for row in table:
        cells = [f"{row[at]}{' ' * (widths[at] - places(row[at]))}" for at in order]
        yield "  ".join(cells).rstrip()
