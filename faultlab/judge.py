"""The checker: judges a history. It shares no code with the library.

Two kinds of knowledge are kept apart. A hold is *certain* from the moment at which its owner knew
of it to the last moment at which its owner saw it valid. It is *possible* from the request to the
moment at which the server has certainly let go of it. Exclusion is judged by the first, waiting by
the second. Each rule says which faults excuse a breach of it.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .history import error_of, value_of
from .linear import Counter
from .meetings import Bounds, Meetings
from .objects import CAPACITY, OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .history import Line

LEASE = 4.0
POLL_CAP = 2.0
FAIR_WAIT = 3.0
PROMPT = 0.1
"""Seconds within which a waiter hears of a release."""
ENOUGH = 6
"""Releases that must be known before their speed is judged."""
PATIENCE = POLL_CAP + 1.5
"""Seconds after which a waiter has looked for itself, should the message be lost."""
NOTICED = LEASE / 3 + 1.5
"""Seconds after which a renewal has found that the hold is gone."""
FOUND = 1.0
"""Seconds within which a client has found the server, when that is there again."""
LATE = 2.5
"""Seconds that an answer may be late."""
COMMAND_TIMEOUT = 2.0
QUIET = 1.0
"""Seconds that must have passed since the last fault before the order of waiters is judged."""

EXPECTED = frozenset(
    {
        "AcquireTimeoutError",
        "HoldLostError",
        "BrokenBarrierError",
        "LatchDeletedError",
        "NotHeldError",
        "QuorumError",
        "ServerUnavailableError",
        "Struck",
        "CancelledError",
    }
)
"""Errors that a program must be ready for while faults happen."""
NOT_PROMPT = frozenset({"spin", "leased", "multi", "condition"})
"""Objects whose next holder is not told by a message of their own, or not alone."""
UNTOUCHED = frozenset({"ServerUnavailableError", "QuorumError"})
"""Errors that need a fault as their cause."""


@dataclass(slots=True)
class Hold:
    """One hold, as its owner saw it."""

    ident: str
    name: str
    process: str
    lane: str
    call: Line
    asked: float
    granted: float
    lease: float | None
    token: int | None
    beliefs: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    gone: Line | None = None
    ends: list[Line] = field(default_factory=list)

    @property
    def certain(self) -> tuple[float, float] | None:
        """Return from when to when its owner certainly believed in it."""
        return (self.granted, max(self.beliefs)) if self.beliefs else None

    @property
    def freed(self) -> Line | None:
        """Return the release or close that certainly ended it."""
        return next((end for end in self.ends if "ret" in end and "error" not in end["ret"]), None)


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which faults are excused: *process* None means all processes.

    What is lost is lost at any moment from *start* to *over*.
    """

    start: float
    end: float
    process: str | None
    loses: bool = False
    strike: bool = False
    over: float = 0.0

    def may_lose(self, asked: float, until: float) -> bool:
        """Return whether it may lose what was granted between *asked* and *until*."""
        return self.loses and asked < self.over and self.start < until


_Possible = tuple[float, float, int, "Line"]
"""From when to when, how much, and by which acquire."""


class Judge:
    """Judges one history; each of its calls has its ``ret`` if it returned."""

    def __init__(self, lines: Iterable[Line], *, exact: bool = True, epochs: bool = False) -> None:
        """Read *lines*.

        Args:
            lines: The history.
            exact: Whether no fault lost data, so that counters are judged.
            epochs: Whether failovers have epochs, so that none repeats a fencing token.
        """
        self.lines = list(lines)
        self.exact = exact
        self.epochs = epochs
        self.findings: list[str] = []
        self.calls: list[Line] = []
        self.holds: dict[str, Hold] = {}
        self.excuses: list[Span] = []
        self._read()

    def judge(self) -> list[str]:
        """Return what is wrong, as sentences that begin with the broken rule."""
        self._exclusion()
        self._losses()
        self._waits()
        self._messages()
        self._tokens()
        self._leaders()
        self._order()
        self._times()
        self._errors()
        self._depths()
        self._reacquired()
        self._processes()
        if not self.holds and not any(map(_succeeded, self.calls)):
            self.findings.append("L-0 busy: nothing was ever acquired")
        if self.exact:
            self.findings += Counter("permits", self.calls, self.excused).findings()
            self.findings += Counter("latch", self.calls, self.excused).findings()
            self.findings += Counter("event", self.calls, self.excused).findings()
            bounds = Bounds(LEASE, PATIENCE, PROMPT)
            self.findings += Meetings(self.calls, self._disturbed, bounds).findings()
        return self.findings

    def excused(
        self, start: float, end: float, process: str, *, strikes: bool = True, losses: bool = True
    ) -> bool:
        """Return whether a fault touches the time from *start* to *end* of *process*.

        A signal that raises is one only with *strikes*, what loses data only with *losses*.
        """
        return any(
            span.start < end and span.end > start
            for span in self.excuses
            if span.process in (None, process) and (strikes or not span.strike)
            if losses or not span.loses
        )

    def _read(self) -> None:
        by_number: dict[tuple[str, int], Line] = {}
        acquired: dict[tuple[str, str], Line] = {}
        for line in self.lines:
            kind = line["k"]
            if kind == "call":
                by_number[line["p"], line["n"]] = line
                self.calls.append(line)
                if line["op"] in ("release", "close", "cond-wait") and line.get("h") in self.holds:
                    self.holds[line["h"]].ends.append(line)
                if line["op"] in ("acquire", "cond-wait"):
                    acquired[line["p"], line["w"]] = line
            elif kind == "ret":
                by_number[line["p"], line["n"]]["ret"] = line
            elif kind == "held":
                self._held(line, acquired[line["p"], line["w"]])
            elif kind in ("belief", "told", "gone"):
                self._seen(line)
            elif kind in ("fault", "stall"):
                self._excuse(line)
            elif kind == "waited":
                acquired[line["p"], line["w"]]["waited"] = line

    def _held(self, line: Line, call: Line) -> None:
        self.holds[line["h"]] = Hold(
            line["h"],
            line["o"],
            line["p"],
            line["w"],
            call,
            call["t"],
            call["ret"]["t"],
            line["lease"],
            line["token"],
        )

    def _seen(self, line: Line) -> None:
        hold = self.holds[line["h"]]
        match line["k"]:
            case "belief":
                hold.beliefs.append(line["t"])
            case "told":
                hold.told.append(line["t"])
            case "gone":
                hold.gone = line

    def _excuse(self, line: Line) -> None:
        for process in line.get("who") or [line["p"] if line["k"] == "stall" else None]:
            # A process that stood still needs a moment until it has caught up.
            end = line["end"] + (1.0 if line["k"] == "stall" else 0.0)
            self.excuses.append(
                Span(
                    line["t"],
                    end,
                    process,
                    line.get("loses", False),
                    line.get("what") == "signal",
                    float(line.get("over") or line["end"]),
                )
            )

    def _exclusion(self) -> None:
        """L-1: no two owners believe in holds that exclude each other."""
        spans: dict[str, list[tuple[float, float, int, Hold]]] = defaultdict(list)
        spans_of_belief: dict[str, list[tuple[float, float, Hold]]] = defaultdict(list)
        for hold in self.holds.values():
            if hold.certain is None:
                continue
            start, end = hold.certain
            spans_of_belief[hold.name].append((start, end, hold))
            if OBJECTS[hold.name].unsafe:
                continue
            # A server that forgets ends what is promised of earlier holds.
            losses = [span.start for span in self.excuses if span.may_lose(hold.asked, end)]
            end = min([end, *losses])
            if end > start:
                for resource, weight in OBJECTS[hold.name].takes:
                    spans[resource].append((start, end, weight, hold))
        for resource, found in spans.items():
            found.sort(key=lambda span: span[0])
            active: list[tuple[float, float, int, Hold]] = []
            for span in found:
                active = [other for other in active if other[1] > span[0]] + [span]
                if sum(other[2] for other in active) > CAPACITY.get(resource, 1):
                    who = [(f"{s:.3f}-{e:.3f}", hold.ident) for s, e, _, hold in active]
                    self.findings.append(f"L-1 exclusion: {resource} has too many holders: {who}")

        for beliefs in spans_of_belief.values():
            self._false_beliefs(beliefs)

    def _false_beliefs(self, beliefs: list[tuple[float, float, Hold]]) -> None:
        """L-2: an owner learns at the next renewal that another has what was taken away."""
        for (_, end, one), (other_start, _, other) in itertools.combinations(
            sorted(beliefs, key=lambda span: span[0]), 2
        ):
            # The owner notices a loss of data soon after it, also while a fault goes on.
            losses = [span.over + FOUND for span in self.excuses if span.may_lose(one.asked, end)]
            since = max([other_start, *losses])
            both = end - since
            alone = CAPACITY.get(OBJECTS[one.name].takes[0][0], 1) == 1
            calm = not self.excused(since, end, one.process, losses=False)
            if alone and both > NOTICED and calm and one.lease is None:
                self.findings.append(
                    f"L-2 told: {one.ident} believed in {one.name} for {both:.2f} s "
                    f"after {other.ident} had it"
                )

    def _losses(self) -> None:
        """L-2, L-3: a loss is told, once and in time; and nothing is lost without a cause."""
        for hold in self.holds.values():
            gone = hold.gone
            if gone is not None and not gone["told"]:
                calm = not self.excused(gone["t"], gone["t"] + 3, hold.process)
                found = f"L-2 told: {hold.ident} was lost and `lost` not set"
                self.findings += [found] * calm
            if hold.gone is not None and not hold.told and not self._ended_soon(hold):
                self.findings.append(f"L-2 told: the callback of {hold.ident} was not called")
            if len(hold.told) > 1:
                self.findings.append(f"L-2 told: {hold.ident} was told {len(hold.told)} times")
            lost_at = self._lost_at(hold)
            if lost_at is None or OBJECTS[hold.name].unsafe:
                continue
            due = hold.lease is not None and lost_at >= hold.asked + hold.lease - 0.2
            if not due and not self.excused(hold.asked - LEASE, lost_at, hold.process):
                self.findings.append(
                    f"L-3 kept: {hold.ident} of {hold.name} was lost at {lost_at:.3f}, "
                    f"{lost_at - hold.granted:.3f} s after it was granted, without a fault"
                )

    def _ended_soon(self, hold: Hold) -> bool:
        """Return whether there was no time to call the callback."""
        assert hold.gone is not None
        at = hold.gone["t"]
        after = [line["t"] for line in self.lines if line["p"] == hold.process]
        return max(after) < at + 3 or self.excused(at, at + 3, hold.process)

    def _lost_at(self, hold: Hold) -> float | None:
        times = [hold.gone["t"]] if hold.gone else []
        times += [
            # It may have been lost while it was released, or while its owner waited.
            end["ret"]["t"]
            for end in hold.ends
            if error_of(end) in ("HoldLostError", "NotHeldError")
        ]
        # A release whose first reply was lost may find that it is released.
        if len(hold.ends) > 1 and not hold.gone:
            return None
        return min(times, default=None)

    def _possible(self) -> dict[str, list[_Possible]]:
        """Return for each resource when it may have been taken, and by which acquire."""
        spans: dict[str, list[_Possible]] = defaultdict(list)
        known = {id(hold.call): hold for hold in self.holds.values()}
        for call in self.calls:
            if call["op"] in ("acquire", "cond-wait"):
                hold = known.get(id(call))
                end = self._end(call, hold)
                for resource, weight in OBJECTS[call["o"]].takes:
                    if end > call["t"]:
                        spans[resource].append((call["t"], end, weight, call))
        return spans

    def _end(self, call: Line, hold: Hold | None) -> float:
        """Return when what *call* acquired was certainly free."""
        ret = call.get("ret")
        longest = max(call.get("lease") or 0, LEASE) + 1
        if hold is not None:
            if hold.freed is not None:
                return float(hold.freed["ret"]["t"])
            last = max([hold.granted, *hold.beliefs, *(e["t"] for e in hold.ends)])
            return float(last) + longest
        if ret is None:
            return float(call["t"]) + (call.get("timeout") or call.get("patience") or 0) + longest
        error = ret.get("error")
        if error in ("Struck", "CancelledError"):
            # What is interrupted leaves nothing behind, unless something else went wrong too.
            calm = not self.excused(call["t"], ret["t"] + 1, call["p"], strikes=False)
            return float(ret["t"]) + (0.2 if calm else longest)
        if error or ret["value"]:
            return float(ret["t"]) + longest
        return float(call["t"])

    def _waits(self) -> None:
        """L-4: nobody waits before a free lock."""
        possible = self._possible()
        for call in self.calls:
            if call["op"] != "acquire" or "ret" not in call or not call["timeout"]:
                continue
            start, end, takes = call["t"], call["ret"]["t"], OBJECTS[call["o"]].takes
            # With several resources all must be free at once.
            if end - start < PATIENCE or len(takes) != 1 or call["o"] == "spin":
                continue
            if self.excused(start, end, call["p"]):
                continue
            resource, weight = takes[0]
            others = [span for span in possible[resource] if span[3] is not call]
            if call["o"] == "read":
                others += self._writers_before(call)
            room = CAPACITY.get(resource, 1) - weight
            # A fair lock keeps the places of the dead, a fair_wait each.
            patience = PATIENCE + (3 * FAIR_WAIT if call["o"] == "fair" else 0)
            gap = _longest_gap(others, start, end, room)
            if gap > patience:
                self.findings.append(
                    f"L-4 woken: {call['p']}/{call['w']} waited for {call['o']}, "
                    f"free for {gap:.2f} s before {end:.3f}"
                )

    def _writers_before(self, reader: Line) -> list[_Possible]:
        """Return the waits for the write side in the process of *reader* that began before it.

        Readers that come later do not starve a writer of their own client.
        """
        return [
            (call["t"], call["ret"]["t"], CAPACITY["rw"], call)
            for call in self.calls
            if call["op"] == "acquire" and call["o"] == "write" and "ret" in call
            if call["p"] == reader["p"] and call["t"] < reader["t"]
        ]

    def _messages(self) -> None:
        """L-4: most of the time, a message wakes the next waiter at once.

        A lock that others wait for is soon taken when it is released. A loaded machine may be late,
        so the median counts.
        """
        acquires = [call for call in self.calls if call["op"] == "acquire" and "ret" in call]
        delays: dict[str, list[float]] = defaultdict(list)
        for hold in self.holds.values():
            takes = OBJECTS[hold.name].takes
            if hold.freed is None or hold.name in NOT_PROMPT:
                continue
            at = hold.freed["ret"]["t"]
            waiting = [
                call
                for call in acquires
                if call["t"] < at - 0.1 and call["ret"]["t"] > at and call["timeout"]
                if OBJECTS[call["o"]].takes[0][0] == takes[0][0]
                if call["t"] + call["timeout"] > at + 0.4
            ]
            calm = not self.excused(at - 2, at + POLL_CAP, hold.process)
            if waiting and calm and not self._held_by_others(hold, at):
                taken = [c["ret"]["t"] for c in acquires if value_of(c) is True]
                free = min([t for t in taken if t > at], default=at + POLL_CAP) - at
                delays[hold.name].append(min(free, POLL_CAP))
        for name, found in delays.items():
            usual = statistics.median(found)
            if len(found) >= ENOUGH and usual > PROMPT:
                self.findings.append(
                    f"L-4 woken: after {len(found)} releases of {name}, for which others waited, "
                    f"it was free for {usual:.2f} s, usually"
                )

    def _held_by_others(self, hold: Hold, at: float) -> bool:
        """Return whether another hold of the same thing may last beyond *at*."""
        resource = OBJECTS[hold.name].takes[0][0]
        return any(
            other.granted < at < self._end(other.call, other)
            for other in self.holds.values()
            if other is not hold and OBJECTS[other.name].takes[0][0] == resource
        )

    def _tokens(self) -> None:
        """L-5: fencing tokens grow from hold to hold."""
        holds = [hold for hold in self.holds.values() if hold.token is not None]
        for one, other in itertools.combinations(sorted(holds, key=lambda h: h.granted), 2):
            if one.name != other.name:
                continue
            first, second = one.token or 0, other.token or 0
            # A former primary may still grant; but no two holds have the same token.
            lost = any(span.may_lose(one.asked, other.granted) for span in self.excuses)
            wrong = self.epochs and first == second if lost else first >= second
            if one.granted < other.asked and wrong:
                self.findings.append(
                    f"L-5 tokens: {other.ident} has {other.token} after {one.ident} had {one.token}"
                )

    def _leaders(self) -> None:
        """L-15: who asks for the leader is told of the present term."""
        terms = [hold for hold in self.holds.values() if hold.name == "election" and hold.certain]
        for call in self.calls:
            if call["op"] != "leader" or not isinstance(value_of(call), int):
                continue
            begin, end, told = call["t"], call["ret"]["t"], call["ret"]["value"]
            for term in terms:
                start, last = term.certain or (0.0, 0.0)
                lost = any(span.may_lose(term.asked, end) for span in self.excuses)
                if lost or start > begin:
                    continue
                if (last > end and told != term.token) or 0 < told < (term.token or 0):
                    self.findings.append(
                        f"L-15 leader: {call['p']}/{call['w']} was told of {told} at {end:.3f}, "
                        f"while or after {term.ident} had {term.token}"
                    )

    def _disturbed(self, start: float, end: float, process: str | None) -> bool:
        """Return whether a fault touches that time of *process*; None means any process.

        A signal that raises disturbs nobody: what is interrupted leaves nothing behind.
        """
        if process is not None:
            return self.excused(start, end, process, strikes=False)
        return any(
            span.start < end and span.end > start for span in self.excuses if not span.strike
        )

    def _order(self) -> None:
        """L-6: a fair lock serves those who wait in the order of arrival."""
        fair = [
            call
            for call in self.calls
            if call["op"] == "acquire" and call["o"] == "fair" and value_of(call) is True
        ]
        for one, other in itertools.permutations(fair, 2):
            first, second = one["ret"]["t"], other["ret"]["t"]
            if one["t"] + 0.5 < other["t"] and second + 0.1 < first and (one["timeout"] or 0) >= 1:
                calm = not self.excused(one["t"] - QUIET, first, one["p"])
                if calm and not self.excused(one["t"] - QUIET, first, other["p"]):
                    self.findings.append(
                        f"L-6 order: {other['p']}/{other['w']} came {other['t'] - one['t']:.2f} s "
                        f"after {one['p']}/{one['w']} and was served before it"
                    )

    def _times(self) -> None:
        """L-7: an operation with a timeout ends in time."""
        for call in self.calls:
            if "timeout" not in call or "ret" not in call or call["timeout"] is None:
                continue
            took = call["ret"]["t"] - call["t"]
            bound = max(call["timeout"], COMMAND_TIMEOUT) + LATE
            stalled = any(
                span.process == call["p"] and span.start < call["ret"]["t"] and span.end > call["t"]
                for span in self.excuses
            )
            if took > bound and not stalled:
                self.findings.append(
                    f"L-7 in time: {call['op']} of {call['o']} by {call['p']} took {took:.2f} s"
                    f" with timeout {call['timeout']}"
                )

    def _errors(self) -> None:
        """L-8: no error but those that are documented, and no failure without a fault."""
        for call in self.calls:
            error = error_of(call)
            if error is None:
                continue
            told = call["ret"].get("text")
            text = f"{call['op']} of {call.get('o')} by {call['p']}: {error}: {told}"
            if error not in EXPECTED:
                self.findings.append(f"L-8 errors: {text}")
            elif error in UNTOUCHED and _patient(call):
                calm = not self.excused(call["t"] - 2, call["ret"]["t"], call["p"])
                self.findings += [f"L-8 errors: without a fault: {text}"] * calm

    def _depths(self) -> None:
        """L-9: the server counts the entries of an owner."""
        for call in self.calls:
            if call["op"] == "depth" and value_of(call) is not None and call["h"] in self.holds:
                hold = self.holds[call["h"]]
                calm = not self.excused(hold.asked - LEASE, call["ret"]["t"], hold.process)
                if calm and call["ret"]["value"] != call["wants"] and hold.gone is None:
                    self.findings.append(
                        f"L-9 depth: {hold.ident} of {hold.name} has {call['ret']['value']}, "
                        f"not {call['wants']}"
                    )

    def _reacquired(self) -> None:
        """L-16: after a wait for a condition an owner has the lock, or is told that it is lost."""
        for call in self.calls:
            waited = call.get("waited")
            if waited is None or waited["held"] or waited["error"] == "HoldLostError":
                continue
            if not self.excused(call["t"] - LEASE, waited["t"], call["p"], strikes=False):
                self.findings.append(
                    f"L-16 notified: {call['p']}/{call['w']} waited until {waited['t']:.3f} and "
                    f"does not hold the lock: {waited['error']}"
                )

    def _processes(self) -> None:
        """Report what processes and the lab found odd."""
        for line in self.lines:
            if line["k"] == "odd":
                self.findings.append(line["text"])


def _patient(call: Line) -> bool:
    """Return whether *call* failed long before its timeout; a slow disk may use up the rest."""
    timeout = call.get("timeout")
    return timeout is None or call["t"] + timeout - call["ret"]["t"] > 0.5


def _succeeded(call: Line) -> bool:
    """Return whether *call* did something; a refused acquire and a read do not count."""
    idle = ("acquire", "available", "count", "event-read", "waiting", "leader", "close")
    worked = call["op"] not in idle and "ret" in call and "error" not in call["ret"]
    return worked and call["ret"]["value"] is not False


def _longest_gap(spans: list[_Possible], start: float, end: float, room: int) -> float:
    """Return for how long at a stretch at most *room* was taken between *start* and *end*."""
    near = [span for span in spans if span[0] < end and span[1] > start]
    edges = {start, end} | {edge for span in near for edge in span[:2] if start < edge < end}
    best = run = 0.0
    for left, right in itertools.pairwise(sorted(edges)):
        taken = sum(span[2] for span in near if span[0] <= left and span[1] >= right)
        run = run + right - left if taken <= room else 0.0
        best = max(best, run)
    return best
