"""Locks whose server changes the password all the time: `python -m tests.rotation`.

A user's only password changes every two seconds, for five minutes. Two clients, of threads and of
asyncio, hold a hundred locks all the time. Others of both faces contend for one lock. No hold may
be lost, and no call may fail. The waits are told beside those of a minute before, in which the
password stays.

``--hour`` changes as many passwords as an hour has, 1,800, ten in a second, with shorter leases.
``--short`` takes a few seconds; `.ci/run` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import interlock
import interlock.asyncio
from tests.support.rotation import Rotation
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

HOLDS = 100
CONTENDERS = 4
"""Of each face."""
PATIENCE = 60.0
"""Seconds that a contender waits at most."""


@dataclass
class Record:
    """What happened.

    Attributes:
        passwords: how often the password changed.
        logins: how often anybody logged in.
        lost: holds that were lost.
        errors: what any call raised, or an acquire that gave up.
        before: seconds of each wait while the password stayed.
        during: the same while it changed.
    """

    passwords: int = 0
    logins: int = 0
    lost: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    before: list[float] = field(default_factory=list[float])
    during: list[float] = field(default_factory=list[float])

    def __str__(self) -> str:
        waits = "; ".join(
            f"{len(times)} waits {when}: median {1000 * statistics.median(times):.1f} ms, "
            f"longest {1000 * max(times):.0f} ms"
            for when, times in (("before", self.before), ("while it changed", self.during))
            if times
        )
        return (
            f"{self.passwords} passwords, {self.logins} logins; {HOLDS} lasting holds, "
            f"{len(self.lost)} lost, {len(self.errors)} errors; {waits}"
        )


class Contest:
    """Those who contend for one lock; `waits` are noted in the list that is set.

    Args:
        record: takes their errors.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.waits = record.before
        self.over = threading.Event()

    def by_thread(self, client: interlock.Client) -> None:
        """Take the lock again and again."""
        lock = client.lock("contended")
        while not self.over.is_set():
            began = time.monotonic()
            try:
                with client.lock("contended", timeout=PATIENCE):
                    self.waits.append(time.monotonic() - began)
                    time.sleep(0.005)  # the work
            except interlock.InterlockError as error:
                self.record.errors.append(f"{lock}: {error}")

    async def by_task(self, client: interlock.asyncio.Client) -> None:
        """Take the lock again and again."""
        while not self.over.is_set():
            began = time.monotonic()
            try:
                async with client.lock("contended", timeout=PATIENCE):
                    self.waits.append(time.monotonic() - began)
                    await asyncio.sleep(0.005)  # the work
            except interlock.InterlockError as error:
                self.record.errors.append(str(error))


def lost(locks: Sequence[interlock.Lock | interlock.asyncio.Lock]) -> list[str]:
    """Return the names of those that are not held any more."""
    return [lock.name for lock in locks if lock.hold is None or not lock.hold.valid]


async def tasks(url: str, rotation: Rotation, lease: float, contest: Contest) -> None:
    """Hold half of the locks, and contend, until the contest is over."""
    async with AsyncExitStack() as stack:
        client, other = [
            await stack.enter_async_context(
                interlock.asyncio.connect(url, credentials=rotation, lease=lease)
            )
            for _ in range(2)
        ]
        locks = [client.lock(f"task {number}") for number in range(HOLDS // 2)]
        for lock in locks:
            await lock.acquire()
        await asyncio.gather(*(contest.by_task(other) for _ in range(CONTENDERS)))
        contest.record.lost += lost(locks)
        for lock in locks:
            await lock.release()


def play(seconds: float, before: float, every: float, lease: float) -> Record:
    """Change the password of a new server for *seconds*; return what happened."""
    record, waiting = Record(), threading.Event()
    contest = Contest(record)
    with RedisServer(users=["app on nopass ~* &* +@all"]) as server, ExitStack() as stack:
        rotation = Rotation(server, every)
        url = f"redis://127.0.0.1:{server.port}"
        client, other = [
            stack.enter_context(interlock.connect(url, credentials=rotation, lease=lease))
            for _ in range(2)
        ]
        locks = [client.lock(f"thread {number}") for number in range(HOLDS // 2)]
        for lock in locks:
            lock.acquire()
        with ThreadPoolExecutor(CONTENDERS + 1) as threads:
            done = [threads.submit(contest.by_thread, other) for _ in range(CONTENDERS)]
            done.append(threads.submit(asyncio.run, tasks(url, rotation, lease, contest)))
            try:
                _ = waiting.wait(before)
                logins, asked = rotation.logins(), rotation.changes
                contest.waits = record.during
                with rotation.turning():
                    _ = waiting.wait(seconds)
            finally:
                contest.over.set()
            for each in done:
                each.result()
        record.logins = rotation.logins() - logins
        record.passwords = rotation.changes - asked
        record.lost += lost(locks)
        for lock in locks:
            lock.release()
    return record


def main(arguments: Sequence[str]) -> int:
    """Play as *arguments* say; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.rotation")
    _ = parser.add_argument("--seconds", type=float)
    _ = parser.add_argument("--hour", action="store_true")
    _ = parser.add_argument("--short", action="store_true")
    options: Any = parser.parse_args(arguments)
    if options.hour:
        record = play(180.0, 10.0, every=0.1, lease=3.0)
    elif options.short:
        record = play(4.0, 1.0, every=0.5, lease=6.0)
    else:
        record = play(options.seconds or 300.0, 60.0, every=2.0, lease=6.0)
    print(record)
    for each in record.lost[:10] + record.errors[:10]:
        print(each)
    return int(bool(record.lost or record.errors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
