# Generated from interlock/asyncio/__init__.py by tools/make_sync.py; change that file.
"""The sync face, re-exported by `interlock`."""

from interlock.sync.client import Client, connect
from interlock.sync.hold import Hold
from interlock.sync.lock import Lock

__all__ = ["Client", "Hold", "Lock", "connect"]
