"""Random programs under random faults.

``python -m tests.core.simulator.workload --seeds 1000`` plays them, and so do the tests.
"""

from __future__ import annotations

import argparse
import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.core.simulator import Simulator
from tests.core.simulator.counters import count, open_latch, set_event
from tests.core.simulator.meetings import meet
from tests.core.simulator.permits import lend, limit
from tests.core.simulator.schedule import Interrupted, Kind, Schedule

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.objects.condition import ALL, Condition
from interlock._core.objects.election import Election
from interlock.backoff import ExponentialBackoff
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from tests.core.simulator.process import Process

    from interlock._core.upkeep.session import Session

    Make = Callable[[Session, str, str], Lock]
    Take = Callable[..., Generator[Any, Any, None]]


def _spin(session: Session, name: str, key: str) -> Lock:
    return SpinLock(session, name, key, backoff=ExponentialBackoff())


def _election(session: Session, name: str, key: str) -> Lock:
    return Election(session, name, key, None, lambda: ("host", 1))


EFFECT_FAULTS: Mapping[Kind, float] = {
    "drop request": 0.01,
    "drop reply": 0.02,
    "duplicate": 0.02,
    "delay request": 0.02,
    "delay reply": 0.01,
    "raise": 0.03,
    "abandon": 0.003,
}
TIMED_FAULTS: Mapping[Kind, float] = {
    "crash": 0.02,
    "pause": 0.15,
    "outage": 0.1,
    "restart": 0.03,
    "force release": 0.08,
    "deafen": 0.1,
    "lose messages": 0.1,
    "delay messages": 0.1,
    "failover": 0.05,
}
PROFILES = (
    Schedule(),
    Schedule(rates=EFFECT_FAULTS),
    Schedule(rates=TIMED_FAULTS),
    Schedule(rates={**EFFECT_FAULTS, **TIMED_FAULTS}),
    *[Schedule(rates={kind: 0.3}) for kind in ("failover", "pause", "lose messages", "deafen")],
    Schedule(rates={"delay request": 0.05, "drop reply": 0.05}),
    Schedule(rates={"delay reply": 0.2, "outage": 0.1}, longest=8.0),
    Schedule(rates={"raise": 0.1}),
)
"""Played in turn, seed by seed: mixed faults can hide what one of them alone would show."""
ROUNDS = 6


def _use(makes: Sequence[Make], take: Take, world: Simulator) -> None:
    """Let random processes *take* turns at one or two locks, each of which one of *makes* makes."""
    random, benign = world.random, world.schedule.benign
    names = [f"name:{number}" for number in range(random.randint(1, 2))]

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        locks = [make(me.client.session, name, name) for name in names for make in makes]
        world.locks.update({lock.key: lock for lock in locks if lock.key not in world.locks})
        return lambda: take(me, random.choice(locks), benign=benign)

    world.populate(begin, ROUNDS)


def _turn(me: Process, lock: Lock, *, benign: bool) -> Generator[Any, Any, None]:
    """Acquire *lock* once or twice, hold it for a while, and give it back."""
    random = me.random
    timeout = random.choice((0.0, 0.02, 0.5, 3.0, None))
    # Without faults no lease ends by itself, so that nothing may be lost.
    lease = None if benign else random.choice((None, None, 0.3, 2.5, 5.0))
    hold = yield from me.acquire(lock, timeout, lease)
    if hold is None:
        return
    try:
        if random.random() < 0.3 and lock.reentrant:
            yield from me.acquire(lock, timeout)
        yield from me.sleep(random.random() ** 4 * random.choice((0.1, 1.0, 8.0, 25.0)))
        if random.random() < 0.1:
            yield from me.extend(lock, random.choice((0.3, 2.5)))
        if isinstance(lock, WriteLock) and random.random() < 0.4:
            yield from _come_down(me, lock)
    except (InterlockError, Interrupted):
        yield from _give_back(me, lock)
        raise
    yield from _give_back(me, lock)


def _news(me: Process, lock: Lock, *, benign: bool) -> Generator[Any, Any, None]:
    random, condition = me.random, Condition(lock, "news")
    lease = None if benign else random.choice((None, None, 2.5, 5.0))
    if (yield from me.acquire(lock, random.choice((0.5, 3.0, None)), lease)) is None:
        return
    try:
        if random.random() < 0.5:
            yield from me.wait_for(condition, random.choice((0.0, 0.3, 3.0, 12.0)))
        else:
            yield from me.notify(condition, random.choice((1, 1, 2, ALL)))
        yield from me.sleep(random.random() ** 4 * random.choice((0.1, 1.0)))
    except (InterlockError, Interrupted):
        yield from _give_back(me, lock)
        raise
    yield from _give_back(me, lock)


def _come_down(me: Process, lock: WriteLock) -> Generator[Any, Any, None]:
    """Read as well, and write no more."""
    random = me.random
    reading = ReadLock(lock.session, lock.name, lock.key)
    try:
        if (yield from me.acquire(reading, random.choice((0.0, 3.0)))) is not None:
            yield from me.sleep(random.random() ** 4)
            yield from _give_back(me, lock)
            yield from me.sleep(random.random() ** 4 * random.choice((0.1, 8.0)))
    except (InterlockError, Interrupted):
        yield from _give_back(me, reading)
        raise
    yield from _give_back(me, reading)


def _give_back(me: Process, lock: Lock) -> Generator[Any, Any, None]:
    while me.holds(lock):
        yield from me.release(lock)
        yield from me.sleep(me.random.random() ** 6)


GROUPS = [partial(GroupLock, values=values) for values in (["a", "b"], ["b"], ["b", "c"])]
KINDS: Mapping[str, Callable[[Simulator], None]] = {
    "lock": partial(_use, [Lock], _turn),
    "fenced": partial(_use, [FencedLock], _turn),
    "spin": partial(_use, [_spin], _turn),
    "election": partial(_use, [_election], _turn),
    "readers": partial(_use, [ReadLock, ReadLock, WriteLock], _turn),
    "fair": partial(_use, [FairLock], _turn),
    "group": partial(_use, GROUPS, _turn),
    "condition": partial(_use, [Lock], _news),
    "fenced condition": partial(_use, [FencedLock], _news),
    "write condition": partial(_use, [WriteLock], _news),
    "barrier": meet,
    "limited": limit,
    "leased": lend,
    "semaphore": count,
    "latch": open_latch,
    "event": set_event,
}
"""By name: what fills a world with processes that use objects of the kind."""


def play(seed: int, kind: str) -> Simulator:
    """Run one simulation to its end.

    Raises:
        InvariantError: something happened that must not.
        StepBudgetError: it did not come to rest.
    """
    world = Simulator(seed, PROFILES[seed % len(PROFILES)])
    KINDS[kind](world)
    world.run()
    return world


def main() -> None:
    """Play the seeds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    asked = parser.parse_args()
    began, steps = time.monotonic(), 0
    gc.disable()
    for seed in range(asked.start, asked.start + asked.seeds):
        for kind in KINDS if asked.kind == "all" else [asked.kind]:
            try:
                steps += play(seed, kind).timeline.steps
            except BaseException as error:
                error.add_note(f"--kind {kind} --start {seed} --seeds 1")
                raise
        if seed % 20 == 0:
            gc.collect()
    print(f"{asked.seeds} seeds, {steps} steps, {time.monotonic() - began:.1f} s: all is well")


if __name__ == "__main__":
    main()
