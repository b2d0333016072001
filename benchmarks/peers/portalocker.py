"""portalocker's RedisLock: a subscription is the lock, and its end the release."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.peer import SyncPeer

if TYPE_CHECKING:
    from collections.abc import Generator

_FOREVER = 1e9  # seconds; its default gives up


@dataclass(frozen=True, slots=True)
class _Lock:
    """Its acquire returns the lock, or raises; ours is asked for a truth."""

    lock: Any

    def acquire(self) -> bool:
        return self.lock.acquire() is self.lock

    def release(self) -> None:
        self.lock.release()


@dataclass(frozen=True, slots=True)
class _Session:
    client: redis.Redis

    def lock(self, name: str) -> _Lock:
        import portalocker  # noqa: PLC0415 - may not be installed

        lock = portalocker.RedisLock(
            name, connection=self.client, timeout=_FOREVER, interrupt_on_lost=False
        )
        return _Lock(lock)


@contextmanager
def _open(url: str, workers: int) -> Generator[_Session]:
    # A waiter has a subscription, and asks on further connections.
    with redis.Redis.from_url(url, max_connections=4 * workers + 4) as client:
        yield _Session(client)


SYNC = SyncPeer(
    "portalocker",
    ("portalocker", "redis"),
    {"subscribe": 1, "client|setname": 1, "pubsub|numsub": 2},
    open=_open,
)
