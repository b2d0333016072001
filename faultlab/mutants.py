"""Deliberate mistakes in the library: the lab and its checker must find each of them.

Most of them are those of `tools.must_die` with the same name. A mistake changes the meaning of a
function or script in a copy of the sources. The workers import the copy.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import must_die

from .mistakes import Call, Condition, Mistake, Value
from .process import ROOT
from .run import Plan, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

# A call that changes nothing, in the place of a message.
_SILENT = Call("PUBLISH", "redis.call('exists', KEYS[1])")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, the rule of the checker that is about it, and the `Plan` in which it shows."""

    name: str
    rule: str
    mistake: Mistake
    objects: Sequence[str]
    faults: Sequence[str] = ()
    arena: str = "single"
    seconds: float = 10.0
    lanes: int = 4
    apart: bool = False


_KNOWN = {each.name: each.mistake for each in must_die.MUTANTS}


def _m(name: str, rule: str, objects: str, faults: Sequence[str] = (), **options: Any) -> Mutant:
    mistake = options.pop("mistake", None) or _KNOWN[name.partition(",")[0]]
    return Mutant(name, rule, mistake, objects.split(), faults, **options)


MUTANTS = (
    _m("an acquire takes what is taken", "L-1", "plain"),
    _m("an acquire sets no lease", "L-12", "plain", ("kill -9",), seconds=30),
    _m("an inner release frees the lock", "L-3", "plain",
       mistake=Mistake("_core/parts/down", Condition("held depth 0", "$0 and depth ~= '1'"))),
    _m("a message wakes nobody", "L-4", "plain", seconds=30, lanes=1),
    _m("a renewal keeps what is another's", "L-2", "forced", seconds=25),
    _m("a renewal renews nothing", "L-3", "plain", seconds=15),
    _m("a fair lock is for anybody", "L-6", "fair"),
    _m("a fair lock serves the last who came", "L-6", "fair"),
    _m("a token stays the same", "L-5", "fenced"),
    _m("the last reader wakes no writer", "L-4", "write read write",
       seconds=60, lanes=1, apart=True),
    _m("a reader enters beside a writer", "L-1", "read write"),
    _m("a writer enters beside a reader", "L-1", "read write"),
    _m("a group lock looks at its first value only", "L-1", "group-ab group-bc",
       mistake=Mistake("_core/group_acquire", Condition("owner", "owner and i == FIRST"))),
    _m("a group lock wakes nobody", "L-4", "group-ab", seconds=30, lanes=1,
       mistake=Mistake("_core/group_release", _SILENT)),
    _m("permits run below zero", "L-11", "permits"),
    _m("a repeated release of a permit counts twice", "L-11", "permits", ("lost reply",),
       seconds=15, mistake=Mistake("_core/semaphore_change", Value("last", "''"))),
    _m("permits of a leased semaphore run below zero", "L-1", "leased"),
    _m("leased permits are not renewed", "L-3", "leased", seconds=15,
       mistake=Mistake("_core/permits_renew", Call("zadd", "redis.call('zscore', $1, $3)"))),
    _m("a latch counts down by two", "L-11", "latch"),
    _m("a latch that has a count is set again", "L-11", "latch"),
    _m("an event that is set wakes nobody", "L-4", "event", seconds=20, lanes=1),
    _m("an event stays set", "L-11", "event"),
    _m("a waiter misses a setting after which it is cleared at once", "L-4", "event",
       seconds=30, lanes=1),
    _m("all pass before the last has come", "L-13", "barrier"),
    _m("a barrier that is passed wakes nobody", "L-4", "barrier", seconds=25, lanes=1,
       mistake=Mistake("_core/parts/barrier", _SILENT)),
    _m("a party that leaves is counted on", "L-13", "barrier", ("signal",), seconds=40, lanes=1,
       mistake=Mistake("_core/barrier_end", Call("zrem", "redis.call('zscore', $1, $2)"))),
    _m("an election tells of a former leader", "L-15", "election",
       mistake=Mistake(
           "_core/election_query", Condition("known 1 hexists election 0", "not known[1]"))),
    _m("a wait ends without the lock", "L-16", "condition"),
    _m("an acquire takes what is taken, while replicas are promoted", "L-1", "plain",
       ("failover, asked for", "primary stopped"), arena="sentinel", seconds=20),
    _m("a hold is believed for longer than its lease", "L-1", "plain", ("SIGSTOP", "refused"),
       seconds=20, mistake=Mistake("_core.model.hold:Hold.grant", Value("until", "9 + $0"))),
    _m("a minority is enough", "L-1", "red", arena="five"),
    _m("a loss is not noticed", "L-2", "forced", seconds=30,
       mistake=Mistake("_core.upkeep.watchdog:Watchdog.answered",
                       Call("gone", "hold.grant(renewal.sent_at, self._lease)"))),
)  # fmt: skip


def hunt(mutant: Mutant, binary: Path, seed: int) -> list[str]:
    """Attack the library with the mistake; return what was found."""
    with tempfile.TemporaryDirectory() as sources:
        mutant.mistake.make(ROOT / "src", Path(sources))
        plan = Plan(
            mutant.arena,
            binary,
            seed,
            mutant.seconds,
            objects=mutant.objects,
            faults=mutant.faults,
            path=(sources,),
            odd=False,
            lanes=mutant.lanes,
            apart=mutant.apart,
            settle=2.0,
        )
        return Run(plan).run().findings
