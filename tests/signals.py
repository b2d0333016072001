"""Real signals at random instants: `python -m tests.signals [--strikes N] [--kind K] [--face F]`.

A timer raises in the main thread while one operation runs, or cancels its task. Then the program
does what programs do: it releases what it holds, or it has left its ``with`` block. After that the
server must have nothing of it, soon: leases are so long that no renewal and no end of a lease
helps. With ``--kept``, the program keeps each traceback, as a REPL does. With ``--twice``, a second
signal strikes the undo of the first.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import statistics
import sys
import time
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import interlock
import interlock.asyncio
from interlock.errors import HoldLostError, NotHeldError
from tests.lock.lock_like import KINDS
from tests.support.again import again
from tests.support.cards import is_card
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lock.lock_like import Kind

LEASE = 90.0
"""Seconds: nothing that ends with a lease, or with a third of it, ends soon."""
SOON = 15.0
"""Seconds for what the background puts right."""
SHORT = 40
"""Strikes of the short form."""
WITH = ("with", "trying")


class StruckError(KeyboardInterrupt):
    """What the signal raises."""


class Timer:
    """Strikes once within an operation.

    Args:
        twice: strike again within a millisecond: a second Ctrl-C, while the first one is undone.
        kept: keep the errors until `forget`.

    Attributes:
        strike: what a signal does; it may raise.
        struck: how many have struck.
    """

    def __init__(self, *, twice: bool = False, kept: bool = False) -> None:
        self._times = 2 if twice else 1
        self._kept: list[BaseException] | None = [] if kept else None
        self._left = 0
        self.strike: Callable[[], None] = self.fail
        self.struck = 0
        self._armed = False

    def __enter__(self) -> Self:
        self._former = signal.signal(signal.SIGALRM, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)

    def fail(self) -> None:
        """Raise in the main thread."""
        raise StruckError

    def arm(self, seconds: float) -> None:
        """Strike once in *seconds*."""
        self._armed, self._left = True, self._times
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))

    def run(self, seconds: float, act: Callable[[], object]) -> None:
        """Strike within *act*, by raising."""
        try:
            try:
                self.arm(seconds)
                act()
            finally:
                self.disarm()
        except StruckError as error:
            if self._kept is not None:
                self._kept.append(error)
            try:
                self.disarm()
            except StruckError:  # the second one
                self.disarm()

    def forget(self) -> None:
        """Forget the errors."""
        if self._kept is not None:
            self._kept.clear()

    def disarm(self) -> None:
        """Strike no more."""
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _handle(self, *_: object) -> None:
        if self._armed:
            self.struck += 1
            self._left -= 1
            if self._left:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 1e-3))
            else:
                self._armed = False
            self.strike()


class Unheard:
    """Counts what Python tells in place of raising it: strikes in finalizers and callbacks.

    A second strike may also come while Python closes an operation that was given up. Then that
    begins an undo that nobody performs ("generator ignored GeneratorExit"). It does no harm: who
    gave it up does what is left.
    """

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, told: sys.UnraisableHookArgs) -> None:
        """Count what a strike has caused, and print all else."""
        error = told.exc_value
        if isinstance(error, StruckError) or "ignored GeneratorExit" in str(error):
            self.count += 1
        else:
            sys.__unraisablehook__(told)


@dataclass
class Count:
    """What came of one operation of one kind."""

    what: str
    strikes: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        line = f"{self.what:34} {self.strikes:7} strikes {len(self.wrong):5} wrong"
        return "\n".join((line, *(f"    {wrong}" for wrong in self.wrong[:3])))


async def _nothing(lock: Any) -> None:
    del lock


async def _acquire(lock: Any) -> None:
    await lock.acquire()


async def _release(lock: Any) -> None:
    await lock.release()


async def _extend(lock: Any) -> None:
    await lock.extend(5)


async def _block(lock: Any) -> None:
    async with lock:
        pass


async def _trying(lock: Any) -> None:
    async with lock.trying(timeout=5):
        pass


CASES = {
    "acquire": (_nothing, _acquire),
    "release": (_acquire, _release),
    "re-enter": (_acquire, _acquire),
    "extend": (_acquire, _extend),
    "with": (_nothing, _block),
    "trying": (_nothing, _trying),
}


def _sync_block(lock: Any) -> None:
    with lock:
        pass


def _trying_block(lock: Any) -> None:
    with lock.trying(timeout=5):
        pass


SYNC = {
    "acquire": (lambda _: None, lambda lock: lock.acquire()),
    "release": (lambda lock: lock.acquire(), lambda lock: lock.release()),
    "re-enter": (lambda lock: lock.acquire(), lambda lock: lock.acquire()),
    "extend": (lambda lock: lock.acquire(), lambda lock: lock.extend(5)),
    "with": (lambda _: None, _sync_block),
    "trying": (lambda _: None, _trying_block),
}


class Bed:
    """The servers, and what they have of a name."""

    def __init__(self, servers: list[RedisServer]) -> None:
        self._servers = servers
        self.urls = [server.url() for server in servers]
        self._probes = [server.client() for server in servers]

    def held(self, kind: Kind, name: str) -> set[str]:
        """Return the keys that show that *name* is held on some server."""
        found = {
            str(key, "utf-8")
            for probe in self._probes[: kind.servers]
            for key in probe.keys("*")
            if not is_card(key)
        }
        return found - kind.keeps(name)

    def flush(self) -> None:
        """Forget everything."""
        for probe in self._probes:
            probe.flushall()


def judge(bed: Bed, kind: Kind, lock: Any, count: Count) -> None:
    """Count what a strike has left behind."""
    count.strikes += 1
    if not _comes(lambda: lock.hold is None, SOON):
        count.wrong.append(f"still {lock.hold!r}")
    elif not _comes(lambda: not bed.held(kind, lock.name), SOON):
        found = bed.held(kind, lock.name)
        count.wrong.append(f"nothing is held here, and the server has {found}")
    else:
        return
    bed.flush()


def _comes(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether *condition* holds before *seconds* have passed."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)  # between two questions
    return True


def typical(durations: list[float]) -> float:
    """Return the time within which to strike."""
    return statistics.median(durations) * 1.25


def strike_threads(bed: Bed, kind: Kind, operation: str, strikes: int, timer: Timer) -> Count:
    """Strike *operation* of the sync face."""
    prepare, act = SYNC[operation]
    count = Count(f"sync {kind.name} {operation}")
    with ExitStack() as stack, timer:
        clients = [
            stack.enter_context(interlock.connect(url, lease=LEASE))
            for url in bed.urls[: kind.servers]
        ]
        lock = kind.make(clients[0] if kind.servers == 1 else clients, "name")
        durations: list[float] = []
        while len(durations) < 20:
            prepare(lock)
            began = time.perf_counter()
            act(lock)
            durations.append(time.perf_counter() - began)
            give_back(lock)
        within = typical(durations)
        while count.strikes < strikes and len(count.wrong) < 20:
            before = timer.struck
            prepare(lock)
            timer.run(random.uniform(0, within), partial(act, lock))
            if operation not in WITH:
                give_back(lock)
            if timer.struck > before:
                judge(bed, kind, lock, count)
                give_back(lock)
            timer.forget()
    bed.flush()
    return count


def give_back(lock: Any) -> None:
    """Release what is held, as a program does that does not know how far it came."""
    for _ in range(4):
        if lock.hold is None:
            return
        with suppress(NotHeldError, HoldLostError):
            lock.release()


async def give_back_async(lock: Any) -> None:
    """As `give_back`."""
    for _ in range(4):
        if lock.hold is None:
            return
        with suppress(NotHeldError, HoldLostError):
            await lock.release()


async def _strike_task(lock: Any, operation: str, timer: Timer, within: float) -> None:
    """Act in one task, which owns what it acquires, and cancel it within *within* seconds."""
    prepare, act = CASES[operation]
    task, loop = cast("asyncio.Task[None]", asyncio.current_task()), asyncio.get_running_loop()

    def cancel() -> None:
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)  # as asyncio's runner

    await prepare(lock)
    timer.strike = cancel
    timer.arm(random.uniform(0, within))
    try:
        await act(lock)
    finally:
        timer.disarm()
        if operation not in WITH:
            await give_back_async(lock)


async def strike_tasks(bed: Bed, kind: Kind, operation: str, strikes: int, *, twice: bool) -> Count:
    """Strike *operation* of the asyncio face: the signal cancels its task, as in asyncio.run."""
    prepare, act = CASES[operation]
    count = Count(f"asyncio {kind.name} {operation}")
    clients = [interlock.asyncio.connect(url, lease=LEASE) for url in bed.urls[: kind.servers]]
    try:
        lock = kind.make(clients[0] if kind.servers == 1 else clients, "name")
        durations: list[float] = []
        while len(durations) < 20:
            await prepare(lock)
            began = time.perf_counter()
            await act(lock)
            durations.append(time.perf_counter() - began)
            await give_back_async(lock)
        within = typical(durations)
        with Timer(twice=twice) as timer:
            while count.strikes < strikes and len(count.wrong) < 20:
                before = timer.struck
                with suppress(asyncio.CancelledError):
                    await asyncio.ensure_future(_strike_task(lock, operation, timer, within))
                await asyncio.sleep(0)  # asyncio calls what hears of the end of that task
                if timer.struck > before:
                    judge(bed, kind, lock, count)
    finally:
        for client in clients:
            await client.close()
    bed.flush()
    return count


def rows(options: argparse.Namespace) -> Iterator[tuple[str, Kind, str]]:
    """Yield every face, kind and operation that was asked for."""
    for face in ("sync", "asyncio"):
        for kind in KINDS:
            for operation in SYNC:
                if operation == "re-enter" and (not kind.reentrant):
                    continue
                wanted = (options.face, options.kind, options.operation)
                given = (face, kind.name, operation)
                if all(want in (None, have) for want, have in zip(wanted, given, strict=True)):
                    yield face, kind, operation


def tell(
    options: argparse.Namespace, strikes: int, count: Count, face: str, kind: str, operation: str
) -> int:
    """Say how to strike the same again if anything was wrong; return how often it was.

    The kernel chooses the moments: there is no seed.
    """
    if count.wrong:
        given = {"face": face, "kind": kind, "operation": operation}
        given |= {"twice": options.twice, "kept": options.kept}
        print(again("tests.signals", strikes=strikes, **given), flush=True)
    return len(count.wrong)


def main(arguments: list[str] | None = None) -> int:
    """Strike, print a line for each operation, and return 1 if anything stayed for good."""
    parser = argparse.ArgumentParser(prog="tests.signals", description=__doc__)
    parser.add_argument("--strikes", type=int, default=5000, help="for each kind and operation")
    parser.add_argument("--short", action="store_true", help=f"{SHORT} strikes each")
    parser.add_argument("--twice", action="store_true", help="strike the undo of a strike, too")
    parser.add_argument("--kept", action="store_true", help="keep each traceback for a while")
    parser.add_argument("--face", choices=["sync", "asyncio"])
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS])
    parser.add_argument("--operation", choices=sorted(SYNC))
    options = parser.parse_args(arguments)
    strikes = SHORT if options.short else options.strikes
    warnings.simplefilter("ignore", interlock.MisuseWarning)  # told of each hold that is left
    wrong, timer = 0, partial(Timer, twice=options.twice, kept=options.kept)
    sys.unraisablehook = unheard = Unheard()
    with ExitStack() as stack:
        bed = Bed([stack.enter_context(RedisServer()) for _ in range(3)])
        for face, kind, operation in rows(options):
            if face == "sync":
                count = strike_threads(bed, kind, operation, strikes, timer())
            else:
                count = asyncio.run(
                    strike_tasks(bed, kind, operation, strikes, twice=options.twice)
                )
            print(count, flush=True)
            wrong += tell(options, strikes, count, face, kind.name, operation)
    print(f"{unheard.count} strikes came in finalizers, where Python drops them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
