"""What the drivers of tasks have in common: how an operation is carried from effect to effect."""

# The classes of a driver share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op, R
    from interlock._core.upkeep.session import Session
    from interlock._drivers2.client import Client


class AwaitedDriver(ABC):
    """Performs the operations of the client of *first*, which has the connections, for tasks."""

    def __init__(self, first: Any, client: Client) -> None:
        self._first, self.client = first, client
        self.observers, self.ending = first.observers, first.ending
        self.on_lost: Any = first.on_lost
        self.cancel_on_lost: Any = first.cancel_on_lost
        self.cancelled_by_loss: Any = first.cancelled_by_loss
        self.aside, self.new_event, self.start = first.aside, first.new_event, first.start

    @property
    def session(self) -> Session:
        """The state that the client's operations share."""
        return self.client.session

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        closed: bool = self._first.closed
        return closed

    @abstractmethod
    async def _begin(self) -> None:
        """Set up what the first operation needs."""

    @abstractmethod
    async def _perform(self, effect: Any) -> Any:
        """Perform *effect* and return its reply."""

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* after a cancellation; return its result."""
        return await self.run(op)

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
