"""The events that a client tells its observers, and the base class of observers.

Each event is a small frozen object. The method of `Observer` that takes it has the name of its class:
`gave_up` takes a `GaveUp`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from interlock._core.model.hold import GONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.errors import LossReason


def tell_loss(reason: LossReason, detail: str = "") -> str:
    """Return *reason* and *detail* of a loss in words, for messages and logs."""
    if reason == "server lost it":
        return f"gone from the server ({detail or GONE})"
    return f"{reason}: {detail}" if detail else reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event says.

    Attributes:
        method: the method of `Observer` that takes it.
        time: seconds since 1970, by this machine's clock.
        client_id: the client.
        server: the address of its server.
    """

    method: ClassVar[str]
    time: float
    client_id: str
    server: str

    def __init_subclass__(cls) -> None:
        cls.method = re.sub("(?<=.)([A-Z])", r"_\1", cls.__name__).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent(Event):
    """An event of one lock.

    Attributes:
        name: what the user calls the lock.
        kind: the kind of lock, such as ``"lock"`` or ``"fair lock"``.
        holder: ``"<client id>:<number>"``, the holder or waiter as the server knows it.
        owner: the thread or task, in words.
    """

    name: str
    kind: str
    holder: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired(LockEvent):
    """A lock was acquired; a re-entry is no event.

    Attributes:
        seconds: from the call to the grant.
        waited: whether another owner held it first.
        token: the fencing token, or None.
    """

    seconds: float
    waited: bool
    token: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(LockEvent):
    """A lock was released.

    Attributes:
        seconds: how long it was held.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(LockEvent):
    """A wait for a lock begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(LockEvent):
    """A wait for a lock ended without the lock.

    Attributes:
        seconds: how long it waited.
        error: the class of the exception that ended it; None if its time was up.
    """

    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(LockEvent):
    """A hold ended without being released.

    Attributes:
        seconds: how long it was held.
        reason: why it ended.
        detail: what more is known, as of `HoldLostError`.
    """

    seconds: float
    reason: LossReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(LockEvent):
    """A hold is no longer renewed, because nobody is left to release it.

    Attributes:
        seconds: how long it was held.
        lease: the seconds within which it ends.
    """

    seconds: float
    lease: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceReleased(Event):
    """This client broke a lock.

    Attributes:
        name: what the user calls the lock.
        kind: the kind of lock.
        holder: the holder that it broke; empty if it freed the lock from all its holders.
        reason: the reason that the user gave, or an empty text.
    """

    name: str
    kind: str
    holder: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAcquire(LockEvent):
    """A wait lasts longer than `Options.slow_acquire`, and goes on.

    Attributes:
        seconds: how long it has waited.
        held_by: the holders at this moment, as the server knows them.
    """

    seconds: float
    held_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowHold(LockEvent):
    """A hold lasts longer than `Options.slow_hold`, and goes on.

    Attributes:
        seconds: how long it has been held.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Event):
    """One round of renewal is over, at one server.

    Attributes:
        seconds: how long the round took.
        count: holds that were renewed.
        failed: scripts that got no answer.
    """

    seconds: float
    count: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalFailed(Event):
    """Renewal fails. Observers hear of it once in each outage.

    Attributes:
        count: holds that were to be renewed.
        validity: seconds until the first of them is lost.
        error: the class of the error.
        detail: its text.
    """

    count: int
    validity: float
    error: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """Renewal succeeds again.

    Attributes:
        seconds: the time since the first failure.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChanged(Event):
    """Sentinel named another primary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflowed(Event):
    """This observer was too slow, and missed events.

    Attributes:
        count: the number of events that it has missed since the last `Overflowed`.
    """

    count: int


class ClientView(Protocol):
    """What an observer may ask about its client at any time, without a round trip."""

    @property
    def client_id(self) -> str:
        """Return the first half of every holder id."""
        ...

    @property
    def server(self) -> str:
        """Return the address of the server."""
        ...

    def holds(self) -> Mapping[str, int]:
        """Return how many holds there are of each kind of lock."""
        ...

    def waiters(self) -> Mapping[str, int]:
        """Return how many threads and tasks wait for each kind of lock."""
        ...

    def validity(self) -> float | None:
        """Return the seconds until the first hold ends without renewal; None without a hold."""
        ...

    def note_trace(self, holder: str, name: str, trace_id: str) -> None:
        """Write the trace of a hold to the client's card; an empty *trace_id* forgets it."""
        ...

    def forget_traces(self) -> None:
        """Forget all that `note_trace` has noted."""
        ...


class Observer:
    """The base class of observers: every method does nothing, until a subclass overrides it.

    The methods run in a thread of their own, one after another, soon after the event. They may be
    slow, raise or hang: the client goes on. An observer that cannot keep up misses events, and
    `overflowed` tells it how many. The first exception of each method is reported to
    `threading.excepthook`.
    """

    def attached(self, client: ClientView) -> None:
        """Take the *client* that is observed.

        ``client.observe`` causes one call, in the thread of the observer.
        """

    def detached(self, client: ClientView) -> None:
        """Forget *client*, which is closed or no longer observed."""

    def acquired(self, event: Acquired) -> None:
        """Take an `Acquired`."""

    def released(self, event: Released) -> None:
        """Take a `Released`."""

    def waiting(self, event: Waiting) -> None:
        """Take a `Waiting`."""

    def gave_up(self, event: GaveUp) -> None:
        """Take a `GaveUp`."""

    def lost(self, event: Lost) -> None:
        """Take a `Lost`."""

    def abandoned(self, event: Abandoned) -> None:
        """Take an `Abandoned`."""

    def force_released(self, event: ForceReleased) -> None:
        """Take a `ForceReleased`."""

    def slow_acquire(self, event: SlowAcquire) -> None:
        """Take a `SlowAcquire`."""

    def slow_hold(self, event: SlowHold) -> None:
        """Take a `SlowHold`."""

    def renewed(self, event: Renewed) -> None:
        """Take a `Renewed`."""

    def renewal_failed(self, event: RenewalFailed) -> None:
        """Take a `RenewalFailed`."""

    def recovered(self, event: Recovered) -> None:
        """Take a `Recovered`."""

    def server_changed(self, event: ServerChanged) -> None:
        """Take a `ServerChanged`."""

    def overflowed(self, event: Overflowed) -> None:
        """Take an `Overflowed`."""


FREQUENT = ("acquired", "released", "waiting", "gave_up")
"""Methods of the events that come with each use of a lock; all other events are rare."""
