"""The classes of the core that each kind of the catalogue has."""

from __future__ import annotations

from typing import Any

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.red_lock import RedLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.objects.barrier import Barrier
from interlock._core.objects.condition import Condition
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock._core.objects.election import Election
from interlock._core.objects.event import Event
from interlock._core.objects.permits import LeasedPermits, LimitedPermits
from interlock._core.objects.semaphore import Semaphore

CORES: dict[str, tuple[type[Any], ...]] = {
    "lock": (Lock,),
    "fair_lock": (FairLock,),
    "fenced_lock": (FencedLock,),
    "read_write_lock": (ReadLock, WriteLock),
    "group_lock": (GroupLock,),
    "spin_lock": (SpinLock,),
    "multi_lock": (MultiLock,),
    "red_lock": (RedLock,),
    "leased_semaphore": (LeasedPermits,),
    "limited": (LimitedPermits,),
    "semaphore": (Semaphore,),
    "count_down_latch": (CountDownLatch,),
    "event": (Event,),
    "condition": (Condition,),
    "barrier": (Barrier,),
    "election": (Election,),
}
"""Name of the factory on the client -> its classes."""
