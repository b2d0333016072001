"""The checker of conditions: each notification wakes one waiter, and is not lost.

Beside faults it may wake one too many.

Who calls `notify` holds the lock, and who calls `wait` held it. So a waiter is entered before a
later notification. Which waiter took which notification is not known: a matching must exist.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from .history import succeeded, value_of, who

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .history import Line
    from .meetings import Bounds

_ENOUGH = 6
"""Wake-ups that must be known before their speed is judged."""
_SLOW = 0.5
"""Seconds after which most waiters have heard of a notification, and have the lock."""
_ALL = 1_000_000
_MARGIN = 0.5
"""Seconds that must be left of a wait for it to count as waiting."""


class Notifications:
    """Judges the condition.

    Args:
        calls: All operations.
        disturbed: Whether a fault touches a time of a process; None means any process.
        bounds: What is allowed for.
    """

    def __init__(
        self,
        calls: Sequence[Line],
        disturbed: Callable[[float, float, str | None], bool],
        bounds: Bounds,
    ) -> None:
        self._waits = [call for call in calls if call["op"] == "cond-wait"]
        self._notifies = [call for call in calls if call["op"] == "cond-notify"]
        self._disturbed = disturbed
        self._bounds = bounds
        # For so long a waiter that is dead may have a notification.
        self._dead = bounds.lease + bounds.patience

    def findings(self) -> Iterator[str]:
        """Yield what is wrong, as sentences."""
        yield from self._invented()
        yield from self._lost()
        yield from self._missed()
        yield from self._slow()

    def _invented(self) -> Iterator[str]:
        """L-16: who was notified can be given a notification, each of its own.

        Who did not listen for a moment wakes without one.
        """
        woken = [
            wait
            for wait in self._waits
            if value_of(wait) is True
            and not self._disturbed(_begin(wait) - self._dead, _end(wait), None)
        ]
        chances = [_ALL if call["count"] < 0 else call["count"] for call in self._notifies]
        reach = [self._reach(call) for call in self._notifies]
        can = [
            [
                number
                for number, call in enumerate(self._notifies)
                if _begin(call) < _end(wait) and reach[number] > _begin(wait)
            ]
            for wait in woken
        ]
        for number in _unmatched(can, chances):
            wait = woken[number]
            yield (
                f"L-16 notified: {who(wait)} was woken at {_end(wait):.3f}, and no notification "
                "was left for it"
            )

    def _reach(self, call: Line) -> float:
        """Return the last time at which *call* may notify: a waiter may hand it on."""
        ends = [_end(call, self._bounds.lease)]
        for wait in self._waits:
            if (
                _begin(wait) < _end(call)
                and _end(wait) > _begin(call)
                and value_of(wait) is not True
            ):
                known = value_of(wait) is False and not self._disturbed(
                    _begin(wait), _end(wait), wait["p"]
                )
                ends += [] if known else [_end(wait) + 2 * self._bounds.lease]
        return max(ends)

    def _lost(self) -> Iterator[str]:
        """L-16: where somebody waits, a notification wakes somebody."""
        takers = [
            wait
            for wait in self._waits
            if value_of(wait) is True or not isinstance(value_of(wait), bool)
        ]
        due = [call for call in self._notifies if succeeded(call) and self._is_due(call)]
        can = [
            [n for n, wait in enumerate(takers) if _begin(wait) < _begin(call) < _end(wait, 60.0)]
            for call in due
        ]
        for number in _unmatched(can, [1] * len(takers)):
            call = due[number]
            yield f"L-16 notified: the notification of {who(call)} at {_end(call):.3f} woke nobody"

    def _missed(self) -> Iterator[str]:
        """L-16: a notification of all wakes each that waits."""
        for call in self._notifies:
            if call["count"] >= 0 or not succeeded(call):
                continue
            for wait in self._there(call):
                calm = not self._disturbed(_begin(wait) - self._dead, _end(wait), None)
                if calm and value_of(wait) is False:
                    yield (
                        f"L-16 notified: {who(wait)} waited until {_end(wait):.3f}, and all were "
                        f"notified at {_end(call):.3f}"
                    )

    def _there(self, call: Line) -> list[Line]:
        """Return the waits that certainly went on when *call* notified."""
        return [
            wait
            for wait in self._waits
            if _begin(wait) < _begin(call) and "ret" in wait and wait["ret"]["t"] > _end(call)
            if _begin(wait) + wait["patience"] > _end(call) + _MARGIN
        ]

    def _is_due(self, call: Line) -> bool:
        """Return whether certainly more waiters were there than other notifications."""
        there = self._there(call)
        if not there or call["count"] < 0:
            return False
        since = min(map(_begin, there))
        until = max(wait["ret"]["t"] for wait in there)
        if self._disturbed(since - self._dead, until, None):
            return False
        others = sum(
            _ALL if other["count"] < 0 else other["count"]
            for other in self._notifies
            if other is not call and _begin(other) < _end(call) and _end(other, 60.0) > since
        )
        return len(there) > others

    def _slow(self) -> Iterator[str]:
        """L-4: most of the time, a message wakes who is notified."""
        delays = []
        for call in self._notifies:
            if not succeeded(call) or self._disturbed(
                _begin(call) - self._dead, _end(call) + 2, None
            ):
                continue
            ends = [
                _end(wait)
                for wait in self._waits
                if value_of(wait) is True and _begin(wait) < _begin(call) - 0.1 < _end(wait)
                if _begin(wait) + wait["patience"] > _end(call) + _MARGIN
            ]
            if ends:
                delays.append(max(0.0, min(ends) - _end(call)))
        if len(delays) >= _ENOUGH and (usual := statistics.median(delays)) > _SLOW:
            yield (
                f"L-4 woken: after {len(delays)} notifications of the condition, waiters went on "
                f"after {usual:.2f} s, usually"
            )


def _unmatched(can: Sequence[Sequence[int]], room: Sequence[int]) -> list[int]:
    """Return who is left over when each of *can* takes one place of those it can have.

    It is a largest matching (augmenting paths), so nobody is left over without need.
    """
    taken: list[list[int]] = [[] for _ in room]

    def place(who: int, seen: set[int]) -> bool:
        for place_ in can[who]:
            if place_ in seen:
                continue
            seen.add(place_)
            if len(taken[place_]) < room[place_]:
                taken[place_].append(who)
                return True
            for at, other in enumerate(taken[place_]):
                if place(other, seen):
                    taken[place_][at] = who
                    return True
        return False

    return [who for who in range(len(can)) if not place(who, set())]


def _begin(call: Line) -> float:
    return float(call["t"])


def _end(call: Line, unknown: float = 0.0) -> float:
    """Return when *call* ended; one without an answer may go on for *unknown* seconds."""
    ret = call.get("ret")
    if ret is None:
        return float(call["t"]) + 60.0
    return float(ret["t"]) + (unknown if "error" in ret else 0.0)
