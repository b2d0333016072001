"""The asyncio face: the names of `interlock`, awaited. It holds no logic; the sync face is generated from it."""

from interlock.asyncio.client import Client, connect
from interlock.asyncio.hold import Hold
from interlock.asyncio.lock import Lock

__all__ = ["Client", "Hold", "Lock", "connect"]
