"""The locks that are put to the test.

They show how each is taken, what its holder believes, and what a stale holder can still do.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import redis
import redis.sentinel
from tests.support.address import LOOPBACK

import interlock
from benchmarks.failover.bed import SERVICE
from interlock import fencing
from interlock.options import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from benchmarks.failover.bed import Bed

NAME = "job"
LEASE = 30.0
"""Seconds; far longer than a round, so that no lock is free because its lease ended."""


class Claimant(Protocol):
    """One client and its lock."""

    def acquire(self, timeout: float) -> bool:
        """Try for *timeout* seconds; an outage counts as not acquired."""
        ...

    def believes(self) -> bool:
        """Tell whether the claimant takes itself for the holder, as far as it has been told."""
        ...

    def write(self, resource: redis.Redis, value: str) -> bool:
        """Write to the protected resource without asking again; tell whether it was let through."""
        ...


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of lock.

    Attributes:
        name: In the table.
        opened: A new claimant.
        beds: How many it takes; the first one's primary is killed.
        fenced: Whether what counts is the resource and not the grant.
        zero: Whether no violation is expected.
    """

    name: str
    opened: Callable[[Sequence[Bed]], AbstractContextManager[Claimant]]
    beds: int = 1
    fenced: bool = False
    zero: bool = True


class _RedisPy:
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        while True:
            with contextlib.suppress(redis.RedisError):
                left = max(until - time.monotonic(), 0.01)
                return bool(self._lock.acquire(blocking_timeout=left))
            if time.monotonic() > until:
                return False
            time.sleep(0.02)

    def believes(self) -> bool:
        return self._lock.local.token is not None

    def write(self, resource: redis.Redis, value: str) -> bool:
        return bool(resource.set(NAME, value))


class _Ours:
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, timeout: float) -> bool:
        try:
            return bool(self._lock.acquire(timeout=timeout))
        except (
            interlock.ServerUnavailableError,
            interlock.ReplicationError,
            interlock.QuorumError,
        ):
            return False

    def believes(self) -> bool:
        return self._lock.hold is not None and self._lock.hold.valid

    def write(self, resource: redis.Redis, value: str) -> bool:
        return bool(resource.set(NAME, value))


class _Fenced(_Ours):
    def acquire(self, timeout: float) -> bool:
        taken = super().acquire(timeout)
        self._token = self._lock.hold.token if taken else None
        return taken

    def write(self, resource: redis.Redis, value: str) -> bool:
        try:
            fencing.write(resource, NAME, value, self._token)
        except fencing.StaleTokenError:
            return False
        return True


@contextlib.contextmanager
def _redis_py(beds: Sequence[Bed]) -> Iterator[Claimant]:
    untyped: Any = redis.sentinel
    sentinel = untyped.Sentinel([(LOOPBACK, beds[0].sentinel.port)], socket_timeout=1.0)
    with sentinel, sentinel.master_for(SERVICE) as client:
        yield _RedisPy(client.lock(NAME, timeout=LEASE, thread_local=False))


@contextlib.contextmanager
def _ours(
    beds: Sequence[Bed],
    make: Callable[[Sequence[interlock.Client]], Claimant],
    **options: Any,
) -> Iterator[Claimant]:
    with contextlib.ExitStack() as stack:
        yield make(
            [
                stack.enter_context(interlock.connect(bed.url, lease=LEASE, **options))
                for bed in beds
            ]
        )


CASES = (
    Case("redis-py's Lock", _redis_py, zero=False),
    Case(
        "interlock, replicas off",
        lambda beds: _ours(beds, lambda clients: _Ours(clients[0].lock(NAME))),
        zero=False,
    ),
    Case(
        'interlock, required("all")',
        lambda beds: _ours(
            beds,
            lambda clients: _Ours(clients[0].lock(NAME)),
            replicas=required("all", timeout=5.0),
        ),
    ),
    Case(
        "interlock, red lock over 3",
        lambda beds: _ours(
            beds,
            lambda clients: _Ours(interlock.RedLock(*(each.lock(NAME) for each in clients))),
        ),
        beds=3,
    ),
    Case(
        "interlock, fenced resource",
        lambda beds: _ours(beds, lambda clients: _Fenced(clients[0].fenced_lock(NAME))),
        fenced=True,
    ),
)
