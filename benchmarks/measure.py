"""Slices by turns: all contenders of a case are alive, and each is measured for a moment.

What else the machine does then strikes all of them alike. In each round the order is shuffled, and
a ratio divides two figures of one round.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks import programs
from benchmarks.figures import (
    NothingCountedError,
    OverlapError,
    check_exclusive,
    percentile,
    summarise,
    turns,
)
from benchmarks.process import ROOT, fleet, processor_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self, TypeAlias

    from benchmarks.process import Agent
    from benchmarks.servers import Servers

    Measure: TypeAlias = Callable[["Setting", float, float], dict[str, float]]
    """Measures for so many seconds, after so many of warm-up."""

clock = time.monotonic
_LEAD = 0.2
"""Seconds in which every agent hears when to begin, and for which it goes on after the window."""
_SETTLE, _MOST_SETTLE = 0.02, 5.0
"""Seconds of warm-up for each worker, and at most: in the beginning all of them ask at once."""
_LONGER = (1, 4, 16)
"""Times the length of a slice in which nothing was counted."""
_REST = (0.005, 0.105)
"""Seconds between two hand-overs, so that a waiter that polls is met anywhere between two polls."""


@dataclass(frozen=True, slots=True)
class Case:
    """How many workers want a lock, and for how long.

    Attributes:
        processes: How many there are.
        workers: In each process.
        kind: Of the workers: "threads" or "tasks".
        work: Seconds for which a worker holds the lock.
    """

    processes: int
    workers: int
    kind: str = "threads"
    work: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes.

        Raises:
            ValueError: It is no case.
        """
        found = re.fullmatch(r"(\d+)x(\d+) (threads|tasks)(?:, ([\d.]+) ms)?", text)
        if found is None or not int(found[1]) or not int(found[2]):
            raise ValueError(f"{text!r} is not like '8x1 threads' or '4x100 tasks, 1 ms'")
        return cls(int(found[1]), int(found[2]), found[3], float(found[4] or 0) / 1000)

    def __str__(self) -> str:
        work = f", {self.work * 1000:g} ms" if self.work else ""
        return f"{self.processes}x{self.workers} {self.kind}{work}"


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer, and for interlock the checkout that it comes from."""

    peer: str
    code: Path = ROOT

    @property
    def name(self) -> str:
        """What is printed."""
        return self.peer if self.code == ROOT else f"{self.peer} (other)"


@dataclass(slots=True)
class Result:
    """What came of a contender in a case: the figures of each slice, or an error."""

    case: Case
    contender: Contender
    slices: list[dict[str, float]] = field(default_factory=list)
    error: str | None = None

    def fail(self, failure: Exception) -> None:
        """Take an error in place of figures that nobody should rely on."""
        self.error = f"{type(failure).__name__}: {failure}"
        self.slices.clear()


@dataclass(frozen=True, slots=True)
class Pace:
    """How many slices, and the seconds of each and of the warm-up before it."""

    slices: int
    seconds: float
    warmup: float = 0.3


@dataclass(frozen=True, slots=True)
class Setting:
    """A contender that stands ready in a case."""

    case: Case
    contender: Contender
    agents: Sequence[Agent]
    servers: Servers
    apart: bool


def measure_case(
    case: Case,
    contenders: Sequence[Contender],
    pace: Pace,
    servers: Servers,
    measure: Measure,
    *,
    apart: bool,
) -> list[Result]:
    """Measure all *contenders* in *case*; an error of one of them is its result."""
    results = [Result(case, contender) for contender in contenders]
    settle = min(_SETTLE * case.processes * case.workers, _MOST_SETTLE)
    warmup = pace.warmup if apart else max(pace.warmup, settle)
    with contextlib.ExitStack() as stack:
        settings: dict[str, Setting] = {}
        for result in results:
            _say(f"{case}: {result.contender.name} starts")
            try:
                setting = _start(stack, case, result.contender, servers, apart=apart)
                first = programs.WARMUP.get(result.contender.peer, warmup)
                contend(setting, first, 0.0, count=False)
            except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
                result.fail(failure)
            else:
                settings[result.contender.name] = setting
        for number in range(pace.slices):
            for result in random.sample(results, len(results)):
                if result.error is not None:
                    continue
                _say(f"{case}: slice {number + 1} of {pace.slices}, {result.contender.name}")
                setting = settings[result.contender.name]
                try:
                    result.slices.append(_slice(setting, measure, pace.seconds, warmup))
                except Exception as failure:  # noqa: BLE001 - as above
                    result.fail(failure)
    return results


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _start(
    stack: contextlib.ExitStack, case: Case, contender: Contender, servers: Servers, *, apart: bool
) -> Setting:
    opening = {
        "kind": case.kind,
        "url": servers.url(contender.peer),
        # Each contender has a name of its own, because all of them are alive.
        "name": f"{contender.name}, {case}".replace(" ", "-"),
        "apart": apart,
        "workers": case.workers,
        "work": case.work,
    }
    opened = fleet(contender.peer, contender.code, case.processes, opening)
    return Setting(case, contender, stack.enter_context(opened), servers, apart)


def _slice(setting: Setting, measure: Measure, seconds: float, warmup: float) -> dict[str, float]:
    for longer in _LONGER[:-1]:
        with contextlib.suppress(NothingCountedError):
            return measure(setting, seconds * longer, warmup)
    return measure(setting, seconds * _LONGER[-1], warmup)


def contend(
    setting: Setting, seconds: float, warmup: float, *, count: bool = True
) -> dict[str, float]:
    """Have all workers take turns, prove that no two held one lock, and sum up.

    Processor time and commands are those of the window in which turns count, for each turn.
    """
    peer, servers = setting.contender.peer, setting.servers
    begins = clock() + _LEAD
    ends = begins + warmup + seconds + _LEAD
    for agent in setting.agents:
        agent.send(do="contend", opens=begins, closes=ends)

    def look(at: float) -> tuple[float, ...]:
        # On a busy machine this process wakes late. So the window is from one look to the other.
        time.sleep(max(0.0, at - clock()))
        now, client = clock(), sum(processor_time(agent.pid) for agent in setting.agents)
        return (now, client, servers.processor_time(peer), *servers.sent())

    opens, *before = look(begins + warmup)
    closes, *after = look(opens + seconds)
    answers = [agent.receive(ends) for agent in setting.agents]
    workers = [turns(times) for answer in answers for times in answer["workers"]]
    if not setting.apart:
        check_exclusive(workers)
    if not count:
        return {}
    found = summarise(workers, opens, closes)
    each = [(late - early) / found["turns"] for early, late in zip(before, after, strict=True)]
    return {**found, **dict(zip(("client", "server", "scripts", "messages"), each, strict=True))}


def hand_over(setting: Setting, seconds: float, _warmup: float) -> dict[str, float]:
    """Pass the lock to and fro between two processes that rest in between."""
    if len(setting.agents) != 2 or setting.case.workers != 1:
        raise ValueError("a hand-over is between two processes with one worker each")
    holder, waiter = setting.agents
    delays: list[float] = []
    closes = clock() + seconds
    holder.ask(do="acquire")
    while clock() < closes or not delays:
        waiter.send(do="acquire")
        time.sleep(random.uniform(*_REST))
        released: float = holder.ask(do="release")["at"]
        got: float = waiter.receive()["at"]
        if got < released:
            raise OverlapError("the waiter had the lock before it was released")
        delays.append(got - released)
        holder, waiter = waiter, holder
    holder.ask(do="release")
    return {"p50": percentile(delays, 0.5), "p99": percentile(delays, 0.99)}
