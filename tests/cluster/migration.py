"""Locks in a cluster whose slots always move: every cycle succeeds, no lock is held twice.

By hand: ``python tests/cluster/migration.py --cycles 10000``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.patience import let_others_run
from tests.support.servers import ClusterServers, binaries

import interlock
import interlock.asyncio
from interlock._links.slots import slot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.servers import RedisServer

PATIENCE = 60.0
"""Seconds that a worker waits for a lock; none needs them all."""
KINDS = ("lock", "fair_lock", "fenced_lock", "spin_lock")


@dataclass
class Record:
    """What happened.

    Attributes:
        cycles: acquired and released again.
        migrations: slots that moved.
        errors: what any call raised, or an acquire that gave up.
        double_holds: how often somebody was in whom another one was in with.
        longest: seconds, the longest acquire.
    """

    cycles: int = 0
    migrations: int = 0
    errors: list[str] = field(default_factory=list[str])
    double_holds: int = 0
    longest: float = 0.0

    def __str__(self) -> str:
        kinds = Counter(self.errors)
        return (
            f"{self.cycles} cycles, {self.migrations} slot migrations, "
            f"{len(self.errors)} errors {dict(kinds) or ''}, "
            f"{self.double_holds} double holds, longest acquire {self.longest:.2f} s"
        )


class Migration:
    """Workers on few names, and somebody who moves the slots of these names on and on.

    Args:
        servers: the cluster.
        cycles: how many in all.
        kind: the factory of the lock.
        names: how many names; each has two workers of each face, in clients of their own.
        dwell: seconds for which a slot is half moved.
    """

    def __init__(
        self,
        servers: ClusterServers,
        cycles: int,
        *,
        kind: str = "lock",
        names: int = 4,
        dwell: float = 0.01,
    ) -> None:
        self._servers = servers
        self._kind = kind
        self._names = [f"name {number}" for number in range(names)]
        self._left = cycles
        self._dwell = dwell
        self._inside: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self.record = Record()

    def run(self) -> Record:
        """Do all cycles, and return what happened."""
        workers = [
            threading.Thread(target=self._threads_work, args=(name,))
            for name in self._names
            for _ in range(2)
        ]
        workers.append(threading.Thread(target=lambda: asyncio.run(self._tasks_work())))
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                for name in self._names:
                    self._move(slot_of(name))
        finally:
            for worker in workers:
                worker.join()
        return self.record

    def _move(self, slot: int) -> None:
        source = self._servers.owner(slot)
        primaries: Sequence[RedisServer] = self._servers.nodes[:3]
        target = primaries[(primaries.index(source) + 1) % 3]
        with self._servers.migrate_slot(slot, source, target) as move:
            time.sleep(self._dwell)  # a slot is between two servers in real time
            _ = move(1)
            time.sleep(self._dwell)  # and so with one key moved
        self.record.migrations += 1

    def _takes_one(self) -> bool:
        with self._mutex:
            self._left -= 1
            return self._left >= 0

    def _threads_work(self, name: str) -> None:
        with interlock.connect(self._servers.url()) as client:
            lock: Any = getattr(client, self._kind)(name)
            while self._takes_one():
                began = time.monotonic()
                try:
                    if not lock.acquire(timeout=PATIENCE):
                        raise TimeoutError("gave up")
                    self._enter(name, began)
                    self._leave(name)
                    lock.release()
                except Exception as error:
                    self._note(error)

    async def _tasks_work(self) -> None:
        async with (
            interlock.asyncio.connect(self._servers.url()) as one,
            interlock.asyncio.connect(self._servers.url()) as two,
        ):
            await asyncio.gather(
                *(self._task_works(client, name) for name in self._names for client in (one, two))
            )

    async def _task_works(self, client: interlock.asyncio.Client, name: str) -> None:
        lock: Any = getattr(client, self._kind)(name)
        while self._takes_one():
            began = time.monotonic()
            try:
                if not await lock.acquire(timeout=PATIENCE):
                    raise TimeoutError("gave up")
                self._enter(name, began)
                await let_others_run()
                self._leave(name)
                await lock.release()
            except Exception as error:
                self._note(error)

    def _enter(self, name: str, began: float) -> None:
        with self._mutex:
            self._inside[name] += 1
            self.record.double_holds += self._inside[name] > 1
            self.record.longest = max(self.record.longest, time.monotonic() - began)

    def _leave(self, name: str) -> None:
        with self._mutex:
            self._inside[name] -= 1
            self.record.cycles += 1

    def _note(self, error: Exception) -> None:
        with self._mutex:
            self.record.errors.append(f"{type(error).__name__}: {error}")


def main() -> int:
    """Run it on a cluster of its own; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--kind", choices=KINDS, default="lock")
    parser.add_argument("--version", choices=sorted(binaries()), default="redis-7.0")
    chosen = parser.parse_args()
    with ClusterServers(binary=binaries()[chosen.version]) as servers:
        began = time.monotonic()
        record = Migration(servers, chosen.cycles, kind=chosen.kind).run()
        print(f"{chosen.kind} on {chosen.version}: {record}, in {time.monotonic() - began:.0f} s")
    return 1 if record.errors or record.double_holds else 0


if __name__ == "__main__":
    sys.exit(main())
