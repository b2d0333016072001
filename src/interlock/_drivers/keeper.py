"""The renewal thread: one thread and one connection keep all holds of a client, for asyncio too.

A blocked event loop must not lose locks, so renewal never depends on one. The thread also carries through what must still
reach the server when a caller's time was up (`Settle`), and releases what is left when the client closes.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

from interlock._core.effects import Batch
from interlock._core.session import GRACE
from interlock._core.settling import Settlements
from interlock._drivers import clock
from interlock._drivers.lifecycle import report
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval, Op, R, Settle
    from interlock._core.session import Session
    from interlock._core.watchdog import Round
    from interlock._links.batch_connection import BatchConnection

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an error that nobody foresaw."""


class Keeper:
    """Keeps the holds of one client.

    Args:
        session: the client's state.
        courier: what to send by; nobody else uses it.
        timeout: seconds for one reply.
    """

    def __init__(self, session: Session, courier: BatchConnection, timeout: float) -> None:
        self._session = session
        self._courier = courier
        # A server that hangs must leave time for another try within the validity.
        self._timeout = min(timeout, session.watchdog.period / 2)
        self._reset()

    def _reset(self) -> None:
        self._change = threading.Condition()
        self._poked = False
        self._moved = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._settlements = Settlements()
        self.started = False

    def start(self) -> None:
        """Start the thread unless it runs; called before anything is claimed, so that a claim is never without it."""
        with self._change:
            if self.started:
                return
            thread = threading.Thread(target=self._run, name="interlock-keeper", daemon=True)
            thread.start()
            self._thread = thread
            self.started = True

    def poke(self) -> None:
        """Have the thread look again at what is due."""
        with self._change:
            self._poked = True
            self._change.notify()

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
        with self._change:
            self._closing = True
            self._change.notify()
            thread = self._thread
        if thread is threading.current_thread():
            self._courier.drop()  # a callback of the user's closes; the connection may be in the middle of an exchange
        elif thread is not None:
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
        while True:
            try:
                due = self._session.watchdog.next_due(clock.now())
                due = min(due, self._settlements.next_due())
                with self._change:
                    if not self._poked and not self._closing:
                        self._change.wait(max(due - clock.now(), 0))
                    self._poked = False
                    if self._closing:
                        return
                self._work()
            except Exception as error:  # noqa: BLE001 - the other holds must go on being kept
                report("the renewal thread", error)
                threading.Event().wait(PAUSE_AFTER_ERROR)

    def _work(self) -> None:
        """Do what is due."""
        self._warn_of(self._perform(self._session.watchdog.run(clock.now), self._courier))
        self._perform(self._settlements.run(clock.now), self._courier)

    def _warn_of(self, result: Round) -> None:
        """Name what was abandoned; where warnings are errors each is reported as one, and nothing waits for it."""
        for hold in result.abandoned:
            try:
                warnings.warn(
                    f"hold of {hold.name!r} by {hold.label} was never released; "
                    f"it is not renewed any more and ends within {hold.lease:g} s",
                    ResourceWarning,
                    stacklevel=2,
                )
            except Exception as error:  # noqa: BLE001 - a filter or hook of the user's must not delay renewals
                report("the renewal thread", error)

    def _perform(self, op: Op[R], courier: BatchConnection) -> R:
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

    def _batch(self, calls: Sequence[Eval[object]], courier: BatchConnection) -> list[object]:
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
