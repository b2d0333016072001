"""Delivers events to a client's observers, in one thread, and to its log, in that of callbacks.

Rules:

* Observers are the user's code: they may be slow, raise, hang, or call ``sys.exit``. The thread
  that records an event never waits for them, and never runs them.
* The queue has a limit. Events that do not fit are counted, and the observers are told.
* Observers get a limited share of the processor. The program keeps the rest, even if it does
  nothing but lock.
* Frequent events come in batches: a wake-up for each would cost more than the event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from interlock._core.insight.events import FREQUENT, Event, Observer, Overflowed
from interlock._core.insight.observing import Frequent
from interlock._drivers.background.callbacks import calls, log_soon
from interlock._drivers.background.log import RECORDS, log_event
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import run_user
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from interlock._core.insight.observing import Observing

LIMIT = 20_000
"""Events that may wait in the queue; seldom events may be queued up to twice this number."""
BATCH = 0.05
"""Seconds for which frequent events are collected."""
SHARE = 0.1
"""The part of a processor for frequent events; observers miss events beyond that."""
SLICE = 20
"""Events that are delivered between two pauses, in which the user's threads have their turn."""
LONGEST_SLICE_PAUSE = 0.5
"""The most seconds between two slices, so that seldom events come soon."""
LINGER = 20
"""Batches without an event after which the thread ends."""
LAST_WAIT = 0.25
"""Seconds for which a closing client waits for its observers."""


class Observers:
    """The observers of one client, the queue of their events, and the thread that delivers these."""

    def __init__(self, events: Observing) -> None:
        self._events = events
        self._observers: tuple[Observer, ...] = ()
        self._failed = set[str]()
        events.wall = time.time
        events.emit, events.emit_frequent = self._put, self._queue_up
        self.after_fork()

    def after_fork(self) -> None:
        """Begin with an empty queue, also in a forked child: the parent delivers what is queued."""
        self._mutex = threading.RLock()  # a signal handler may come in anywhere
        self._attached = list(self._observers)  # changed by the thread that delivers alone
        self._only = threading.Lock()
        self._wakeup = threading.Event()
        self._queue: deque[object] = deque()
        self._ending = False
        self._dropped = 0

    def add(self, observer: Observer) -> Callable[[], None]:
        """Deliver all events to *observer* from now on; return a function that ends that.

        Raises:
            ConfigError: it is not an `Observer`.
        """
        observer_: Any = observer
        if not isinstance(observer_, Observer):
            raise ConfigError(
                "an observer is an object of a subclass of interlock.observe.Observer, "
                f"not {observer_!r}"
            )
        with self._mutex:
            self._choose(*self._observers, observer)
        self._queue_now(partial(self._attach, observer))
        return partial(self._remove, observer)

    def _remove(self, observer: Observer) -> None:
        with self._mutex:
            others = [each for each in self._observers if each is not observer]
            if len(others) == len(self._observers):
                return
            self._choose(*others)
        self._queue_now(partial(self._detach, observer))

    def _choose(self, *observers: Observer) -> None:
        """Deliver to *observers*, and tell the hot path whether they want each use of a lock."""
        self._observers = observers
        self._events.observed = any(
            getattr(type(each), name) is not getattr(Observer, name)
            for each in observers
            for name in FREQUENT
        )

    def _put(self, event: Event) -> None:
        if self._observers:
            self._queue_now(event)
        if event.method in RECORDS:
            log_soon(partial(log_event, event))

    def _queue_up(self, event: object) -> None:
        """Queue *event*; called on the hot path."""
        waiting = len(self._queue)
        if waiting >= LIMIT and (waiting >= 2 * LIMIT or isinstance(event, Frequent)):
            with self._mutex:
                self._dropped += 1
            return
        self._queue.append(event)
        if not self._only.locked():
            self._start()

    def _queue_now(self, event: object) -> None:
        """Queue *event*, and deliver it at once."""
        self._queue_up(event)
        self._wakeup.set()

    def _start(self) -> None:
        with suppress(RuntimeError):  # too many threads: the next event tries again
            threading.Thread(target=self._run, name="interlock-events", daemon=True).start()

    def _run(self) -> None:
        only, idle = self._only, 0
        if not only.acquire(blocking=False):
            return
        while idle < LINGER:
            _ = self._wakeup.wait(BATCH)
            self._wakeup.clear()
            idle = 0 if self._deliver_all() else idle + 1
            if self._ending or not self._events.observed:
                break
        only.release()
        if self._queue:  # an event came in just now
            self._start()

    def _deliver_all(self) -> bool:
        """Deliver everything in the queue; return whether there was anything."""
        queue = self._queue
        if not queue and not self._dropped:
            return False
        while queue or self._dropped:
            started = time.thread_time()
            for _ in range(min(SLICE, len(queue))):
                self._deliver(queue.popleft())
            with self._mutex:
                dropped, self._dropped = self._dropped, 0
            if dropped:
                here = {"client_id": self._events.client_id, "server": self._events.server}
                self._deliver(Overflowed(time=time.time(), count=dropped, **here))
            if self._events.observed and not self._ending:
                used = time.thread_time() - started
                time.sleep(min(used * (1 / SHARE - 1), LONGEST_SLICE_PAUSE))
        return True

    def _attach(self, observer: Observer) -> None:
        self._attached.append(observer)
        self._tell(observer, "attached", self._events)

    def _detach(self, observer: Observer) -> None:
        self._tell(observer, "detached", self._events)
        self._attached = [each for each in self._attached if each is not observer]

    def _deliver(self, queued: Any) -> None:
        """Deliver an event to all observers, or attach or detach one."""
        context: Context | None = None
        match queued:
            case Event():
                event = queued
            case Frequent():
                event, context = self._events.event(queued), queued.context
            case attach_or_detach:
                attach_or_detach()
                return
        for observer in self._attached:
            self._tell(observer, event.method, event, context)

    def _tell(
        self, observer: Observer, method: str, told: object, context: Context | None = None
    ) -> None:
        """Call a *method* of *observer*, in *context* if that is given; report its first error."""
        # The look-up is in the call: it may raise, too.
        call = partial(methodcaller(method, told), observer)
        if context is not None:
            call = partial(context.copy().run, call)  # another thread may run in it just now
        what = f"{method}() of the observer {type(observer).__name__}"
        if not run_user(what, call, tell=what not in self._failed):
            self._failed.add(what)

    def close(self) -> None:
        """Forget the observers; wait a moment until all is delivered and logged."""
        for observer in self._observers:
            self._remove(observer)
        until = clock.now() + LAST_WAIT
        self._ending = True
        self._wakeup.set()
        # The queue is empty before its last event is delivered, so the thread's end counts.
        while (self._queue or self._only.locked() or calls(log_soon)) and clock.now() < until:
            time.sleep(0.002)
