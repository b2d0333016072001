"""What the drivers of tasks have in common: how an operation is carried from effect to effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op, R
    from interlock._core.upkeep.session import Session


class AwaitedDriver(ABC):
    """Performs the operations of one client for tasks, in the loop of whatever library.

    What else a driver must have is what `AsyncDriver` and `TrioDriver` have in common.

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
