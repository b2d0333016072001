"""What the drivers of tasks have in common: how an operation is carried from effect to effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.effects import A, Op, R, Step
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session


class Event(Protocol):
    """An event that a task waits for."""

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


class AwaitedDriver(ABC):
    """Performs the operations of one client for tasks, in the loop of whatever library.

    Attributes:
        session: what its operations share.
    """

    session: Session

    @abstractmethod
    async def _begin(self) -> None:
        """Set up what the first operation needs."""

    @abstractmethod
    async def _perform(self, effect: Any) -> Any:
        """Perform *effect* and return its reply."""

    @abstractmethod
    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. Whatever is raised, nothing of *step* is left."""

    async def run(self, op: Op[R]) -> R:
        """Perform *op*; return its result."""
        await self._begin()
        reply: Any = None
        failure: InterlockError | None = None
        try:
            while True:
                effect = op.send(reply) if failure is None else op.throw(failure)
                reply = failure = None
                try:
                    reply = await self._perform(effect)
                except InterlockError as error:
                    failure = error
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            del failure  # a frame and its error would keep each other alive

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* after a cancellation; return its result."""
        return await self.run(op)

    @abstractmethod
    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the loop goes on; return its result.

        A cancellation does not stop the thread: it ends by itself.
        """

    @abstractmethod
    def new_event(self) -> tuple[Event, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""

    @abstractmethod
    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """

    @abstractmethod
    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* in the loop when *hold* is lost, or at once if it is."""

    @abstractmethod
    def cancel_on_lost(self, hold: Hold) -> None:
        """Cancel the running task when *hold* is lost before its release begins.

        Raises:
            ConfigError: the library cannot cancel a task from outside.
        """

    @abstractmethod
    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return whether *error* is the cancellation of this task by the loss of *hold*.

        If so, the cancellation is taken back. A driver that cancels nothing returns False.
        """

    @abstractmethod
    async def close(self) -> None:
        """Release what is still held, and end every thread and connection."""
