"""What is told about locks: plain values, which JSON can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

LATE_AFTER = 1 / 3 + 0.05
"""Share of the lease after which a renewal is late: a third, and some for its way."""
DEAD_AFTER = 120.0
"""Seconds of silence after which a client is dead, where its connections cannot be seen."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One client object of one process.

    Attributes:
        client_id: the first half of its holder ids.
        version: of this library. Like all below, it is empty or None where no card tells.
        host: the machine's name.
        pid: the process.
        program: what the process runs.
        answering: whether its card was refreshed in time.
        holds: how many holds it has.
        waits: how many of its threads and tasks wait for a lock or permits.
        doubt: why its card is not to be believed; empty if it is.
        silent: seconds since its card was written.
        connected: whether the server has a connection of it; looked at only if the card is late
            or, in the description of one lock, not fresh.
    """

    client_id: str
    version: str = ""
    host: str = ""
    pid: int | None = None
    program: str = ""
    answering: bool | None = None
    holds: int | None = None
    waits: int | None = None
    doubt: str = ""
    silent: float | None = None
    connected: bool | None = None

    @property
    def dead(self) -> bool:
        """Return whether its card is late, and it has no connection, or cannot be seen for long."""
        gone = (self.silent or 0.0) > DEAD_AFTER if self.connected is None else not self.connected
        return self.answering is False and gone

    @property
    def state(self) -> str:
        """Return ``"alive"``, ``"silent"``, ``"dead"``, or ``"unknown"`` without a card."""
        if self.answering is None:
            return "unknown"
        return "alive" if self.answering else "dead" if self.dead else "silent"


@dataclass(frozen=True, slots=True)
class HolderInfo:
    """One holder of a lock, or one permit of a leased semaphore.

    Attributes:
        holder: ``"<client id>:<number>"``, or the id of a permit.
        client: the client, as far as it is known.
        mode: ``"read"`` or ``"write"`` for a read/write lock, else empty.
        depth: how often it was entered.
        remaining: seconds until it ends unless it is renewed; None if it never ends.
        held_for: seconds. Like all below, it is empty or None where no card tells.
        lease: seconds of one renewal, or of the whole hold.
        renewed: whether it is renewed.
        thread: the thread or task.
        place: the line that acquired it, as ``file:line``.
        trace_id: of the trace in which it was acquired.
        owner: tells the threads and tasks of one client apart.
    """

    holder: str
    client: ClientInfo
    mode: str = ""
    depth: int = 1
    remaining: float | None = None
    held_for: float | None = None
    lease: float | None = None
    renewed: bool | None = None
    thread: str = ""
    place: str = ""
    trace_id: str = ""
    owner: int | None = None

    @property
    def renewed_ago(self) -> float | None:
        """Return the seconds since its last renewal, None where that is not known."""
        if not self.renewed or self.lease is None or self.remaining is None:
            return None
        return max(self.lease - self.remaining, 0.0)

    @property
    def late(self) -> bool:
        """Return whether its renewal is late: the holder is dying, or cut off from the server."""
        ago = self.renewed_ago
        return ago is not None and ago > LATE_AFTER * (self.lease or 0.0)


@dataclass(frozen=True, slots=True)
class WaiterInfo:
    """One thread or task that waits for a lock or permits.

    Attributes:
        holder: the holder id under which it will hold the lock; of one that waits for permits a
            name that begins with the client's id.
        client: the client, as far as it is known.
        waited: seconds; None where no card tells.
        remaining: seconds for which its place in a fair queue is kept; None without one.
        thread: the thread or task; empty where no card tells.
        owner: as of `HolderInfo`.
        deadlock: whether it waits in a deadlock.
        position: its place in the server's queue, from 1; None if it stands in none.
        polls: whether it stands there without being able to listen, so that it asks again and again.
        granted: seconds since it was granted the lock, which ended without its release; else None.
    """

    holder: str
    client: ClientInfo
    waited: float | None = None
    remaining: float | None = None
    thread: str = ""
    owner: int | None = None
    deadlock: bool = False
    position: int | None = None
    polls: bool = False
    granted: float | None = None


@dataclass(frozen=True, slots=True)
class LockInfo:
    """One lock, or another object with holders, as the server had it.

    Attributes:
        name: what its users call it.
        kind: the factory of such an object (``"fair_lock"``), as far as the server shows it.
        mode: ``"read"`` or ``"write"`` for a read/write lock, else empty.
        holders: who holds it; of very many only the first.
        holder_count: how many hold it.
        remaining: seconds until the last hold ends unless it is renewed; None if never.
        waiters: who waits: first the server's queue in its order, then others of whom cards tell,
            the longest wait first; of very many only some.
        waiting: how many wait in the fair queue, or else how many clients listen for a release.
        free: free permits of a semaphore, or the count of a latch; else None.
        total: all permits of a semaphore, or the count that a latch was set up with, if Python has
            set it; else None.
        token: the last fencing token; None where there is none.
        waiter_count: how many threads and tasks wait, as far as the queue and cards tell.
    """

    name: str
    kind: str
    mode: str = ""
    holders: tuple[HolderInfo, ...] = ()
    holder_count: int = 0
    remaining: float | None = None
    waiters: tuple[WaiterInfo, ...] = ()
    waiting: int = 0
    free: int | None = None
    total: int | None = None
    token: int | None = None
    waiter_count: int = 0

    @property
    def waiting_at_least(self) -> int:
        """Return how many wait: threads and tasks, or if more, clients that listen."""
        return max(self.waiter_count, self.waiting)

    @property
    def awaited(self) -> bool:
        """Return whether somebody waits for it."""
        return bool(self.waiters or self.waiting_at_least)

    @property
    def late(self) -> bool:
        """Return whether the renewal of one of its holds is late."""
        return any(holder.late for holder in self.holders)

    @property
    def dead(self) -> bool:
        """Return whether the client of one of its holders is dead."""
        return any(holder.client.dead for holder in self.holders)

    @property
    def silent(self) -> bool:
        """Return whether the client of one of its holders does not answer."""
        return any(holder.client.answering is False for holder in self.holders)

    @property
    def deadlock(self) -> bool:
        """Return whether a thread or task waits for it in a deadlock."""
        return any(waiter.deadlock for waiter in self.waiters)

    @property
    def longest_wait(self) -> float | None:
        """Return the seconds of the longest wait for it, None where no card tells."""
        return max((each.waited for each in self.waiters if each.waited is not None), default=None)

    @property
    def held_for(self) -> float | None:
        """Return the seconds of its longest hold, None where no card tells."""
        known = [each.held_for for each in self.holders if each.held_for is not None]
        return max(known, default=None)

    @property
    def queued(self) -> bool:
        """Return whether its waiters stand in a list of the server's, each with its place."""
        return self.kind == "fair_lock"

    @property
    def any_number(self) -> bool:
        """Return whether nothing tells if it is a semaphore or a latch."""
        return self.kind == "semaphore" and self.total is None and not self.awaited

    @property
    def waiting_clients(self) -> int:
        """Return how many clients wait for it, as far as that is known."""
        told = {each.client.client_id for each in self.waiters}
        return max(len(told), 0 if self.queued else self.waiting)

    def as_dict(self) -> dict[str, object]:
        """Return the same as what JSON can carry."""
        told: dict[str, Any] = _plain(self)
        for word in ("late", "dead", "deadlock", "longest_wait"):
            told[word] = getattr(self, word)
        for waiter, entry in zip(self.waiters, told["waiters"], strict=True):
            entry["client"]["state"] = waiter.client.state
        for holder, entry in zip(self.holders, told["holders"], strict=True):
            entry["late"], entry["dead"] = holder.late, holder.client.dead
            entry["client"]["state"] = holder.client.state
        return told


def _plain(value: Any) -> Any:
    """Return *value* as what JSON can carry; `asdict` takes three times as long for a copy."""
    if isinstance(value, tuple):
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, (LockInfo, HolderInfo, WaiterInfo, ClientInfo)):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    return value
