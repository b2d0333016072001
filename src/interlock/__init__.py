"""Distributed locks for Python on Redis and Valkey, on the same wire as Redisson.

This is the sync face; `interlock.asyncio` has the same names, awaited.
"""

from interlock import asyncio, errors
from interlock._version import __version__
from interlock.errors import (
    AcquireTimeoutError,
    ClosedError,
    ConfigError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    QuorumError,
    ReentryError,
    ReplicationError,
    ServerUnavailableError,
    UpgradeError,
    WrongTypeError,
)
from interlock.options import Options, best_effort, required
from interlock.sync import Client, Hold, Lock, connect

__all__ = [
    "AcquireTimeoutError",
    "Client",
    "ClosedError",
    "ConfigError",
    "Hold",
    "HoldLostError",
    "InterlockError",
    "Lock",
    "NotHeldError",
    "Options",
    "QuorumError",
    "ReentryError",
    "ReplicationError",
    "ServerUnavailableError",
    "UpgradeError",
    "WrongTypeError",
    "__version__",
    "asyncio",
    "best_effort",
    "connect",
    "errors",
    "required",
]
