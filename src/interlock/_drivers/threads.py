"""The driver for threads: performs the effects of an operation in the calling thread."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from interlock._core.model.effects import (
    A,
    Eval,
    Gather,
    Listen,
    Op,
    R,
    RunOn,
    Step,
    Wait,
)
from interlock._drivers import wrong_type
from interlock._drivers.background.callbacks import call_user
from interlock._drivers.connected import ConnectedDriver
from interlock._drivers.fan_out import ask
from interlock._drivers.flow import current_owner
from interlock._drivers.known_hold import LostState
from interlock._drivers.process import lifecycle
from interlock._links.pool import Pool
from interlock._misuse import warn_in_event_loop
from interlock.errors import ClosedError, InterlockError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Hold, Owner
    from interlock._links.topology import Topology
    from interlock.options import Options

run_user = lifecycle.run_user
"""Call the user's code; report its error."""


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


class LostEvent(LostState):
    """An event that is set when a hold has ended without being released."""

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
    """Performs the operations of one client for any number of threads.

    Attributes:
        over: returns the driver that waits in place of this one, if there is one.
    """

    face = "interlock.Client"
    over: Callable[[], object]

    def __init__(
        self,
        servers: Topology,
        options: Options,
        caller: Callable[[], Owner] = current_owner,
    ) -> None:
        self._pool = Pool(servers)
        self._eval = self._pool.eval
        self._exiting = False
        super().__init__(servers, options, self._pool, caller)
        self._upkeep.end_idle = self._pool.end_idle

    def begin(self) -> None:
        """Set up everything that the first operation and every hold need."""
        if not self.closed:  # a command to the server raises ClosedError
            self._pool.open(self.session.options.pubsub, self.timeout)
            self._start_threads()

    def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. Whatever is raised, nothing of *step* is left."""
        try:
            if not self.started:
                self.begin()
            call, send = step.begin(), self._eval
            failure: InterlockError | None = None
            if call is not None:
                try:
                    reply = send(call, self.timeout)
                except InterlockError as error:
                    failure = error
                else:
                    decode = call.script.decode
                    if step.done(decode(reply)):
                        return step.result
            return self.run(step.rest(failure))
        except BaseException:
            try:  # not in a function of its own: a second signal may come before its first `try`
                step.give_up()
            finally:
                step.give_up()
            raise

    def run(self, op: Op[R]) -> R:
        """Perform *op*; return its result."""
        warn_in_event_loop()
        if not self.started:
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
        except ClosedError:
            self._end_with_the_process()
            raise
        except WrongTypeError as error:
            if not error.found:
                self.run(wrong_type.explain(error, self.session.options.prefix))
            raise
        finally:
            del failure  # a frame and its error would keep each other alive

    def perform_effect(self, effect: Any) -> Any:
        """Perform *effect*; return its outcome."""
        if isinstance(effect, Listen):
            self.subscriber.hear(effect.line)
            return None
        if isinstance(effect, Gather):
            asked = [self.of(each).prepared(call, effect.seconds) for each, call in effect.calls]
            return ask(asked, effect.enough)
        if isinstance(effect, RunOn):
            return self.of(effect.session).run(effect.op)
        if not isinstance(effect, Wait):
            return self._eval(effect, self._seconds(effect))
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
            raise ClosedError("the client was closed while it waited")

    def prepared(self, call: Eval[Any], seconds: float | None) -> tuple[Pool, Eval[Any], float]:
        """Return the arguments for `ask`: the pool, *call*, and its time limit in seconds.

        *seconds* is the limit; None if *call* tells it. Start first what every hold needs.
        """
        if not self.started:
            self.begin()
        limit = self._seconds(call, 0) if seconds is None else min(self.timeout, seconds)
        return self._pool, call, limit

    def _end_with_the_process(self) -> None:
        """Wait for the end of the interpreter if it exits and this is a daemon thread.

        Nobody could handle the error any more that says so.
        """
        if self._exiting and threading.current_thread().daemon:
            threading.Event().wait()

    def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*, which may block; return its result."""
        return function(*args)

    def start(self, run: Callable[[], None]) -> Callable[[], None]:
        """Start a thread that performs *run*; return a function that waits for its end.

        In the thread itself that function returns at once.
        """
        thread = threading.Thread(target=run, name="interlock-watch", daemon=True)
        lifecycle.start(thread.start, thread.name)

        def ended() -> None:
            if thread is not threading.current_thread():
                thread.join()

        return ended

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* in a thread for callbacks when *hold* is lost, or at once if it is."""
        listener = partial(call_user, hold, "an on_lost callback", callback)
        if not hold.listen(listener):
            listener()

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return False: threads are never interrupted by a loss."""
        del error, hold
        return False

    close = ConnectedDriver.end

    def at_exit(self) -> None:
        """Release what is still held when the interpreter exits.

        A thread that still waits ends with the interpreter.
        """
        self._exiting = self._exiting or not self.ending.over
        super().at_exit()

    def _forget_connections(self) -> None:
        self._pool.forget()

    def _close_connections(self, timeout: float) -> None:
        self._pool.close(timeout)
