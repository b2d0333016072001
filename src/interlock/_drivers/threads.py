"""The driver for threads: performs the effects of an operation in the calling thread."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from interlock._core.model.effects import (
    NEVER,
    A,
    Batch,
    Cleanup,
    Effect,
    Enqueue,
    Eval,
    Gather,
    Op,
    Post,
    R,
    RunOn,
    Step,
    Wait,
    ended,
)
from interlock._core.upkeep.session import GRACE
from interlock._drivers import wrong_type
from interlock._drivers.background.callbacks import call_user
from interlock._drivers.connected import ConnectedDriver
from interlock._drivers.fan_out import ask
from interlock._drivers.flow import current_owner, running_loop
from interlock._drivers.lost_state import LostState
from interlock._drivers.process import clock
from interlock._drivers.process.whole import MAX_UNDO
from interlock._drivers.process.whole import whole as in_one_piece
from interlock._drivers.wakeup import Wakeup
from interlock._links.pool import Pool
from interlock._links.topology import topology_of
from interlock._misuse import warn_in_event_loop
from interlock._traceback import shorten
from interlock.errors import (
    ClosedError,
    InterlockError,
    MisuseWarning,
    WrongTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.holds import AnyHold, Owner
    from interlock._core.queue.waiter import Waiter
    from interlock._core.queue.waiters import Waiters
    from interlock._drivers.protocol import BlockingDriver
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options


MEND_INTERVAL = 1.0
"""Seconds after which a waiting thread looks whether a signal handler has upset its queue."""


whole = in_one_piece
"""Wrap a function that a signal may strike, and what undoes that."""


def finish_later(driver: BlockingDriver, name: str, step: Step[Any]) -> None:
    """Finish *step*, which has acquired *name*, in a thread that no signal strikes."""
    what = "the end of a block that was never left"
    call_user(driver, what, partial(_finish, driver, name, step))


def _finish(driver: BlockingDriver, name: str, step: Step[Any]) -> None:
    if step.over():
        return
    with suppress(KeyboardInterrupt, InterlockError):  # without an answer, the background goes on
        driver.undo(step, KeyboardInterrupt())
    message = f"a block of {name!r} was never left; what it acquired is released now"
    warnings.warn(message, MisuseWarning, stacklevel=2)


def _leave_all(waiters: Waiters, waiting: list[Waiter]) -> None:
    for waiter in waiting:
        waiters.leave(waiter)


_leave = whole(_leave_all, _leave_all)
"""Leave the queues. After a Ctrl-C it is done again: else a dead waiter would stay in front."""

_modules = sys.modules


class LostEvent(LostState):
    """An event that is set when a hold has ended without being released.

    Args:
        driver: the client's.
        hold: the hold.
    """

    _driver: BlockingDriver

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
        self.session.holds.hear = self._pool.hear
        self._mutex_held_here = self._subscriber.mutex.held_here
        self._follow_process(self._pool)

    def perform(self, step: Step[R]) -> R:  # noqa: C901 - written out: every operation runs it
        """Perform *step* and return its result.

        The first command is sent without a generator. `run` performs the rest, if there is any.

        After any exception in this thread the step is cleaned up, even after a Ctrl-C between two
        instructions.
        """
        try:
            try:
                failure: BaseException | None = None
                try:
                    if not step.of_owner and (
                        ("asyncio.events" in _modules and running_loop() is not None)
                        or "trio.lowlevel" in _modules
                    ):
                        warn_in_event_loop()
                    if not self._renewer.started:
                        self._begin()
                    call = step.begin()
                    if call is not None:
                        # Bound first: Python 3.11 is slow to call attributes that are not methods.
                        decode, send = call.script.decode, self._pool.eval
                        held_here = self._mutex_held_here
                        if call.deadline == NEVER and not held_here():
                            reply = send(call, self._timeout)  # the usual case of `_send`
                        else:
                            reply = self._send(call)
                        if step.done(decode(reply)):
                            return step.result
                except BaseException as error:
                    if not isinstance(error, Exception) and step.over():
                        raise  # `run` would connect first
                    failure = error
                    self._explain(error)
                # A frame and its error would keep each other alive.
                rest, failure = step.rest(failure), None
                return self.run(rest)
            except BaseException as error:
                if step.over():
                    raise
                return self.run(step.rest(error))
        except BaseException as error:
            # The undo was interrupted itself.
            if isinstance(error, InterlockError) or step.over():
                shorten(error)
                raise
            return self.undo(step, error)

    def undo(self, step: Step[R], error: BaseException) -> R:
        """Perform the rest of *step*, again after each interruption; then raise *error*."""
        try:
            for _ in range(MAX_UNDO):
                try:
                    if step.over():
                        break
                    return self.run(step.rest(error))
                except BaseException as another:  # noqa: BLE001 - raised below
                    error = another
            raise shorten(error)
        finally:
            del error  # it refers to this frame

    def run(self, op: Op[R]) -> R:
        """Perform *op* and return its result.

        Any exception in this thread, a Ctrl-C included, is thrown into the operation. Its clean-up
        is still performed.
        """
        if "asyncio.events" in _modules and running_loop() is not None:
            warn_in_event_loop()
        if not self._renewer.started:
            self._begin()
        try:
            return self._go_on(op, None)
        except BaseException as error:
            if ended(op):
                shorten(error)
                raise
            # A Ctrl-C struck between two steps of ours.
            return self._go_on(op, error)

    def _begin(self) -> None:
        """Set up everything that the first operation and every hold need."""
        if self.closed:
            return  # a command to the server raises ClosedError
        options = self.session.options
        self._pool.open(options.pubsub, self._timeout)
        self.session.announce_by(self._subscriber.publish())
        self._renewer.start()

    def _go_on(self, op: Op[R], failure: BaseException | None) -> R:
        """Perform the rest of *op*, beginning by throwing *failure* into it."""
        effect: Effect | None = None
        waiting: list[Waiter] = []
        reply: object = None
        try:
            while True:
                try:
                    while True:
                        if effect is None:
                            effect = op.send(reply) if failure is None else op.throw(failure)
                            failure = None
                        # Most effects are scripts. And the next holder of a lock waits for a
                        # post. Written out here, to save a call.
                        reply = (
                            self.eval(effect)
                            if type(effect) is Eval
                            else self._pool.post(effect.call, effect.heard)
                            if type(effect) is Post
                            else self._perform(effect, waiting)
                        )
                        effect = None
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                except BaseException as error:
                    if ended(op):
                        raise
                    failure, effect = error, None
        finally:
            # It has left the earlier ones already.
            if waiting and not waiting[-1].away:
                _leave(self.session.waiters, waiting)

    def prepared(
        self, call: Eval[object], seconds: float | None
    ) -> tuple[Pool, Eval[object], float]:
        """Return the arguments for `ask`: the pool, *call*, and its time limit in seconds.

        *seconds* is the limit; None if *call* tells it. The renewal thread is started first: every
        hold needs it.
        """
        if not self._renewer.started:
            self._begin()
        if seconds is None:
            seconds = self._timeout if call.patient else call.deadline - clock.now()
        return self._pool, call, min(self._timeout, seconds)

    def eval(self, call: Eval[object]) -> object:
        """Run *call* and return its reply.

        Errors as `Pool.eval`. A WrongTypeError costs another round trip to say what was found.
        """
        try:
            held_here, send = self._mutex_held_here, self._pool.eval
            if call.deadline == NEVER and not held_here():
                return send(call, self._timeout)  # the usual case of `_send`
            return self._send(call)
        except InterlockError as error:
            self._explain(error)
            raise

    def _send(self, call: Eval[object]) -> object:
        timeout = self._timeout
        if call.deadline != NEVER and not call.patient:
            # Without `min` and `max`, which are calls.
            left = call.deadline - clock.now()
            if left < timeout:
                timeout = left if left > GRACE else min(timeout, GRACE)
        if self._mutex_held_here():  # a signal handler struck in the middle of a step
            with self._subscriber.mutex.let_go():
                return self._pool.eval(call, timeout)
        return self._pool.eval(call, timeout)

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

    def _perform(self, effect: Effect, waiting: list[Waiter]) -> object:
        # One return for each effect. Not `isinstance`, which is a call.
        if type(effect) is Wait:
            self._wait(effect)
            return None
        if type(effect) is Enqueue:
            return self.session.waiters.join(effect.line, Wakeup(), waiting)
        if type(effect) is RunOn:
            return self.home(effect.session).run(effect.op)
        if type(effect) is Gather:
            seconds = effect.seconds
            prepared = [
                self.home(session).prepared(call, seconds) for session, call in effect.calls
            ]
            return ask(prepared, effect.enough)
        if type(effect) is Cleanup:
            self._renewer.clean_up(effect)
            return None
        assert type(effect) is Batch
        return ask([(self._pool, call, self._timeout) for call in effect.evals])

    def post(self, effect: Post[object]) -> bool:
        """Send the call of *effect* if that takes no time; return whether it was sent."""
        return self._pool.post(effect.call, effect.heard)

    def _wait(self, effect: Wait) -> None:
        # Nobody wakes a waiter that came since `close`.
        seconds = 0.0 if self.closed else effect.until - clock.now()
        if self._mutex_held_here():  # as in `_send`
            with self._subscriber.mutex.let_go():
                self._wait(effect)
        elif effect.waiter is None:
            time.sleep(min(max(seconds, 0), threading.TIMEOUT_MAX))
        else:
            wakeup: Any = effect.waiter.wakeup  # a `Wakeup`; `cast` is a call
            line = effect.waiter.line
            channel = line if type(line) is str else line[0]  # `channel_of` inlined
            # A waiter that was woken is still in its queue.
            if not self._subscriber.wait(channel, wakeup, min(MEND_INTERVAL, seconds)):
                self.session.waiters.mend(effect.waiter)
        if self.closed:
            self._end_with_the_process()
            raise ClosedError("the client was closed while it waited")

    def _end_with_the_process(self) -> None:
        """Wait for the end of the interpreter if it exits and this is a daemon thread.

        Nobody could handle an error any more.
        """
        if self._exiting and threading.current_thread().daemon:
            threading.Event().wait()

    def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function*, which may block; return its result."""
        return function(*args)

    def on_lost(self, hold: AnyHold, callback: Callable[[], object]) -> None:
        """Call *callback* in a thread for callbacks when *hold* is lost, or at once if it is."""
        listener = partial(call_user, hold, "an on_lost callback", callback)
        if not hold.listen(listener):
            listener()

    def cancelled_by_loss(self, error: BaseException | None, hold: AnyHold | None) -> bool:
        """Return False: threads are never interrupted by a loss."""
        del error, hold
        return False

    def close(self) -> None:
        """Release what is still held and end every thread and connection.

        If it was interrupted, another call goes on from there. Once the end is complete, another
        call changes nothing.

        Raises:
            ServerUnavailableError: some holds could not be released; they end with their leases.
        """
        self.closed = True
        self.session.waiters.wake_all()
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

    def after_fork(self) -> None:
        """Become another client, which holds nothing, in a forked child."""
        super().after_fork()
        self._mutex_held_here = self._subscriber.mutex.held_here

    def _forget_connections(self) -> None:
        self._pool.forget()

    def _close_connections(self, timeout: float) -> None:
        self._pool.close(timeout)
