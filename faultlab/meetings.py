"""The checker of the barrier, of the event's waiters, and of what is told of a leader.

Like the rest of the checker it shares no code with the library.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .history import error_of, succeeded, who
from .objects import PARTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .history import Line

_ENOUGH = 6
"""Wake-ups that must be known before their speed is judged."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the checker allows for, in seconds.

    Attributes:
        lease: Of a party that is dead.
        patience: Until a waiter has looked for itself, should a message be lost.
        prompt: Within which a waiter hears a message.
    """

    lease: float
    patience: float
    prompt: float


@dataclass(frozen=True, slots=True)
class Party:
    """One call of a barrier's ``wait``, until its arrival has certainly ended.

    Its index is None if it did not return. It is unknown whether the others have passed with it if it
    may be so, and it does not say so.
    """

    call: Line
    begin: float
    end: float
    index: int | None
    is_unknown: bool

    def meets(self, other: Party) -> bool:
        """Return whether both may have waited at the same moment."""
        return self.begin < other.end and other.begin < self.end


class Meetings:
    """Judges the barrier and the event.

    Args:
        calls: All operations.
        excused: Whether a fault touches a time of a process; None means any process.
        bounds: What is allowed for.
    """

    def __init__(
        self,
        calls: Sequence[Line],
        excused: Callable[[float, float, str | None], bool],
        bounds: Bounds,
    ) -> None:
        self._calls = calls
        self._excused = excused
        self._bounds = bounds
        self._parties = [self._party(call) for call in calls if call["op"] == "meet"]

    def findings(self) -> Iterator[str]:
        """Yield what is wrong, as sentences."""
        yield from self._together()
        yield from self._stuck()
        yield from self._broken()
        yield from self._counted()
        yield from self._slow("barrier", list(self._barrier_delays()))
        yield from self._slow("event", list(self._event_delays()))
        yield from self._missed()

    def _party(self, call: Line) -> Party:
        ret, error = call.get("ret"), error_of(call)
        if ret is None:
            end = call["t"] + call["timeout"] + self._bounds.lease + 2
            return Party(call, call["t"], end, None, is_unknown=True)
        if error is None:
            return Party(call, call["t"], ret["t"], ret["value"], is_unknown=False)
        if error == "BrokenBarrierError":
            return Party(call, call["t"], ret["t"], None, is_unknown=False)
        # An arrival without an answer stays until it is taken back, at the latest for its lease.
        is_struck = error in ("Struck", "CancelledError")
        calm = is_struck and not self._excused(call["t"], ret["t"] + 1, call["p"])
        end = ret["t"] + (0.2 if calm else self._bounds.lease + 1)
        return Party(call, call["t"], end, None, is_unknown=True)

    def _together(self) -> Iterator[str]:
        """L-13: who passes has met all others, each with an index of its own."""
        passed = [party for party in self._parties if party.index is not None]
        unknown = [party for party in self._parties if party.is_unknown]
        for party in passed:
            for index in set(range(PARTIES)) - {party.index}:
                others = [other for other in passed if other.index == index]
                if not any(party.meets(other) for other in (*others, *unknown)):
                    yield (
                        f"L-13 together: {who(party.call)} passed the barrier as {party.index} "
                        f"before {party.end:.3f}, and none as {index}"
                    )
        counts = [sum(party.index == index for party in passed) for index in range(PARTIES)]
        if sum(counts) != len(passed):
            yield f"L-13 together: a party passed with an index beyond {PARTIES - 1}"
        if max(counts) * PARTIES > len(passed) + len(unknown):
            yield f"L-13 together: the barrier was passed {counts} times, by index"

    def _stuck(self) -> Iterator[str]:
        """L-4: as many as the barrier wants do not wait together for long."""
        done = [party for party in self._parties if "ret" in party.call]
        for party in done:
            start = party.begin
            there = [p for p in done if p.begin <= start and p.call["ret"]["t"] > start]
            if len(there) < PARTIES:
                continue
            end = sorted((p.call["ret"]["t"] for p in there), reverse=True)[PARTIES - 1]
            if end - start > self._bounds.patience and not any(
                self._excused(start - 1, end, p.call["p"]) for p in there
            ):
                yield (
                    f"L-4 woken: {len(there)} parties waited together until {end:.3f}, "
                    f"for {end - start:.2f} s"
                )

    def _broken(self) -> Iterator[str]:
        """L-14: a barrier breaks by a timeout, a call, or the death of a party."""
        for party in self._parties:
            if error_of(party.call) != "BrokenBarrierError":
                continue
            resets = [
                call["t"]
                for call in self._calls
                if call["op"] == "reset" and succeeded(call) and call["ret"]["t"] < party.begin
            ]
            since = max(resets, default=float("-inf"))
            if not self._has_cause(since, party.end):
                yield f"L-14 broken: {who(party.call)} found the barrier broken at {party.end:.3f}"

    def _has_cause(self, since: float, until: float) -> bool:
        for call in self._calls:
            if call["op"] in ("abort", "reset") and call["t"] < until:
                end = call["ret"]["t"] if succeeded(call) else call["t"] + 30
                # The reset that mended the barrier is no cause.
                if end > since and call["t"] > since:
                    return True
        for party in self._parties:
            late = party.begin + party.call["timeout"] - 0.1
            if late < until and party.end > since and (party.is_unknown or party.end >= late):
                return True
        return self._excused(since - 1, until, None)

    def _counted(self) -> Iterator[str]:
        """L-13: no more parties are counted than there may be."""
        for call in self._calls:
            if call["op"] != "waiting" or not succeeded(call):
                continue
            value, begin, end = call["ret"]["value"], call["t"], call["ret"]["t"]
            there = sum(party.begin < end and party.end > begin for party in self._parties)
            if value > min(there, PARTIES - 1):
                yield f"L-13 together: {who(call)} counted {value} parties, of {there}"

    def _barrier_delays(self) -> Iterator[float]:
        """Yield how long after the arrival of the last party the others went on."""
        passed = [party for party in self._parties if party.index is not None]
        for last in passed:
            if last.index != PARTIES - 1 or self._excused(last.begin - 2, last.end + 2, None):
                continue
            for index in range(PARTIES - 1):
                ends = [p.end for p in passed if p.index == index and p.meets(last)]
                if ends:
                    yield max(0.0, min(ends) - last.end)

    def _event_delays(self) -> Iterator[float]:
        """Yield how long after a setting those who waited went on."""
        waits = [call for call in self._calls if call["op"] == "event-wait" and succeeded(call)]
        for call in self._calls:
            if call["op"] != "event-set" or not succeeded(call):
                continue
            set_at = call["ret"]["t"]
            if self._excused(call["t"] - 2, set_at + 2, None):
                continue
            for wait in waits:
                began, end = wait["t"], wait["ret"]["t"]
                is_patient = began + wait["timeout"] > set_at + 0.4
                if began < call["t"] - 0.1 and end > call["t"] and is_patient:
                    yield max(0.0, end - set_at)

    def _slow(self, name: str, delays: list[float]) -> Iterator[str]:
        """L-4: most of the time, a message wakes those who wait."""
        if len(delays) >= _ENOUGH and (usual := statistics.median(delays)) > self._bounds.prompt:
            yield (
                f"L-4 woken: at the {name}, {len(delays)} times, "
                f"waiters went on after {usual:.2f} s"
            )

    def _missed(self) -> Iterator[str]:
        """L-4: a waiter does not miss a setting, not even one that is cleared at once."""
        sets = [call for call in self._calls if call["op"] == "event-set" and succeeded(call)]
        waits = [call for call in self._calls if call["op"] == "event-wait" and succeeded(call)]
        for call, wait in itertools.product(sets, waits):
            set_at, end = call["ret"]["t"], wait["ret"]["t"]
            if wait["t"] + 0.3 < call["t"] and end > set_at + self._bounds.patience:
                calm = not self._excused(wait["t"] - 1, end, wait["p"])
                if calm and not self._excused(wait["t"] - 1, end, call["p"]):
                    yield f"L-4 woken: {who(wait)} waited until {end:.3f}, set at {set_at:.3f}"
