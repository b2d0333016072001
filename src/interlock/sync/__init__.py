# Generated from interlock/asyncio/__init__.py by tools/make_sync.py; change that file.
"""The sync face, re-exported by `interlock`."""

from interlock._core.objects.election import LeaderInfo
from interlock._drivers.threads import LostEvent
from interlock._misuse import publish
from interlock.sync.barrier import Barrier
from interlock.sync.client import Client, connect
from interlock.sync.composite_lock import MultiLock, RedLock
from interlock.sync.condition import Condition
from interlock.sync.count_down_latch import CountDownLatch
from interlock.sync.decorators import Locked, Single
from interlock.sync.election import Election, Observation
from interlock.sync.event import Event
from interlock.sync.leased_semaphore import LeasedSemaphore, Permit
from interlock.sync.limited import Limited
from interlock.sync.lock import Hold, Lock
from interlock.sync.read_write_lock import ReadWriteLock
from interlock.sync.semaphore import Semaphore
from interlock.sync.ticket import Ticket

__all__ = [
    "Barrier",
    "Client",
    "Condition",
    "CountDownLatch",
    "Election",
    "Event",
    "Hold",
    "LeaderInfo",
    "LeasedSemaphore",
    "Limited",
    "Lock",
    "Locked",
    "MultiLock",
    "Observation",
    "Permit",
    "ReadWriteLock",
    "RedLock",
    "Semaphore",
    "Single",
    "Ticket",
    "connect",
]

publish(__name__, Client, CountDownLatch, Hold, LeasedSemaphore, Lock, Locked, LostEvent, MultiLock)
publish(__name__, Barrier, Condition, Election, Event, Observation, Permit, ReadWriteLock)
publish(__name__, Limited, RedLock, Semaphore, Single, Ticket)
connect.__module__ = Client.__module__
