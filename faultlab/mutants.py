"""Deliberate mistakes in the library: the lab and its checker must find each of them.

A mistake changes the meaning of a function or script in a copy of the sources. The workers import
the copy.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .leftovers import PREFIX
from .mistakes import Call, Change, Condition, Mistake, Result, Value
from .process import ROOT
from .run import Plan, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

# A call that changes nothing, in the place of a message.
_SILENT = Call("PUBLISH", "redis.call('exists', KEYS[1])")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, and where it shows.

    Attributes:
        name: What the library does wrong.
        rule: The rule of the checker that is about it.
        mistake: What is changed in the library.
        objects: The objects that programs use.
        faults: The faults that happen.
        arena: The servers.
        seconds: How long.
        lanes: Owners in each process.
        apart: Whether each process uses one object only.
    """

    name: str
    rule: str
    mistake: Mistake
    objects: Sequence[str]
    faults: Sequence[str] = ()
    arena: str = "single"
    seconds: float = 10.0
    lanes: int = 4
    apart: bool = False


def _m(
    name: str,
    rule: str,
    where: str,
    change: Change,
    objects: str,
    faults: Sequence[str] = (),
    **options: Any,
) -> Mutant:
    return Mutant(name, rule, Mistake(where, change), objects.split(), faults, **options)


MUTANTS = (
    _m("an acquire takes what is taken", "L-1", "_core/lock_acquire",
       Condition("free hexists lock holder 0", "false"), "plain"),
    _m("an acquire sets no lease", "L-12", "_core/lock_acquire",
       Call("pexpire", "redis.call('persist', $1)"), "plain", ("kill -9",), seconds=30),
    _m("an inner release frees the lock", "L-3", "_core/parts/down",
       Condition("held depth 0", "$0 and depth ~= '1'"), "plain"),
    _m("a release wakes nobody", "L-4", "_core/parts/queue", _SILENT, "plain", seconds=30, lanes=1),
    _m("a renewal keeps what others hold", "L-2", "_core/lock_renew",
       Call("hexists", "1"), "forced", seconds=25),
    _m("a renewal renews nothing", "L-3", "_core/lock_renew",
       Call("pexpire", "redis.call('pttl', $1)"), "plain", seconds=15),
    _m("a fair lock goes to the next who asks", "L-6", "_core/fair_ask",
       Value("turn", "free"), "fair"),
    _m("a fair lock serves the last who came", "L-6", "_core/fair_ask",
       Call("rpush", "redis.call('lpush', $1, $2) * 0 + 1"), "fair"),
    _m("a fencing token stays the same", "L-5", "_core/parts/draw",
       Call("incrby", "redis.call('incrby', $1, math.max(1 - last, 0))"), "fenced"),
    _m("the last reader wakes no writer", "L-4", "_core/parts/let_in",
       _SILENT, "write read write", seconds=60, lanes=1, apart=True),
    _m("a reader enters while somebody writes", "L-1", "_core/read_acquire",
       Value("open", "mode", which=2), "read write"),
    _m("a writer enters while somebody reads", "L-1", "_core/write_acquire",
       Condition("free hexists lock holder 0", "false"), "read write"),
    _m("a group lock looks at its first value only", "L-1", "_core/group_acquire",
       Condition("owner", "owner and i == FIRST"), "group-ab group-bc"),
    _m("a group lock wakes nobody", "L-4", "_core/group_release",
       _SILENT, "group-ab", seconds=30, lanes=1),
    _m("a semaphore gives what it does not have", "L-11", "_core/semaphore_acquire",
       Value("left", "math.max($0, 0)"), "permits"),
    _m("a repeated release of a permit counts twice", "L-11", "_core/semaphore_change",
       Value("last", "''"), "permits", ("lost reply",), seconds=15),
    _m("a leased semaphore gives more permits than it has", "L-1", "_core/parts/leased",
       Value("free", "($0) + 1", which=2), "leased"),
    _m("leased permits are not renewed", "L-3", "_core/permits_renew",
       Call("zadd", "redis.call('zscore', $1, $3)"), "leased", seconds=15),
    _m("a latch counts down by two", "L-11", "_core/latch_change",
       Call("decr", "redis.call('decrby', $1, 2)"), "latch"),
    _m("a latch that has a count is set again", "L-11", "_core/latch_change",
       Value("sets", "how == 'make' or $0"), "latch"),
    _m("an event that is set wakes nobody", "L-4", "_core/event_change",
       _SILENT, "event", seconds=20, lanes=1),
    _m("an event stays set", "L-11", "_core/event_change",
       Call("set", "redis.call('exists', $1)", which=2), "event"),
    _m("a waiter misses a setting that is cleared at once", "L-4", "_core.objects.gate:Gate.lets",
       Result("state.left <= 0"), "event", seconds=30, lanes=1),
    _m("a barrier lets parties through before the last one", "L-13", "_core/barrier_arrive",
       Condition("zcard waiting parties", "redis.call('zcard', waiting) < parties - 1"), "barrier"),
    _m("a barrier that is passed wakes nobody", "L-4", "_core/parts/barrier",
       _SILENT, "barrier", seconds=25, lanes=1),
    _m("a party that leaves is counted on", "L-13", "_core/barrier_end",
       Call("zrem", "redis.call('zscore', $1, $2)"), "barrier", ("signal",), seconds=40, lanes=1),
    _m("an election tells of a former leader", "L-15", "_core/election_query",
       Condition("known 1 hexists election 0", "not known[1]"), "election"),
    _m("a wait for a condition ends without the lock", "L-16",
       "_core.objects.condition:WaitFor.rest",
       Call("_hold_again", "()"), "condition"),
    _m("an acquire takes what is taken, while replicas are promoted", "L-1", "_core/lock_acquire",
       Condition("free hexists lock holder 0", "false"),
       "plain", ("failover, asked for", "primary stopped"), arena="sentinel", seconds=20),
    _m("a hold is believed for longer than its lease", "L-1", "_core.model.hold:Hold.grant",
       Value("until", "9 + $0"), "plain", ("SIGSTOP", "refused"), seconds=20),
    _m("a red lock is content with a minority", "L-1", "_core.locks.red_lock:RedLock.__init__",
       Call("__init__", "super().__init__($1, len(members) // 2)"), "red", arena="five"),
    _m("a loss is not noticed", "L-2", "_core.upkeep.watchdog:Watchdog.answered",
       Call("gone", "hold.grant(renewal.sent_at, self._lease)"), "forced", seconds=30),
)  # fmt: skip


def hunt(mutant: Mutant, binary: Path, seed: int) -> list[str]:
    """Attack the library with the mistake; return what was found."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as sources:
        mutant.mistake.make(ROOT / "src", Path(sources))
        return Run(plan(mutant, binary, seed, (sources,))).run().findings


def plan(mutant: Mutant, binary: Path, seed: int, path: Sequence[str] = ()) -> Plan:
    """Return the run that finds *mutant*; without *path* it attacks the library as it is."""
    return Plan(
        mutant.arena,
        binary,
        seed,
        mutant.seconds,
        objects=mutant.objects,
        faults=mutant.faults,
        path=path,
        odd=False,
        lanes=mutant.lanes,
        apart=mutant.apart,
        settle=2.0,
    )
