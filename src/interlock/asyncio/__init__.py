"""The asyncio face: the names of `interlock`, awaited.

It holds no logic. The sync face is generated from it. The owner of a lock is the task that acquired
it.

With asyncio, give `acquire` a *timeout* instead of putting it into `asyncio.wait_for`. On Python
3.11 that makes a child `asyncio.Task`, which is then the owner.
"""

from interlock._core.objects.election import LeaderInfo
from interlock._drivers.tasks import LostEvent
from interlock._misuse import publish
from interlock.asyncio.barrier import Barrier
from interlock.asyncio.client import Client, connect
from interlock.asyncio.composite_lock import MultiLock, RedLock
from interlock.asyncio.condition import Condition
from interlock.asyncio.count_down_latch import CountDownLatch
from interlock.asyncio.decorators import Locked, Single
from interlock.asyncio.election import Election, Observation
from interlock.asyncio.event import Event
from interlock.asyncio.leased_semaphore import LeasedSemaphore, Permit
from interlock.asyncio.limited import Limited
from interlock.asyncio.lock import Hold, Lock
from interlock.asyncio.read_write_lock import ReadWriteLock
from interlock.asyncio.semaphore import Semaphore
from interlock.asyncio.ticket import Ticket

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


# asyncio only
def _missing(name: str) -> object:
    import sys  # noqa: PLC0415 - only a mistake needs it

    from interlock._hints import missing  # noqa: PLC0415 - as above

    instead = ""
    if name in sys.modules["interlock"].__all__ and not name.startswith("_"):
        instead = f"interlock.{name}, which both faces have"
    elif not name.startswith("_") and callable(vars(Client).get(name)):
        instead = f"interlock.asyncio.connect(url).{name}(...)"
    raise missing(__name__, name, instead)


globals()["__getattr__"] = _missing  # a type checker that saw it would find every name
# end
