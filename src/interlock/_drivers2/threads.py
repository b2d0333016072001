"""The driver for threads: performs effects in the calling thread."""

# It uses the connections of the driver beneath.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import Batch, Gather, Listen, Op, R, RunOn, Step, Wait
from interlock._drivers.fan_out import ask
from interlock._drivers.flow import running_loop
from interlock._drivers2.client import client_of
from interlock._misuse import warn_in_event_loop
from interlock.errors import ClosedError, InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock._drivers.threads import ThreadDriver as FirstDriver

_modules = sys.modules


class Bell:
    """Ends a wait of one thread, or else its next one."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _ = self._lock.acquire()

    def __call__(self) -> None:
        """Ring."""
        try:  # noqa: SIM105 - faster than `suppress`
            self._lock.release()
        except RuntimeError:
            pass  # it has been rung

    def wait(self, seconds: float) -> None:
        """Wait for a ring, at most *seconds*."""
        _ = self._lock.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))


class ThreadDriver:
    """Performs the operations of the client of *first*, which has the connections."""

    def __init__(self, first: FirstDriver) -> None:
        self._first, self._pool, self._timeout = first, first._pool, first._timeout
        self.client = client_of(first)
        self._eval = self._pool.eval
        self.observers, self.ending = first.observers, first.ending
        self.on_lost = first.on_lost
        self.aside = first.aside

    @property
    def session(self) -> Session:
        """The state that the client's operations share."""
        return self.client.session

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._first.closed

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return False: threads are never interrupted by a loss."""
        del error, hold
        return False

    def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. The caller handles what ends it early."""
        if not self.client.started:
            self.begin()
        call, send = step.begin(), self._eval
        failure: InterlockError | None = None
        if call is not None:
            try:
                reply = send(call, self._timeout)
            except InterlockError as error:
                self._first._explain(error)
                failure = error
            else:
                decode = call.script.decode
                if step.done(decode(reply)):
                    return step.result
        return self.run(step.rest(failure))

    def begin(self) -> None:
        """Start all that the first operation and every hold need."""
        if not self.closed:  # a command to the server raises ClosedError
            self._first._begin()
            self.client.start(self._first.publish())

    def send(self, call: Eval[Any]) -> Any:
        """Run *call*, and return its reply."""
        return self._first.eval(call)

    def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* after a signal; return its result."""
        return self.run(op)

    def of(self, session: Any) -> ThreadDriver:
        """Return the driver of the client of *session*."""
        return self if session is self.session else ThreadDriver(self._first.home(session))

    def prepared(self, call: Eval[Any], seconds: float | None) -> tuple[Any, Eval[Any], float]:
        """Return the arguments for `ask`: start first what every hold needs."""
        if not self.client.started:
            self.begin()
        return self._first.prepared(call, seconds)

    def run(self, op: Op[R]) -> R:
        """Perform *op*; return its result."""
        if "asyncio.events" in _modules and running_loop() is not None:
            warn_in_event_loop()
        if not self.client.started:
            self.begin()
        reply: Any = None
        failure: InterlockError | None = None
        try:
            while True:
                effect = op.send(reply) if failure is None else op.throw(failure)
                reply = failure = None
                try:
                    reply = self.perform_effect(effect)
                except InterlockError as error:
                    failure = error
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            del failure  # a frame and its error would keep each other alive

    def perform_effect(self, effect: Any) -> Any:
        """Perform *effect*; return its outcome."""
        if isinstance(effect, Listen):
            self.client.subscriber.hear(effect.line)
            return None
        if isinstance(effect, Batch):
            return ask([(self._pool, call, self._timeout) for call in effect.calls])
        if isinstance(effect, Gather):
            asked = [self.of(each).prepared(call, effect.seconds) for each, call in effect.calls]
            return ask(asked, effect.enough)
        if isinstance(effect, RunOn):
            return self.of(effect.session).run(effect.op)
        if not isinstance(effect, Wait):
            return self._first.eval(effect)
        self._wait(effect)
        return None

    def _wait(self, effect: Wait) -> None:
        seconds, place = effect.until - self.session.clock(), effect.place
        if place is None:
            time.sleep(0.0 if self.closed else min(max(0.0, seconds), threading.TIMEOUT_MAX))
        else:
            bell: Any = place.bell
            if bell is None:
                bell = place.bell = Bell()
            if place.told is None and not self.closed:
                bell.wait(seconds)
        if self.closed:
            self._first._end_with_the_process()
            raise ClosedError("the client was closed while it waited")
