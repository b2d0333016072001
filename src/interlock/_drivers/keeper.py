"""The renewal thread: one thread and one connection keep all holds of a client, for asyncio too.

A blocked event loop must not lose locks, so renewal never depends on one. The thread also carries through what must still
reach the server when a caller's time was up (`Settle`), and releases what is left when the client closes.

Rules:

* Nothing ends the thread but closing: no exception, ``sys.exit`` and KeyboardInterrupt included.
* No code of the user's runs on it: callbacks, warnings and reports have threads of their own (`callbacks`).
* It keeps the client's connections alive, and never the driver: that is collected when nobody can use the client any more.
"""

from __future__ import annotations

import threading
import warnings
from functools import partial
from typing import TYPE_CHECKING

from interlock._core.effects import Batch
from interlock._core.session import GRACE
from interlock._core.settling import Settlements
from interlock._drivers import callbacks, clock
from interlock._drivers.alarm import Alarm
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval, Op, R, Settle
    from interlock._core.session import Session
    from interlock._core.watchdog import Round
    from interlock._links.cluster_courier import ClusterCourier
    from interlock._links.courier import Courier

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an error that nobody foresaw."""


class Keeper:
    """Keeps the holds of one client.

    Args:
        session: the client's state.
        courier: what to send by; nobody else uses it.
        timeout: seconds for one reply.

    Attributes:
        started: whether the thread runs.
        beside: what is to stay as long as the thread does.
    """

    def __init__(self, session: Session, courier: Courier | ClusterCourier, timeout: float) -> None:
        self._session = session
        self._courier = courier
        self.beside: object = None
        # A server that hangs must leave time for another try within the validity.
        self._timeout = min(timeout, session.watchdog.period / 2)
        self._reset()

    def _reset(self) -> None:
        # Reentrant, like the wakeup: a signal handler may come in anywhere and use the client.
        self._mutex = threading.RLock()
        self._wakeup = Alarm()
        self._moved = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._settlements = Settlements()
        self.started = False

    def start(self) -> None:
        """Start the thread unless it runs; called before anything is claimed, so that a claim is never without it."""
        with self._mutex:
            if self._closing:
                return  # whatever needs the server will say so
            if self._thread is None:
                # Noted before it starts: a signal handler that comes in between must not start another one.
                thread = self._thread = threading.Thread(
                    target=self._run, name="interlock-keeper", daemon=True
                )
                try:
                    thread.start()
                except BaseException:
                    # Should it run all the same, it finds that it is not the one.
                    self._thread, self.started = None, False
                    raise
            self.started = True

    def poke(self) -> None:
        """Have the thread look again at what is due."""
        self._wakeup()

    def move(self) -> None:
        """Leave a server that is not the primary any more, and look at once whether the next one knows the holds."""
        self._moved = True
        self._session.watchdog.hasten(clock.now())

    def settle(self, effect: Settle[object]) -> None:
        """Send what *effect* asks for until it is answered."""
        self.start()
        self._settlements.add(effect, clock.now())
        self.poke()

    def close(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """End the thread; send *calls* (the releases of what is still held) and what is not settled yet in one write.

        Args:
            calls: the releases.
            timeout: seconds, about, that all of this may take.

        Raises:
            ServerUnavailableError: some of *calls* were not executed; what they release ends with its lease.
        """
        deadline = clock.now() + timeout
        self._closing = True
        self._wakeup()
        thread = self._thread
        if thread is threading.current_thread():
            self._courier.drop()  # a finalizer closes; the connection may be in the middle of an exchange
        elif thread is not None and thread.is_alive():
            thread.join(timeout)
        try:
            for reply in self._farewell([*calls, *self._settlements.calls()], deadline)[
                : len(calls)
            ]:
                if isinstance(reply, ServerUnavailableError):
                    raise reply
        finally:
            self._courier.drop()

    def _farewell(self, calls: Sequence[Eval[object]], deadline: float) -> Sequence[object]:
        if not calls:
            return ()
        left = max(deadline - clock.now(), GRACE)
        return self._courier.batch(calls, left, left)

    def after_fork(self) -> None:
        """Be as new in a forked child."""
        self._reset()
        self._courier.drop()

    def _run(self) -> None:
        while (seconds := self._turn()) is not None:
            self._wakeup.wait(seconds)

    def _turn(self) -> float | None:
        """Do what is due, in the thread; return the seconds until the next turn, or None at the end."""
        if self._closing or self._thread is not threading.current_thread():
            return None
        try:
            self._work()
            callbacks.resume()
            now = clock.now()
            due = min(self._session.watchdog.next_due(now), self._settlements.next_due())
            return min(max(due - now, 0), threading.TIMEOUT_MAX)
        except BaseException as error:  # noqa: BLE001 - the other holds must go on being kept
            callbacks.report_aside("the renewal thread", error)
            return PAUSE_AFTER_ERROR

    def _work(self) -> None:
        """Do what is due; an error in one part does not keep the other from it."""
        try:
            self._tell(self._perform(self._session.watchdog.run(clock.now), self._courier))
        finally:
            self._perform(self._settlements.run(clock.now), self._courier)

    def _tell(self, result: Round) -> None:
        """Name what was abandoned, and what went wrong in a way that nobody foresaw."""
        for hold in result.abandoned:
            message = (
                f"hold of {hold.name!r} by {hold.label} was never released; "
                f"it is not renewed any more and ends within {hold.lease:g} s"
            )
            warn = partial(warnings.warn, message, ResourceWarning, stacklevel=2)
            callbacks.call_user(Keeper, "the renewal thread", warn)
        for error in result.failures:
            if not isinstance(error, InterlockError):
                callbacks.report_aside("the renewal thread", error)

    def _perform(self, op: Op[R], courier: Courier | ClusterCourier) -> R:
        """Run an operation whose only effects are batches, which *courier* brings."""
        reply: object = None
        while True:
            try:
                effect = op.send(reply)
            except StopIteration as stop:
                result: R = stop.value
                return result
            assert isinstance(effect, Batch)
            reply = self._batch(effect.evals, courier)

    def _batch(
        self, calls: Sequence[Eval[object]], courier: Courier | ClusterCourier
    ) -> list[object]:
        # Connecting cannot be looked up from, and must be over when the next hold may be.
        soonest = self._session.watchdog.end_overdue(clock.now())
        patience = min(self._timeout, max(soonest - clock.now(), GRACE))
        moved, self._moved = self._moved, False
        try:
            self._meanwhile()
            if moved:
                courier.drop()
            replies = courier.batch(calls, self._timeout, patience, self._meanwhile)
        except ClosedError as error:
            return [error] * len(calls)
        except Exception as error:  # noqa: BLE001 - nobody foresaw it
            if len(calls) <= 1:
                return [error] * len(calls)
            # What one of them came to must not touch the others.
            callbacks.report_aside("the renewal thread", error)
            return [reply for call in calls for reply in self._batch([call], courier)]
        if moved and any(isinstance(reply, ServerUnavailableError) for reply in replies):
            # Who hears late of a loss may be one of two holders.
            self._moved = True
            self._session.watchdog.hasten(clock.now() + PAUSE_AFTER_ERROR)
        return replies

    def _meanwhile(self) -> None:
        """Look up from waiting for the server: losses are told in time, and a client that closes need not wait.

        Raises:
            ClosedError: it closes.
        """
        if self._closing:
            raise ClosedError("the client is closed")
        _ = self._session.watchdog.end_overdue(clock.now())
