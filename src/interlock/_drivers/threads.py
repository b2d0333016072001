"""The driver for threads: performs the effects of an operation in the calling thread."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

from interlock._core.model.calls import (
    GRACE,
    NEVER,
    A,
    Eval,
    R,
)
from interlock._drivers import wrong_type
from interlock._drivers.background.callbacks import call_user
from interlock._drivers.connected import ConnectedDriver
from interlock._drivers.flow import current_owner
from interlock._drivers.lost_state import LostState
from interlock._drivers.process import clock
from interlock._drivers.process.whole import whole as in_one_piece
from interlock._links.pool import Pool
from interlock._links.topology import topology_of
from interlock.errors import (
    ClosedError,
    InterlockError,
    WrongTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Hold, Owner
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options


whole = in_one_piece
"""Wrap a function that a signal may strike, and what undoes that."""


class LostEvent(LostState):
    """An event that is set when a hold has ended without being released.

    Args:
        driver: the client's.
        hold: the hold.
    """

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most *timeout* seconds until the hold is lost; return whether it is."""
        if not self.is_set():
            lost = threading.Event()
            if self._hold.listen(lost.set):
                try:
                    _ = lost.wait(timeout)
                finally:
                    self._hold.unlisten(lost.set)
        return self.is_set()


class ThreadDriver(ConnectedDriver):
    """Runs the operations of one client for any number of threads.

    Args:
        servers: one server, or a cluster.
        options: the client's.
        caller: returns the running thread, or what runs in its place.
    """

    face = "interlock.Client"

    def __init__(
        self,
        servers: Endpoint | Cluster,
        options: Options,
        caller: Callable[[], Owner] = current_owner,
    ) -> None:
        topology = topology_of(servers)
        self._pool = Pool(topology)
        self._exiting = False
        super().__init__(servers, options, topology, caller)
        self._follow_process(self._pool)

    def _begin(self) -> None:
        """Set up everything that the first operation and every hold need."""
        if self.closed:
            return  # a command to the server raises ClosedError
        self._pool.open(self.state.options.pubsub, self._timeout)
        self._reporter.start()

    def prepared(
        self, call: Eval[object], seconds: float | None
    ) -> tuple[Pool, Eval[object], float]:
        """Return the arguments for `ask`: the pool, *call*, and its time limit in seconds.

        *seconds* is the limit; None if *call* tells it.
        """
        if not self._reporter.started:
            self._begin()
        if seconds is None:
            seconds = call.deadline - clock.now()
        return self._pool, call, min(self._timeout, seconds)

    def eval(self, call: Eval[object]) -> object:
        """Run *call* and return its reply.

        Errors as `Pool.eval`. A WrongTypeError costs another round trip to say what was found.
        """
        try:
            return self._pool.eval(call, self._seconds(call))
        except InterlockError as error:
            self._explain(error)
            raise

    def _seconds(self, call: Eval[object]) -> float:
        """Return the seconds that *call* may take."""
        if call.deadline == NEVER:
            return self._timeout
        return min(self._timeout, max(call.deadline - clock.now(), GRACE))

    def _explain(self, error: BaseException) -> None:
        """Prepare the *error* of a call before it is raised.

        If the client was closed because the interpreter exits, a daemon thread waits here for the
        end. A WrongTypeError costs another round trip to say what was found.
        """
        if isinstance(error, ClosedError):
            self._end_with_the_process()
        elif isinstance(error, WrongTypeError):
            with suppress(InterlockError):
                wrong_type.describe(error, self._pool.eval(wrong_type.types_of(error), GRACE))
            wrong_type.name(error, self.state.options.prefix)

    def _end_with_the_process(self) -> None:
        """Wait for the end of the interpreter if it exits and this is a daemon thread.

        Nobody could handle an error any more.
        """
        if self._exiting and threading.current_thread().daemon:
            threading.Event().wait()

    def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*, which may block; return its result."""
        return function(*args)

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* in a thread for callbacks when *hold* is lost, or at once if it is."""
        listener = partial(call_user, hold, "an on_lost callback", callback)
        if not hold.listen(listener):
            listener()

    def close(self) -> None:
        """Release what is still held and end every thread and connection.

        If it was interrupted, another call goes on from there. Once the end is complete, another
        call changes nothing.

        Raises:
            ServerUnavailableError: some holds could not be released; they end with their leases.
        """
        self.closed = True
        self._end(self._timeout)

    def at_exit(self) -> None:
        """Release what is still held when the interpreter exits.

        A thread that still waits ends with the interpreter.
        """
        self._exiting = self._exiting or not self.ending.over
        super().at_exit()

    def end_dropped(self) -> None:
        """End as `close` does."""
        self.close()

    def _forget_connections(self) -> None:
        self._pool.forget()

    def _close_connections(self, timeout: float) -> None:
        self._pool.close(timeout)
