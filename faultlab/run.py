"""One run: servers, processes, faults, and the history that the checker judges."""

from __future__ import annotations

import collections
import contextlib
import json
import random
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from .arena import ARENAS, LEASE, Arena, Fault
from .failovers import Watch
from .history import Line, Recorder, load, save
from .judge import Judge
from .process import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPTIONS = {
    "lease": LEASE,
    "fair_wait": 3.0,
    "command_timeout": 2.0,
    "outage_timeout": 6.0,
}


@dataclass(frozen=True)
class Plan:
    """What a run is to do.

    Attributes:
        arena: The servers.
        binary: Of all servers.
        seed: Decides what programs do and which faults come.
        seconds: How long faults happen.
        objects: The objects that programs use; all that the arena has unless given.
        faults: The faults; all unless given.
        path: Where the library is imported from, in front of everything else.
        lanes: Owners in each process.
        odd: Whether callbacks raise, exit and hang.
        settle: Seconds without faults at the end.
        apart: Whether each process uses one object only, in the order of *objects*.
    """

    arena: str
    binary: Path
    seed: int
    seconds: float
    objects: Sequence[str] = ()
    faults: Sequence[str] | None = None
    path: Sequence[str] = ()
    lanes: int = 4
    odd: bool = True
    settle: float = 8.0
    apart: bool = False


@dataclass
class Outcome:
    """What a run came to: what is wrong, and how often what was done."""

    findings: list[str]
    done: collections.Counter[str]
    history: list[Line] = field(repr=False)


class Run:
    """One run of *plan*."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.done: collections.Counter[str] = collections.Counter()
        self._chance = random.Random(f"{plan.seed} faults")
        self._home = Path(tempfile.mkdtemp(prefix="faultlab-"))
        self._note = Recorder(self._home / "lab.jsonl", "lab")
        self._slots: list[Slot] = []
        self._killed: set[str] = set()

    def run(self) -> Outcome:
        """Do it all, and leave nothing behind."""
        # A process inherits this, so that no signal ends it before its handler is there.
        former = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        try:
            with contextlib.ExitStack() as stack:
                arena = stack.enter_context(ARENAS[self.plan.arena](self.plan.binary))
                stack.callback(self._end_all)
                problems = self._play(arena)
            lines = load(sorted(self._home.glob("*.jsonl")))
            findings = problems + Judge(lines, exact=arena.exact, epochs=arena.epochs).judge()
            self._count(lines)
            return Outcome(findings, self.done, lines)
        finally:
            signal.signal(signal.SIGUSR1, former)
            shutil.rmtree(self._home)

    def _play(self, arena: Arena) -> list[str]:
        plan = self.plan
        for number, face in enumerate(("sync", "asyncio", "sync")):
            config = self._config(arena, face, number)
            self._slots.append(Slot(f"{face}{number}", config, self._home))
            self._slots[-1].start()
        for slot in self._slots:
            slot.wait_for_start()
        until = time.monotonic() + plan.seconds + plan.settle
        # All begin when this file is there; who comes later, in the place of the dead, at once.
        partial = self._home / "until.new"
        partial.write_text(str(until))
        partial.rename(self._home / "until")
        with self._watch(arena):
            self._trouble(arena, until - plan.settle)
            arena.heal()
            problems = [text for slot in self._slots for text in slot.finish(until)]
        return problems + self._closed(arena) + self._left_over(arena)

    def _config(self, arena: Arena, face: str, number: int) -> dict[str, Any]:
        plan = self.plan
        # In an event loop a callback that hangs or exits stops the program, by asyncio's rules.
        odd = ["raise", "exit", "hang"] if face == "sync" else ["raise"]
        manners = ["plain"] * 4 + (odd if plan.odd else [])
        objects = [name for name in (plan.objects or arena.objects) if name in arena.objects]
        if plan.apart:
            objects = [objects[number % len(objects)]]
        return {
            "face": face,
            "urls": arena.urls(f"slot{number}"),
            "seed": plan.seed,
            "until": str(self._home / "until"),
            "lanes": plan.lanes,
            "objects": objects,
            "options": OPTIONS,
            "manners": manners,
            "path": list(plan.path),
        }

    def _watch(self, arena: Arena) -> contextlib.AbstractContextManager[object]:
        """Watch for failovers where there can be one: nothing else tells what they may lose."""
        if arena.fleet:
            return Watch(arena.fleet, arena.primaries, self._note)
        return contextlib.nullcontext()

    def _trouble(self, arena: Arena, end: float) -> None:
        """Make faults until *end*."""
        faults = {
            **{name: self._of_arena(fault) for name, fault in arena.faults.items()},
            "kill -9": self._kill,
            "SIGSTOP": self._stop,
            "signal": self._strike,
        }
        if self.plan.faults is not None:
            faults = {name: faults[name] for name in self.plan.faults}
        time.sleep(min(2.0, self.plan.seconds))
        while (left := end - time.monotonic()) > 0:
            if faults:
                name = self._chance.choice(list(faults))
                faults[name](name)
                self.done[f"fault: {name}"] += 1
            time.sleep(min(left, self._chance.uniform(0.2, 1.5)))
        for slot in self._slots:
            if slot.is_stopped:
                slot.resume()

    def _of_arena(self, fault: Fault) -> Callable[[str], None]:
        def make(name: str) -> None:
            began = time.monotonic()
            try:
                fault.make(self._chance)
            except (TimeoutError, redis.RedisError) as error:
                # The servers did not do what they were told; what they did is a fault as well.
                self.done[f"in vain: {name}: {error}"[:100]] += 1
            over = time.monotonic()
            self._note.note(
                "fault",
                t=began - 0.1,
                end=over + fault.grace,
                over=over,
                what=name,
                loses=fault.loses,
            )

        return make

    def _running(self) -> Slot:
        return self._chance.choice(
            [slot for slot in self._slots if not slot.is_stopped] or self._slots
        )

    def _kill(self, name: str) -> None:
        slot, now = self._running(), time.monotonic()
        self._note.note("fault", t=now, end=now + 1, what=name, who=[slot.present])
        slot.kill()
        slot.start()

    def _stop(self, name: str) -> None:
        slot = self._running()
        if slot.is_stopped:
            return
        seconds, now = self._chance.choice((0.3, 1.0, LEASE / 2, 1.5 * LEASE)), time.monotonic()
        self._note.note("fault", t=now, end=now + seconds + 2, what=name, who=[slot.present])
        slot.stop_for(seconds)

    def _strike(self, name: str) -> None:
        slot, now = self._running(), time.monotonic()
        # It disturbs nobody: what is interrupted leaves nothing behind.
        self._note.note("fault", t=now, end=now, what=name, who=[slot.present])
        slot.strike()

    def _end_all(self) -> None:
        for slot in self._slots:
            slot.kill()

    def _closed(self, arena: Arena) -> list[str]:
        """L-10: a client that was closed has given back what it held."""
        lines = load(sorted(self._home.glob("*.jsonl")))
        closes = {
            (line["p"], line["n"]): line["client"]
            for line in lines
            if line["k"] == "call" and line["op"] == "close"
        }
        faults = [line["end"] for line in lines if line["k"] in ("fault", "stall")]
        calm = max(faults, default=0.0)
        closed = {
            closes[line["p"], line["n"]]
            for line in lines
            if line["k"] == "ret" and (line["p"], line["n"]) in closes
            if "error" not in line and line["t"] > calm + 2
        }
        return [
            f"L-10 ends: {key} still has {holder!r}, whose client was closed"
            for key, (_, _, fields) in arena.keys().items()
            for holder in fields
            if holder.partition(":")[0] in closed
        ]

    def _left_over(self, arena: Arena) -> list[str]:
        """L-12: when all leases are over, only what is documented is left."""
        stays = (
            "redisson_lock_token",
            "interlock_election_leader",
            "interlock_event",
            "interlock_barrier",
            "interlock_semaphore_total",
            "permits",
            "{leased}",
            "leased",
            "latch",
            "redisson_lock_queue",
            "redisson_lock_timeout",
        )
        left = arena.keys()
        return [
            f"L-12 left: {key} has no TTL: {fields}"
            for key, (_, ttl, fields) in left.items()
            if ttl == -1 and not key.partition(":")[2].startswith(stays)
        ]

    def _count(self, lines: list[Line]) -> None:
        for line in lines:
            if line["k"] == "call":
                self.done[f"call: {line['op']}"] += 1
            elif line["k"] == "fault" and line["what"] == "failover seen":
                self.done["failovers seen"] += 1
                self.done["milliseconds of them"] += round(1000 * (line["over"] - line["t"]))
            elif line["k"] in ("held", "told", "gone", "stall", "torn", "struck"):
                self.done[line["k"]] += 1


def report(outcome: Outcome, keep: Path) -> None:
    """Print what a run did, and write its history to *keep*."""
    keep.parent.mkdir(parents=True, exist_ok=True)
    save(outcome.history, keep)
    print(json.dumps(dict(sorted(outcome.done.items()))))
    for finding in outcome.findings:
        print("FOUND", finding)
    print(f"{len(outcome.findings)} findings; history: {keep}", flush=True)
