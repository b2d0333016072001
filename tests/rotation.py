"""Locks whose server changes the password all the time: `python -m tests.rotation [--short]`.

A user's only password changes every two seconds, for five minutes. Two clients, of threads and of
asyncio, hold a hundred locks all the time. Others of both faces contend for one lock. No hold may
be lost, and no call may fail.

``--hour`` changes as many passwords as an hour has, 1,800, ten in a second, with shorter leases.
``--short`` takes a few seconds; `.ci/run` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import interlock
import interlock.asyncio
from tests.support.patience import wait_until
from tests.support.rotation import Rotation
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

HOLDS = 100
CONTENDERS = 4
"""Of each face."""
PATIENCE = 60.0
"""Seconds that a contender waits at most."""


class Contest:
    """Those who hold locks, and those who contend for one, until it is `over`.

    Attributes:
        contending: how many of them contend by now.
        turns: how often the one was taken.
        wrong: what any call raised, and the holds that were lost.
    """

    def __init__(self, url: str, rotation: Rotation, lease: float) -> None:
        self._url = url
        self._options: Any = {"credentials": rotation, "lease": lease}
        self.over = threading.Event()
        self.contending = self.turns = 0
        self.wrong: list[str] = []

    def threads(self) -> None:
        """Play with the sync face."""

        def contend() -> None:
            self.contending += 1
            while not self.over.is_set():
                try:
                    with other.lock("contended", timeout=PATIENCE):
                        self.turns += 1
                except interlock.InterlockError as error:
                    self.wrong.append(str(error))

        with ExitStack() as stack:
            client, other = [
                stack.enter_context(interlock.connect(self._url, **self._options)) for _ in range(2)
            ]
            locks = [client.lock(f"thread {number}") for number in range(HOLDS // 2)]
            for lock in locks:
                lock.acquire()
            pool = stack.enter_context(ThreadPoolExecutor(CONTENDERS))
            for each in [pool.submit(contend) for _ in range(CONTENDERS)]:
                each.result()
            self._see(locks)
            for lock in locks:
                lock.release()

    async def tasks(self) -> None:
        """Play with the asyncio face."""

        async def contend() -> None:
            self.contending += 1
            while not self.over.is_set():
                try:
                    async with other.lock("contended", timeout=PATIENCE):
                        self.turns += 1
                except interlock.InterlockError as error:
                    self.wrong.append(str(error))

        async with AsyncExitStack() as stack:
            client, other = [
                await stack.enter_async_context(
                    interlock.asyncio.connect(self._url, **self._options)
                )
                for _ in range(2)
            ]
            locks = [client.lock(f"task {number}") for number in range(HOLDS // 2)]
            for lock in locks:
                await lock.acquire()
            await asyncio.gather(*(contend() for _ in range(CONTENDERS)))
            self._see(locks)
            for lock in locks:
                await lock.release()

    def _see(self, locks: Sequence[interlock.Lock | interlock.asyncio.Lock]) -> None:
        lost = [lock.name for lock in locks if lock.hold is None or not lock.hold.valid]
        self.wrong += [f"{name} was lost" for name in lost]


def play(seconds: float, every: float, lease: float) -> int:
    """Change the password of a new server for *seconds*; return 1 if anything went wrong."""
    with RedisServer(users=["app on nopass ~* &* +@all"]) as server:
        rotation = Rotation(server, every)
        contest = Contest(f"redis://127.0.0.1:{server.port}", rotation, lease)
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(contest.threads), pool.submit(asyncio.run, contest.tasks())]
            try:
                # All are connected, and hold their locks, before the first change.
                wait_until(lambda: contest.contending == 2 * CONTENDERS, PATIENCE, "all contend")
                with rotation.turning():
                    _ = contest.over.wait(seconds)
            finally:
                contest.over.set()
            for each in done:
                each.result()
        told = f"{rotation.changes} passwords, {rotation.logins()} logins, {contest.turns} turns"
    print(told, *contest.wrong[:10], sep="\n")
    return int(bool(contest.wrong) or not contest.turns)


def main() -> int:
    """Play as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.rotation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--hour", action="store_true")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if options.hour:
        return play(180.0, every=0.1, lease=3.0)
    if options.short:
        return play(4.0, every=0.5, lease=6.0)
    return play(options.seconds, every=2.0, lease=6.0)


if __name__ == "__main__":
    sys.exit(main())
