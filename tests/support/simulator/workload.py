"""Random programs under random faults.

``python -m tests.support.simulator`` plays them, and so do the tests of every change.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.ticket import WITH_TICKETS
from interlock._core.model.effects import NEVER
from interlock._core.objects.election import Election
from interlock.errors import (
    HoldLostError,
    NotHeldError,
    ReentryError,
    ReplicationError,
    ServerUnavailableError,
)
from interlock.options import Options, best_effort, required
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Kind, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from interlock._core.locks.lock_base import LockBase
    from interlock._core.upkeep.session import Session
    from tests.support.simulator.client import Process


def _read_or_write(me: Process, name: str) -> LockBase:
    """Return a lock for reading for those of the first client, for writing for all others."""
    return (ReadLock if me.client.name == "a" else WriteLock)(me.client.session, name)


def _group(me: Process, name: str) -> LockBase:
    """Return a lock of two values, of which each client shares one with every other."""
    return GroupLock(
        me.client.session, name, tuple({"a": "ab", "b": "bc"}.get(me.client.name, "ca"))
    )


def _by_name(make: Callable[[Session, str], LockBase]) -> Callable[[Process, str], LockBase]:
    return lambda me, name: make(me.client.session, name)


KINDS: dict[str, Callable[[Process, str], LockBase]] = {
    **{word: _by_name(make) for word, make in WITH_TICKETS.items()},
    "group lock": _group,
    "read lock": _read_or_write,
    "write lock": lambda me, name: WriteLock(me.client.session, name),
    "election": lambda me, name: Election(me.client.session, name, None, lambda: ("host", 1)),
}
"""What is played with; what takes no more than a name comes from the catalogue."""

OPTIONS = Options(
    lease=2.0,
    fair_wait=1.0,
    poll_cap=0.5,
    command_timeout=0.5,
    outage_timeout=2.0,
    renew_batch=3,
)
"""Short, so that leases end and polls come while the faults are at work."""

EFFECT_FAULTS: Mapping[Kind, float] = {
    "drop request": 0.01,
    "drop reply": 0.02,
    "duplicate": 0.02,
    "delay request": 0.02,
    "delay reply": 0.01,
    "raise": 0.02,
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
}
PROFILES: tuple[Schedule, ...] = (
    Schedule(),
    Schedule(rates=EFFECT_FAULTS),
    Schedule(rates=TIMED_FAULTS),
    Schedule(rates={**EFFECT_FAULTS, **TIMED_FAULTS}),
)
"""Played in turn, seed by seed."""

ROUNDS = 6
RETRIES = 5
COLLECT = 10
"""Seeds after which the garbage is collected."""
CHUNK = 50
"""Seeds that one process plays before it asks for more."""


POLICIES = (best_effort("all", 0.1), required(1, 0.05), required("all", 0.1), required(2, 0.02))
LAGS = (0.001, 0.01, 0.05, NEVER)
"""What clients may want of replicas, and how far those may be behind."""


def prepare(seed: int, kind: str = "lock", *, replicated: bool = False) -> Simulator:
    """Return a simulation of random clients and programs, ready to run.

    If *replicated*, the server has replicas, and they are asked.
    """
    simulator = Simulator(seed, schedule=PROFILES[seed % len(PROFILES)])
    random = simulator.random
    names = [f"{kind}:{i}" for i in range(random.randint(1, 2))]

    def program(me: Process) -> Generator[Any, Any, None]:
        for _ in range(ROUNDS):
            yield me.pass_time(random.random() ** 3)
            if replicated:
                simulator.network.replicas = random.choices(LAGS, k=random.randint(0, 3))
            lock = KINDS[kind](me, random.choice(names))
            yield from _visit(me, lock)

    for _ in range(random.randint(1, 3)):
        options = OPTIONS.replace(replicas=random.choice(POLICIES)) if replicated else OPTIONS
        client = simulator.client(options)
        for _ in range(random.randint(1, 3)):
            _ = simulator.spawn(client, program)
    return simulator


_HIT = (
    *(HoldLostError, NotHeldError, ReentryError, ReplicationError, ServerUnavailableError),
    Interrupted,
)


def _visit(me: Process, lock: LockBase) -> Generator[Any, Any, None]:
    """Take *lock*, perhaps several times, and give it back as often."""
    random = me.random
    depth = 0
    try:
        entries = random.choice((1, 1, 1, 2, 3))
        for _ in range(entries if lock.reentrant else 1):
            timeout = random.choice((None, None, 0.0, 0.01, 0.3, 1.5))
            lease = random.choice((None, None, None, 0.2, 1.0))
            if (yield me.acquire(lock, timeout, lease=lease)) is not None:
                depth += 1
            yield me.pass_time(random.random() ** 4)
            if depth and random.random() < 0.2:
                yield me.extend(lock, random.choice((0.3, 2.5)))
            if depth == 1 and isinstance(lock, Lock) and lock.transferable:
                depth = yield from _transfer(me, lock)
        while depth:
            yield from _give_back(me, lock)
            depth -= 1
            yield me.pass_time(random.random() ** 6)
    except _HIT:
        # A program that is hit goes on with something else, some day, or gives up what it holds.
        while me.holds(lock) and random.random() < 0.9:
            try:
                yield from _give_back(me, lock)
            except _HIT:
                continue


def _transfer(me: Process, lock: Lock) -> Generator[Any, Any, int]:
    """Perhaps give *lock* away and take it back, or break it.

    Return how deep it is held then.
    """
    random = me.random
    draw = random.random()
    if draw < 0.1:
        ticket = yield me.hand_over(lock, random.choice((0.5, 2.0)))
        yield me.pass_time(random.random() ** 4)
        try:
            yield me.adopt(lock, ticket)
        except NotHeldError:
            return 0  # the ticket has run out
    elif draw < 0.13:
        me.note_use(lock, 0.0)
        yield lock.force_release()
    return 1


def _give_back(me: Process, lock: LockBase) -> Generator[Any, Any, None]:
    for _ in range(RETRIES):
        try:
            yield me.release(lock)
        except ServerUnavailableError:
            continue
        return


def play(seed: int, kind: str = "lock", *, replicated: bool = False) -> Simulator:
    """Run one simulation to its end.

    Raises:
        InvariantError: an invariant was broken.
        StepBudgetError: it did not come to rest.
    """
    simulator = prepare(seed, kind, replicated=replicated)
    simulator.run()
    return simulator


def play_some(seeds: Sequence[int], kind: str, replicated: bool) -> tuple[int, float]:
    """Play *seeds*; return the steps and the seconds of processor time that they took.

    Raises:
        InvariantError: an invariant was broken; a note tells the command that repeats it.
        StepBudgetError: one did not come to rest; likewise.
    """
    began, steps = time.process_time(), 0
    for number, seed in enumerate(seeds):
        try:
            with _no_collections(now=number % COLLECT == 0):
                steps += play(seed, kind, replicated=replicated).timeline.steps
        except Exception as error:
            options = f"--kind '{kind}'{' --replicated' if replicated else ''}"
            error.add_note(f"python -m tests.support.simulator {options} --start {seed} --seeds 1")
            raise
    return steps, time.process_time() - began


@contextmanager
def _no_collections(*, now: bool) -> Generator[None]:
    """Stop the garbage collector, which would take a third of the time.

    Args:
        now: Whether to collect what former simulations left.
    """
    if now:
        _ = gc.collect()
        # What is there now stays: modules, scripts. It is not looked at again.
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def main() -> None:
    """Play the seeds that the command line asks for; the first that breaks an invariant ends it."""
    parser = argparse.ArgumentParser("python -m tests.support.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to play")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--kind", choices=[*sorted(KINDS), "all"], default="lock", help="of lock")
    parser.add_argument("--replicated", action="store_true", help="with replicas that lag")
    parser.add_argument("--jobs", type=int, default=1, help="over how many processes")
    asked = parser.parse_args()
    began, steps, used = time.monotonic(), 0, 0.0
    last = asked.start + asked.seeds
    chunks = [range(at, min(at + CHUNK, last)) for at in range(asked.start, last, CHUNK)]
    kinds = sorted(KINDS) if asked.kind == "all" else [asked.kind]
    with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(play_some, chunk, kind, asked.replicated)
            for kind in kinds
            for chunk in chunks
        ]
        try:
            for future in as_completed(futures):
                more, seconds = future.result()
                steps, used = steps + more, used + seconds
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    took, seeds = time.monotonic() - began, asked.seeds * len(kinds)
    sys.stdout.write(
        f"{seeds} seeds, {steps} steps, {took:.1f} s, {steps / used:.0f} steps in each second"
        " of processor time: every invariant held\n"
    )
