"""Distributed locks for Python on Redis and Valkey, on the same wire as Redisson.

This is the sync face; `interlock.asyncio` has the same names, awaited.

Names are loaded when they are first used. In every run, pytest loads interlock's plugin, and with
it this module. It must not pay for redis-py there.
"""

from __future__ import annotations

import _thread
from importlib import import_module
from typing import TYPE_CHECKING

from interlock._version import __version__

# Python 3.11 has no such function.
if not getattr(_thread, "daemon_threads_allowed", lambda: True)():
    raise ImportError(
        "interlock cannot renew locks in a sub-interpreter that allows no daemon threads: "
        "hold locks in the main interpreter, or use processes",
        name=__name__,
    )

if TYPE_CHECKING:
    from interlock import asyncio, check, errors, fencing, observe
    from interlock.backoff import Backoff, ConstantBackoff, ExponentialBackoff
    from interlock.credentials import CredentialProvider, FileCredentials
    from interlock.errors import (
        AcquireTimeoutError,
        BrokenBarrierError,
        ClosedError,
        ConfigError,
        HoldLostError,
        InterlockError,
        LatchDeletedError,
        MisuseWarning,
        NotHeldError,
        QuorumError,
        ReentryError,
        ReplicationError,
        ServerUnavailableError,
        UpgradeError,
        WrongTypeError,
    )
    from interlock.options import Options, best_effort, required
    from interlock.sync import (
        Barrier,
        Client,
        Condition,
        CountDownLatch,
        Election,
        Event,
        Hold,
        LeaderInfo,
        LeasedSemaphore,
        Limited,
        Lock,
        Locked,
        MultiLock,
        Observation,
        Permit,
        ReadWriteLock,
        RedLock,
        Semaphore,
        Single,
        Ticket,
        connect,
    )

_HOMES = {
    "interlock.backoff": ("Backoff", "ConstantBackoff", "ExponentialBackoff"),
    "interlock.credentials": ("CredentialProvider", "FileCredentials"),
    "interlock.errors": (
        "AcquireTimeoutError", "BrokenBarrierError", "ClosedError", "ConfigError",
        "HoldLostError", "InterlockError", "LatchDeletedError", "MisuseWarning", "NotHeldError",
        "QuorumError", "ReentryError", "ReplicationError", "ServerUnavailableError", "UpgradeError",
        "WrongTypeError",
    ),
    "interlock.options": ("Options", "best_effort", "required"),
    "interlock.sync": (
        "Barrier", "Client", "Condition", "CountDownLatch", "Election", "Event", "Hold",
        "LeaderInfo", "Limited", "Observation", "LeasedSemaphore", "Lock", "Locked", "MultiLock",
        "Permit", "ReadWriteLock", "RedLock", "Semaphore", "Single", "Ticket", "connect",
    ),
}  # fmt: skip
_ELSEWHERE = {
    **dict.fromkeys(
        ("Redis", "StrictRedis", "Redisson", "RedissonClient", "from_url"), "interlock.connect(url)"
    ),
    **dict.fromkeys(
        ("RLock", "FileLock", "Redlock", "Mutex", "RedisLock", "DistributedLock"),
        "interlock.connect(url).lock(name)",
    ),
    "AsyncLock": "interlock.asyncio.connect(url).lock(name)",
    "AsyncClient": "interlock.asyncio.connect(url)",
    "BoundedSemaphore": "interlock.connect(url).semaphore(name, permits=n)",
    "aio": "interlock.asyncio",
    "LockError": "InterlockError, or those below it in interlock.errors",
    "LockNotOwnedError": "NotHeldError or HoldLostError of interlock.errors",
    "Timeout": "AcquireTimeoutError of interlock.errors",
}
"""Names of other libraries, and ours."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AcquireTimeoutError",
    "Backoff",
    "Barrier",
    "BrokenBarrierError",
    "Client",
    "ClosedError",
    "Condition",
    "ConfigError",
    "ConstantBackoff",
    "CountDownLatch",
    "CredentialProvider",
    "Election",
    "Event",
    "ExponentialBackoff",
    "FileCredentials",
    "Hold",
    "HoldLostError",
    "InterlockError",
    "LatchDeletedError",
    "LeaderInfo",
    "LeasedSemaphore",
    "Limited",
    "Lock",
    "Locked",
    "MisuseWarning",
    "MultiLock",
    "NotHeldError",
    "Observation",
    "Options",
    "Permit",
    "QuorumError",
    "ReadWriteLock",
    "RedLock",
    "ReentryError",
    "ReplicationError",
    "Semaphore",
    "ServerUnavailableError",
    "Single",
    "Ticket",
    "UpgradeError",
    "WrongTypeError",
    "__version__",
    "asyncio",
    "best_effort",
    "check",
    "connect",
    "errors",
    "fencing",
    "observe",
    "required",
]


def __getattr__(name: str) -> object:
    if name in ("asyncio", "check", "errors", "fencing", "observe"):
        return import_module(f"interlock.{name}")
    if name not in _HOME_OF:
        from importlib.util import find_spec  # noqa: PLC0415 - only a mistake needs it

        from interlock._hints import missing  # noqa: PLC0415 - as above

        if not name.startswith("_") and find_spec(f"interlock.{name}"):
            raise AttributeError(f"{__name__}.{name} is not loaded: write import interlock.{name}")
        raise missing(__name__, name, _ELSEWHERE.get(name) or _method(name))
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def _method(name: str) -> str:
    """Return how to write the method *name* of a client; an empty text if there is none."""
    if name.startswith("_"):
        return ""
    from interlock.sync import Client  # noqa: PLC0415 - only a mistake needs it

    return f"interlock.connect(url).{name}(...)" if callable(vars(Client).get(name)) else ""


def __dir__() -> list[str]:
    return sorted(__all__)
