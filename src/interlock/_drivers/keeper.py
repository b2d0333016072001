"""The renewal thread: one thread and one connection keep all holds of a client, for asyncio too.

A blocked event loop must not lose locks, so renewal never depends on one. The thread also carries through what must still
reach the server when a caller's time was up (`Settle`), and releases what is left when the client closes.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

from interlock._core.effects import Batch, Settle
from interlock._drivers import clock
from interlock._drivers.lifecycle import report
from interlock._links.connection import Connection
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval, Op, R
    from interlock._core.session import Session
    from interlock._links.endpoint import Endpoint

SETTLE_PAUSE = 0.1
"""Seconds between tries to settle something."""
SETTLE_TIMES = 2
"""A settling script is sent again after an answer that it found nothing: what it undoes may just have been arriving."""
JOIN_TIMEOUT = 5.0


class Keeper:
    """Keeps the holds of one client.

    Args:
        session: the client's state.
        endpoint: where to connect.
        timeout: seconds for one reply.
    """

    def __init__(self, session: Session, endpoint: Endpoint, timeout: float) -> None:
        self._session = session
        self._endpoint = endpoint
        # A server that hangs must leave time for another try within the validity.
        self._timeout = min(timeout, session.watchdog.period / 2)
        self._reset()

    def _reset(self) -> None:
        self._change = threading.Condition()
        self._poked = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._settling: list[tuple[Settle[object], int]] = []
        self._settle_at = 0.0
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

    def settle(self, effect: Settle[object]) -> None:
        """Send what *effect* asks for until it is answered."""
        self.start()
        with self._change:
            self._settling.append((effect, SETTLE_TIMES))
            self._settle_at = 0.0
            self._poked = True
            self._change.notify()

    def close(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """End the thread; send *calls* (the releases of what is still held) in one write.

        Raises:
            ServerUnavailableError: they could not be sent, and end with their leases.
        """
        with self._change:
            self._closing = True
            self._change.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT)
        calls = [*calls, *(effect.call for effect, _ in self._settling)]
        try:
            if calls:
                connection = self._connection or Connection(self._endpoint, timeout)
                self._connection = connection
                _ = connection.batch(calls, timeout)
        finally:
            self._drop()

    def after_fork(self) -> None:
        """Be as new in a forked child."""
        connection = self._connection
        self._reset()
        if connection is not None:
            connection.close()

    def _run(self) -> None:
        while True:
            try:
                due = self._session.watchdog.next_due(clock.now())
                if self._settling:
                    due = min(due, self._settle_at)
                with self._change:
                    if not self._poked and not self._closing:
                        self._change.wait(max(due - clock.now(), 0))
                    self._poked = False
                    if self._closing:
                        return
                self._round()
                self._settle_some()
            except Exception as error:  # noqa: BLE001 - the other holds must go on being kept
                report("the renewal thread", error)
                threading.Event().wait(SETTLE_PAUSE)

    def _round(self) -> None:
        result = self._perform(self._session.watchdog.run(clock.now))
        for hold in result.abandoned:
            warnings.warn(
                f"hold of {hold.name!r} by {hold.label} was never released; "
                f"it is not renewed any more and ends within {hold.lease:g} s",
                ResourceWarning,
                stacklevel=2,
            )

    def _perform(self, op: Op[R]) -> R:
        """Run an operation whose only effects are batches."""
        reply: object = None
        while True:
            try:
                effect = op.send(reply)
            except StopIteration as stop:
                result: R = stop.value
                return result
            assert isinstance(effect, Batch)
            reply = self._batch(effect.evals)

    def _batch(self, calls: Sequence[Eval[object]]) -> list[object]:
        try:
            if self._connection is None:
                self._connection = Connection(self._endpoint, self._timeout)
            return self._connection.batch(calls, self._timeout)
        except InterlockError as error:
            self._drop()
            return [error] * len(calls)

    def _settle_some(self) -> None:
        now = clock.now()
        if not self._settling or now < self._settle_at:
            return
        with self._change:
            settling, self._settling = self._settling, []
        again: list[tuple[Settle[object], int]] = []
        for effect, times in settling:
            [reply] = self._batch([effect.call])
            if isinstance(reply, ServerUnavailableError):
                left = times
            else:
                left = 0 if reply == 1 else times - 1
            if left and now < effect.until:
                again.append((effect, left))
        self._settle_at = clock.now() + SETTLE_PAUSE
        with self._change:
            self._settling += again

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
