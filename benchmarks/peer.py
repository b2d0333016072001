"""What a benchmark may ask of a peer: a session on a server, and locks by name.

A peer is data: its name, the distributions whose versions matter, and how to open a session. The
locks are the peer's own objects wherever they have the right shape, so that no wrapper of ours is
measured with them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


LEASE_VARIABLE = "INTERLOCK_BENCHMARK_LEASE"
LEASE = float(os.environ.get(LEASE_VARIABLE, "30"))
"""Seconds; of the peers that take it from here. Set for an agent by who starts it."""

PYTHON = (sys.executable, "-m", "benchmarks.agent")


class SyncLock(Protocol):
    """A lock as one thread uses it."""

    def acquire(self) -> bool:
        """Take the lock; anything but a true answer counts as a failure."""
        ...

    def release(self) -> object:
        """Give the lock back, or raise."""
        ...


class AsyncLock(Protocol):
    """A lock as one task uses it."""

    def acquire(self) -> Awaitable[bool]:
        """Take the lock; anything but a true answer counts as a failure."""
        ...

    def release(self) -> Awaitable[object]:
        """Give the lock back, or raise."""
        ...


class SyncSession(Protocol):
    """What all threads of one run share."""

    def lock(self, name: str) -> SyncLock:
        """Build the lock *name*; called in the thread that will use it."""
        ...


class AsyncSession(Protocol):
    """What all tasks of one run share."""

    def lock(self, name: str) -> AsyncLock:
        """Build the lock *name*, for one task."""
        ...


@dataclass(frozen=True, slots=True)
class _Description:
    """What both kinds of peer have.

    Attributes:
        name: As printed; the sync and the asyncio peer of one library share it.
        packages: The distributions whose versions belong into a report.
        calls: Commands that the server counts for each pair of acquire and release. The audit
            after a run compares them with what the peer says it did.
        program: What serves as the peer's agent, in works that have processes of their own.
        server: What it needs to run against; see benchmarks/servers.py.
        leaves: What the names of keys begin with that outlive a release, if any do.
        late: The part of its commands that may never come to a server which answers late. A red
            lock takes such a member again before it has given it back.
    """

    in_python: ClassVar[bool] = True
    name: str
    packages: tuple[str, ...]
    calls: Mapping[str, int] = field(default_factory=lambda: {"evalsha": 2})
    leaves: tuple[str, ...] = ()
    program: tuple[str, ...] = PYTHON
    server: str = "redis"
    late: float = 0.0

    def versions(self) -> dict[str, str]:
        """Look up the installed versions; "missing" for what is not installed."""
        return {package: _version(package) for package in self.packages}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPeer(_Description):
    """A peer used by threads; `open` takes a server's URL and the number of threads."""

    kind: ClassVar[str] = "threads"
    open: Callable[[str, int], AbstractContextManager[SyncSession]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPeer(_Description):
    """A peer used by asyncio tasks; `open` takes a server's URL and the number of tasks.

    Attributes:
        loop: Makes the event loop; by default asyncio's own.
    """

    kind: ClassVar[str] = "tasks"
    open: Callable[[str, int], AbstractAsyncContextManager[AsyncSession]]
    loop: Callable[[], AbstractEventLoop] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPeer(_Description):
    """A peer of another language, whose agent stands for threads, or what is used in their place.

    Attributes:
        build: Makes the program, once for each run; raises where the language is not installed.
        other: The versions that no Python distribution tells.
        warmup: Seconds it takes to reach its speed: a just-in-time compiler's.
    """

    in_python: ClassVar[bool] = False
    kind: ClassVar[str] = "threads"
    build: Callable[[], None]
    other: Mapping[str, str]
    warmup: float = 0.0

    def versions(self) -> dict[str, str]:
        """Return what the build files ask for."""
        return dict(self.other)


Peer: TypeAlias = SyncPeer | AsyncPeer | ProgramPeer
