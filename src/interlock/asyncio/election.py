"""The election of a leader."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from interlock._core.model.effects import Wait
from interlock._drivers.process.lifecycle import report
from interlock._drivers.tasks import run_user
from interlock._hints import hints
from interlock._naming import check_callback, checked_awaitable, takes_argument
from interlock.asyncio.lock import Lock
from interlock.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from interlock._core.objects.election import Election as CoreElection
    from interlock._core.objects.election import LeaderInfo

T = TypeVar("T")
RETRY = 0.5
"""Seconds after which an observer looks again if the server did not answer."""


@hints("election.observe(callback)")
class Observation:
    """Tells of every change until it is closed; made by `Election.observe`."""

    def __init__(self, _stop: Callable[[], None], _ended: Callable[[], Awaitable[None]]) -> None:
        self._stop, self._ended = _stop, _ended

    async def close(self) -> None:
        """Tell of no more changes; wait for a callback that runs, unless that calls this.

        It also waits for a look that is under way: during an outage, at most the outage time-out.
        """
        self._stop()
        await self._ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


@hints("client.election(name)")
class Election(Lock):
    """The election of one leader among many candidates; made by `Client.election`.

    ``async with election as term:`` waits until this task leads. Leaving the block resigns. The
    *term* is a `Hold`: ``term.token`` is its fencing token, ``term.lost`` is set when it is lost,
    and ``term.ensure()`` raises then. It has the methods of a lock, which is not reentrant:
    ``acquire`` waits for leadership, ``release`` resigns.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # help() would show it
        _core: CoreElection  # pyright: ignore[reportIncompatibleVariableOverride]

    async def leader(self) -> LeaderInfo | None:
        """Return who leads, or None; one round trip."""
        return await self._driver.run(self._core.leader())

    async def run(self, function: Callable[..., Awaitable[T]]) -> T:
        """Wait until this task leads, call *function*, and resign when it ends.

        Args:
            function: called with the term, if it takes an argument. With asyncio it is cancelled
                when the term is lost; elsewhere it must look at ``term.lost``.

        Returns:
            What *function* returned. Errors are those of a block.
        """
        check_callback(function)
        async with self as term:
            # asyncio only
            with suppress(ConfigError):  # trio cancels scopes, not tasks
                term.cancel_on_lost()
            # end
            result = function(term) if takes_argument(function) else function()
            return await checked_awaitable(result, function)

    def observe(self, callback: Callable[[LeaderInfo | None], object]) -> Observation:
        """Call *callback* with the leader now and after every change; None for nobody.

        It runs in the event loop. An error in it is reported and stops nothing.
        Changes that follow each other fast are told as one.

        Returns:
            An observation: close it, or enter it by ``async with``.
        """
        check_callback(callback)
        driver: Any = self._driver
        core, seen = self._core, self._core.watch()
        if driver.closed:
            raise ClosedError("the client is closed")

        async def watch() -> None:
            with suppress(ClosedError):
                while True:
                    try:
                        if not await driver.run(core.next_leader(seen)):
                            return
                    except Exception as error:  # noqa: BLE001 - the next look may succeed
                        if driver.closed:
                            return
                        report("an observer of an election", error)
                        await driver.run(iter(Wait(None, driver.session.clock() + RETRY)))
                    else:
                        await run_user("a callback of an election", lambda: callback(seen.leader))

        return Observation(lambda: core.stop(seen), driver.start(watch))
