"""Deliberate mistakes in the library: the lab and its checker must find each of them.

A mistake is a change of text in a copy of the sources. The workers import the copy.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .leftovers import PREFIX
from .process import ROOT
from .run import Plan, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

_LUA = "_core/lua"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, and where it shows.

    Attributes:
        name: What the library does wrong.
        rule: The rule of the checker that is about it.
        file: Inside ``src/interlock``.
        right: What the file says, once.
        wrong: What the mistake says.
        objects: The objects that programs use.
        faults: The faults that happen.
        arena: The servers.
        seconds: How long.
        lanes: Owners in each process.
        apart: Whether each process uses one object only.
    """

    name: str
    rule: str
    file: str
    right: str
    wrong: str
    objects: Sequence[str]
    faults: Sequence[str] = ()
    arena: str = "single"
    seconds: float = 10.0
    lanes: int = 4
    apart: bool = False


MUTANTS = (
    Mutant(
        "an acquire takes what is taken",
        "L-1",
        f"{_LUA}/lock_acquire.lua",
        "if not ours and not free then",
        "if not ours and not free and depth ~= '1' then",
        ("plain",),
    ),
    Mutant(
        "an acquire sets no lease",
        "L-12",
        f"{_LUA}/lock_acquire.lua",
        "if free or redis.call('pttl', lock) < tonumber(lease) then\n"
        "  redis.call('pexpire', lock, lease)",
        "if free then\n  redis.call('persist', lock)",
        ("plain",),
        ("kill -9",),
        seconds=30,
    ),
    Mutant(
        "a re-entry adds to the depth",
        "L-9",
        f"{_LUA}/lock_acquire.lua",
        "redis.call('hset', lock, holder, depth)\nif free",
        "redis.call('hincrby', lock, holder, depth)\nif free",
        ("plain",),
    ),
    Mutant(
        "an inner release frees the lock",
        "L-3",
        f"{_LUA}/lock_release.lua",
        "elseif depth ~= '0' then",
        "elseif depth ~= '0' and depth ~= '1' then",
        ("plain",),
    ),
    Mutant(
        "a release wakes nobody",
        "L-4",
        f"{_LUA}/lock_release.lua",
        "~= 1 then\n  redis.call(PUBLISH, channel, '0')",
        "~= 1 then\n  redis.call('exists', lock)",
        ("plain",),
        seconds=30,
        lanes=1,
    ),
    Mutant(
        "a renewal keeps what others hold",
        "L-2",
        f"{_LUA}/lock_renew.lua",
        "== 1 and 1 or 0",
        "and 1 or 0",
        ("forced",),
        seconds=25,
    ),
    Mutant(
        "a renewal renews nothing",
        "L-3",
        f"{_LUA}/lock_renew.lua",
        "redis.call('pexpire', lock, lease)",
        "redis.call('pttl', lock)",
        ("plain",),
        seconds=15,
    ),
    Mutant(
        "a fair lock goes to the next who asks",
        "L-6",
        f"{_LUA}/fair_lock_acquire.lua",
        "local turn = free and (not head or head == holder)",
        "local turn = free",
        ("fair",),
    ),
    Mutant(
        "a fair lock serves the last who came",
        "L-6",
        f"{_LUA}/fair_lock_acquire.lua",
        "place = redis.call('rpush', queue, holder) - 1",
        "redis.call('lpush', queue, holder) place = 0",
        ("fair",),
    ),
    Mutant(
        "a fencing token stays the same",
        "L-5",
        f"{_LUA}/fenced_lock_acquire.lua",
        "math.max(last, floor) - last + 1",
        "math.max(1 - last, 0)",
        ("fenced",),
    ),
    Mutant(
        "the last reader wakes no writer",
        "L-4",
        f"{_LUA}/read_lock_release.lua",
        "next = pass_on()",
        "next = redis.call('exists', queue) == 1",
        ("write", "read", "write"),
        seconds=60,
        lanes=1,
        apart=True,
    ),
    Mutant(
        "a reader enters while somebody writes",
        "L-1",
        f"{_LUA}/read_lock_acquire.lua",
        "or mode == 'write' and written",
        "or mode == 'write'",
        ("read", "write"),
    ),
    Mutant(
        "a writer enters while somebody reads",
        "L-1",
        f"{_LUA}/write_lock_acquire.lua",
        "if longest == -2 then",
        "if longest < 3600000 then",
        ("read", "write"),
    ),
    Mutant(
        "a group lock looks at its first value only",
        "L-1",
        f"{_LUA}/group_lock_acquire.lua",
        "    all_ours = false\n    if owner then",
        "    all_ours = false\n    if owner and i == FIRST then",
        ("group-ab", "group-bc"),
    ),
    Mutant(
        "a group lock wakes nobody",
        "L-4",
        f"{_LUA}/group_lock_release.lua",
        "redis.call(PUBLISH, channel, '0')",
        "redis.call('exists', lock)",
        ("group-ab",),
        seconds=30,
        lanes=1,
    ),
    Mutant(
        "a semaphore gives what it does not have",
        "L-11",
        f"{_LUA}/semaphore_acquire.lua",
        "local enough = free >= wanted",
        "local enough = free >= 0",
        ("permits",),
    ),
    Mutant(
        "a repeated release of a permit counts twice",
        "L-11",
        f"{_LUA}/semaphore_release.lua",
        "local done = redis.call('get', request)",
        "local done = nil",
        ("permits",),
        ("lost reply",),
        seconds=15,
    ),
    Mutant(
        "a leased semaphore gives more permits than it has",
        "L-1",
        f"{_LUA}/leased_semaphore_acquire.lua",
        "if free < #members then",
        "if free < -1 then",
        ("leased",),
    ),
    Mutant(
        "leased permits are not renewed",
        "L-3",
        f"{_LUA}/leased_semaphore_renew.lua",
        "redis.call('zadd', leases, now + lease, member)",
        "redis.call('zscore', leases, member)",
        ("leased",),
        seconds=15,
    ),
    Mutant(
        "a latch counts down by two",
        "L-11",
        f"{_LUA}/latch_count_down.lua",
        "local count = redis.call('decr', latch)",
        "local count = redis.call('decrby', latch, 2)",
        ("latch",),
    ),
    Mutant(
        "a latch that has a count is set again",
        "L-11",
        f"{_LUA}/latch_try_set.lua",
        "redis.call('set', latch, count, 'nx')",
        "redis.call('set', latch, count)",
        ("latch",),
    ),
    Mutant(
        "an event that is set wakes nobody",
        "L-4",
        f"{_LUA}/event_set.lua",
        "redis.call(PUBLISH, channel, '1')",
        "redis.call('exists', KEYS[1])",
        ("event",),
        seconds=20,
        lanes=1,
    ),
    Mutant(
        "an event stays set",
        "L-11",
        f"{_LUA}/event_clear.lua",
        "redis.call('set', event, 'clear ' .. state:match('%S+$'), 'px', kept)",
        "redis.call('exists', event)",
        ("event",),
    ),
    Mutant(
        "a waiter misses a setting that is cleared at once",
        "L-4",
        "_core/objects/event.py",
        "status.mark is not None and status.mark != mark",
        "False",
        ("event",),
        seconds=30,
        lanes=1,
    ),
    Mutant(
        "a barrier lets parties through before the last one",
        "L-13",
        f"{_LUA}/barrier_arrive.lua",
        "if index + 1 < parties or acts",
        "if index + 2 < parties or acts",
        ("barrier",),
    ),
    Mutant(
        "a barrier that is passed wakes nobody",
        "L-4",
        f"{_LUA}/barrier_arrive.lua",
        "redis.call(PUBLISH, channel, '1')",
        "redis.call('exists', barrier)",
        ("barrier",),
        seconds=25,
        lanes=1,
    ),
    Mutant(
        "a party that leaves is counted on",
        "L-13",
        f"{_LUA}/barrier_leave.lua",
        "redis.call('zrem', waiting, party)",
        "redis.call('zscore', waiting, party)",
        ("barrier",),
        ("signal",),
        seconds=40,
        lanes=1,
    ),
    Mutant(
        "an election tells of a former leader",
        "L-15",
        f"{_LUA}/election_announce.lua",
        "if redis.call('hget', leader, 'holder') ~= holder then",
        "if redis.call('exists', leader) == 0 then",
        ("election",),
    ),
    Mutant(
        "a notification wakes nobody",
        "L-4",
        f"{_LUA}/condition_notify.lua",
        "redis.call(PUBLISH, channel .. ':' .. waiter, '1')",
        "redis.call('exists', KEYS[1])",
        ("condition",),
        seconds=20,
        lanes=1,
    ),
    Mutant(
        "a notification wakes two",
        "L-16",
        f"{_LUA}/condition_notify.lua",
        "last = count - 1",
        "last = count",
        ("condition",),
    ),
    Mutant(
        "a notification is for nobody",
        "L-16",
        f"{_LUA}/condition_notify.lua",
        "redis.call('zrange', waiting, 0, last)",
        "redis.call('zrange', waiting, 1, last)",
        ("condition",),
        seconds=20,
    ),
    Mutant(
        "a wait for a condition ends without the lock",
        "L-16",
        "_core/objects/condition.py",
        "        yield from self._acquire_again(before)\n        ending",
        "        ending",
        ("condition",),
    ),
    Mutant(
        "an acquire takes what is taken, while replicas are promoted",
        "L-1",
        f"{_LUA}/lock_acquire.lua",
        "if not ours and not free then",
        "if not ours and not free and depth ~= '1' then",
        ("plain",),
        ("failover, asked for", "primary stopped"),
        arena="sentinel",
        seconds=20,
    ),
    Mutant(
        "a hold is believed for longer than its lease",
        "L-1",
        "_core/model/holds.py",
        "self.valid_until = sent_at + ",
        "self.valid_until = 9 + sent_at + ",
        ("plain",),
        ("SIGSTOP", "refused"),
        seconds=20,
    ),
    Mutant(
        "a red lock is content with a minority",
        "L-1",
        "_core/locks/red_lock.py",
        "len(members) // 2 + 1",
        "len(members) // 2",
        ("red",),
        arena="five",
    ),
    Mutant(
        "a loss is not noticed",
        "L-2",
        "_core/upkeep/watchdog.py",
        "self._lose(hold, hold.gone_reason(until - TELL_WITHIN))",
        "hold.extend_validity(sent_at, self.lease)",
        ("forced",),
        seconds=30,
    ),
)


def copy(mutant: Mutant, into: Path) -> None:
    """Copy the sources to *into*, with the mistake.

    Raises:
        LookupError: The text is not there once: the mutant is out of date.
    """
    shutil.copytree(ROOT / "src", into, dirs_exist_ok=True)
    file = into / "interlock" / mutant.file
    text = file.read_text()
    if text.count(mutant.right) != 1:
        found = text.count(mutant.right)
        raise LookupError(f"{mutant.name}: {mutant.file} has {mutant.right!r} {found} times")
    file.write_text(text.replace(mutant.right, mutant.wrong))


def hunt(mutant: Mutant, binary: Path, seed: int) -> list[str]:
    """Attack the library with the mistake; return what was found."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as sources:
        copy(mutant, Path(sources))
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
        trouble=(),
        lanes=mutant.lanes,
        apart=mutant.apart,
        settle=2.0,
    )
