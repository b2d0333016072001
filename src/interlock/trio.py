"""The trio face: the client of `interlock.asyncio`, whose methods trio's tasks await.

``await trio.lowlevel.checkpoint()`` and cancel scopes work as everywhere in trio. The owner of a
lock is the task that acquired it. The parts that are about event loops only are not here: a hold
cancels a scope by ``hold.on_lost(scope.cancel)``. See docs/how-to/asyncio.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock import asyncio as _asyncio
from interlock._drivers.trio import TrioDriver
from interlock._links.urls import open_url
from interlock.asyncio import (
    Barrier,
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
)
from interlock.options import options_of

if TYPE_CHECKING:
    from interlock._links.topology import Topology
    from interlock.options import Options

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


def connect(url: str | None = None, *, options: Options | None = None, **changes: Any) -> Client:
    """Return a client of the server at *url*.

    The arguments and errors are those of `interlock.asyncio.connect`.
    """
    return Client(*open_url(url, options_of(options, changes)))


class Client(_asyncio.Client):
    """Makes locks on one server; `interlock.asyncio.Client` documents its methods."""

    __slots__ = ()

    def _new_driver(self, servers: Topology, options: Options) -> Any:
        return TrioDriver(servers, options)
