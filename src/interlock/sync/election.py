# Generated from interlock/asyncio/election.py by tools/make_sync.py; change that file.
"""The election of a leader."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from interlock._core.model.effects import Wait
from interlock._drivers.process.lifecycle import report
from interlock._drivers.threads import run_user
from interlock._hints import hints
from interlock._naming import check_callback, checked_result, takes_argument
from interlock.errors import ClosedError
from interlock.sync.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from interlock._core.objects.election import Election as CoreElection
    from interlock._core.objects.election import LeaderInfo

T = TypeVar("T")
RETRY = 0.5
"""Seconds after which an observer looks again if the server did not answer."""


@hints("election.observe(callback)")
class Observation:
    """Tells of every change until it is closed; made by `Election.observe`."""

    def __init__(self, _stop: Callable[[], None], _ended: Callable[[], None]) -> None:
        self._stop, self._ended = _stop, _ended

    def close(self) -> None:
        """Tell of no more changes; wait for a callback that runs, unless that calls this.

        It also waits for a look that is under way: during an outage, at most the outage time-out.
        """
        self._stop()
        self._ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@hints("client.election(name)")
class Election(Lock):
    """The election of one leader among many candidates; made by `Client.election`.

    ``with election as term:`` waits until this thread leads. Leaving the block resigns. The
    *term* is a `Hold`: ``term.token`` is its fencing token, ``term.lost`` is set when it is lost,
    and ``term.ensure()`` raises then. It has the methods of a lock, which is not reentrant:
    ``acquire`` waits for leadership, ``release`` resigns.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # help() would show it
        _core: CoreElection  # pyright: ignore[reportIncompatibleVariableOverride]

    def leader(self) -> LeaderInfo | None:
        """Return who leads, or None; one round trip."""
        return self._driver.run(self._core.leader())

    def run(self, function: Callable[..., T]) -> T:
        """Wait until this thread leads, call *function*, and resign when it ends.

        Args:
            function: called with the term, if it takes an argument. With asyncio it is cancelled
                when the term is lost; elsewhere it must look at ``term.lost``.

        Returns:
            What *function* returned. Errors are those of a block.
        """
        check_callback(function, plain=True)
        with self as term:
            result = function(term) if takes_argument(function) else function()
            return checked_result(result, function)

    def observe(self, callback: Callable[[LeaderInfo | None], object]) -> Observation:
        """Call *callback* with the leader now and after every change; None for nobody.

        It runs in a thread of the client's. An error in it is reported and stops nothing.
        Changes that follow each other fast are told as one.

        Returns:
            An observation: close it, or enter it by ``with``.
        """
        check_callback(callback, plain=True)
        driver: Any = self._driver
        core, seen = self._core, self._core.watch()
        if driver.closed:
            raise ClosedError("the client is closed")

        def watch() -> None:
            with suppress(ClosedError):
                while True:
                    try:
                        if not driver.run(core.next_leader(seen)):
                            return
                    except Exception as error:  # noqa: BLE001 - the next look may succeed
                        if driver.closed:
                            return
                        report("an observer of an election", error)
                        driver.run(iter(Wait(None, driver.session.clock() + RETRY)))
                    else:
                        run_user("a callback of an election", lambda: callback(seen.leader))

        return Observation(lambda: core.stop(seen), driver.start(watch))
