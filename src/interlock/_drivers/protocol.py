"""What the driver beneath a client must have: the one list of names, for those who write one.

It has the connections of a client, its observers, and its end. `interlock._drivers2` performs the
operations over it. `_new_driver` of each client returns it as one of these two.

A driver with threads or connections of its own also follows `lifecycle.Mortal`. That is what forks
and the end of the process need. The architecture page tells how to add a driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.calls import A, R
    from interlock._core.model.hold import Hold
    from interlock._drivers.background.event_delivery import Observers
    from interlock._drivers.process.lifecycle import Ending
    from interlock._drivers.state import State


class Driver(Protocol):
    """What every driver has, however it waits."""

    @property
    def state(self) -> State:
        """Return what the client knows from its beginning."""
        ...

    @property
    def observers(self) -> Observers:
        """Return the users' observers, to which the driver delivers events."""
        ...

    @property
    def ending(self) -> Ending:
        """Return the end of the client, which may be tried again until it is complete."""
        ...

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        ...

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* once when *hold* is lost, or at once if it is; report its errors."""
        ...


class BlockingDriver(Driver, Protocol):
    """A driver whose calls block the calling thread or greenlet."""

    def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*, which may block for seconds; return its result."""
        ...

    def close(self) -> None:
        """Release what is still held, and end every thread and connection."""
        ...


class AwaitedDriver(Driver, Protocol):
    """A driver whose calls are awaited, in the loop of whatever library."""

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*, which may block for seconds, in a thread; return its result."""
        ...

    async def close(self) -> None:
        """Release what is still held, and end every thread and connection."""
        ...

    def new_event(self) -> tuple[Event, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        ...

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """
        ...

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return whether *error* is a cancellation of the caller by the loss of *hold*.

        If so, the cancellation is taken back. A driver that cancels nothing returns False.
        """
        ...

    def cancel_on_lost(self, hold: Hold) -> None:
        """Cancel the running task when *hold* is lost before its release begins.

        Raises:
            ConfigError: the library cannot cancel a task from outside.
        """
        ...


class Event(Protocol):
    """An event that a task waits for."""

    async def wait(self) -> object:
        """Wait until it is set."""
        ...
