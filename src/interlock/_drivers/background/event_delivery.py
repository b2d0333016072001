"""Delivers events to observers. Each observer has a thread of its own.

Rules:

* Observers are the user's code: they may be slow, raise, hang, or call ``sys.exit``. The thread
  that records an event never waits for them, and never runs them.
* Each observer has a queue with a limit. Events that do not fit are counted, and the observer
  is told.
* An observer gets a limited share of the processor. The program keeps the rest, even if it does
  nothing but lock.
* Frequent events come in batches: a wake-up for each would cost more than the event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock._core.insight.events import FREQUENT, Event, Observer, Overflowed
from interlock._core.insight.observing import Frequent
from interlock._drivers.background.callbacks import run_observer
from interlock._drivers.background.log import Log
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import report
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.insight.observing import Observing

LIMIT = 20_000
"""Events that may wait for one observer; seldom events may be queued up to twice this number."""
BATCH = 0.05
"""Seconds for which frequent events are collected."""
SHARE = 0.1
"""The part of a processor for the frequent events of an observer; it misses events beyond that."""
SLICE = 20
"""Events that are delivered between two pauses, in which the user's threads have their turn."""
LONGEST_SLICE_PAUSE = 0.5
"""The most seconds between two slices, so that seldom events come soon."""
LINGER = 20
"""Batches without an event after which the thread ends."""
LAST_WAIT = 0.25
"""Seconds for which a closing client waits for its observers."""
REPORT_EVERY = 1000
"""One error in this many of the same method is reported, beginning with the first."""


class Outbox:
    """The queue of one observer.

    Args:
        observer: the user's.
        events: the client's.
    """

    def __init__(self, observer: Observer, events: Observing) -> None:
        self._observer = observer
        self._events = events
        base, kind = Observer, type(observer)
        self._wanted = {
            name
            for name in vars(base)
            if not name.startswith("_") and getattr(kind, name) is not getattr(base, name)
        }
        self.frequent = not self._wanted.isdisjoint(FREQUENT)
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the queued events: the parent process delivers them."""
        self._mutex = threading.RLock()  # a signal handler may come in anywhere
        self._wakeup = threading.Event()
        self._queue: deque[Frequent | Event | Callable[[], object]] = deque()
        self._running = self._ending = False
        self._dropped = 0
        self._errors: dict[str, int] = {}

    def put(self, event: Frequent | Event | Callable[[], object]) -> None:
        """Queue *event*; called on the hot path."""
        waiting = len(self._queue)
        if waiting >= LIMIT and (waiting >= 2 * LIMIT or isinstance(event, Frequent)):
            with self._mutex:
                self._dropped += 1
            return
        self._queue.append(event)
        if not self._running:
            self._start()

    def put_now(self, event: Event | Callable[[], object]) -> None:
        """Queue *event*, and deliver it at once."""
        self.put(event)
        self._wakeup.set()

    def flush(self, timeout: float) -> None:
        """Wait at most *timeout* seconds until everything is delivered."""
        deadline = clock.now() + timeout
        self._ending = True
        self._wakeup.set()
        # The queue is empty before its last event is delivered, so the thread's end counts.
        while self._running and clock.now() < deadline:
            time.sleep(0.002)

    def _start(self) -> None:
        with self._mutex:
            if self._running:
                return
            self._running = True
        run_observer(self, f"the observer {type(self._observer).__name__}", self._run)

    def _run(self) -> None:
        idle = 0
        while idle < LINGER:
            _ = self._wakeup.wait(BATCH)
            self._wakeup.clear()
            idle = 0 if self._deliver_all() else idle + 1
            if self._ending or not self.frequent:
                break
        with self._mutex:
            self._running = False
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
            if self.frequent and not self._ending:
                used = time.thread_time() - started
                time.sleep(min(used * (1 / SHARE - 1), LONGEST_SLICE_PAUSE))
        return True

    def _deliver(self, event: Frequent | Event | Callable[[], object]) -> None:
        method = "attached"
        try:
            if isinstance(event, Frequent):
                method = event.kind.method
                if method in self._wanted:
                    told = self._events.event(event)
                    # A copy: another observer may run in the context just now.
                    event.context.copy().run(getattr(self._observer, method), told)
            elif isinstance(event, Event):
                method = event.method
                if method in self._wanted:
                    getattr(self._observer, method)(event)
            else:
                _ = event()
        except BaseException as error:  # noqa: BLE001 - user code; the next event comes anyway
            self._failed(method, error)

    def _failed(self, method: str, error: BaseException) -> None:
        count = self._errors[method] = self._errors.get(method, 0) + 1
        if count % REPORT_EVERY == 1:
            # An exception hook of threads ignores SystemExit.
            wrapped = RuntimeError(f"{method}() of an observer failed ({count} times so far)")
            wrapped.__cause__ = error
            report(f"the observer {type(self._observer).__name__}", wrapped)

    def attach(self) -> None:
        """Tell the observer that it is attached to the client."""
        self.put_now(partial(self._observer.attached, self._events))

    def detach(self) -> None:
        """Tell the observer that it is detached, after everything that is queued."""
        self._ending = True
        self.put_now(partial(self._observer.detached, self._events))


class Observers:
    """The observers of one client.

    Args:
        events: the client's.
    """

    def __init__(self, events: Observing) -> None:
        self._events = events
        self._mutex = threading.RLock()
        self._boxes: tuple[Outbox, ...] = ()
        events.wall = time.time
        events.emit = self._put
        # Made with the first event: a client that has nothing to log does not need `logging`.
        self._log: Outbox | None = None

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
        box = Outbox(observer, self._events)
        with self._mutex:
            self._boxes = (*self._boxes, box)
            self._choose()
        box.attach()
        return partial(self._remove, box)

    def _remove(self, box: Outbox) -> None:
        with self._mutex:
            if box not in self._boxes:
                return
            self._boxes = tuple(other for other in self._boxes if other is not box)
            self._choose()
        box.detach()

    def _choose(self) -> None:
        """Tell the hot path whether an observer wants an event for each use of a lock."""
        boxes = [box for box in self._boxes if box.frequent]
        if len(boxes) == 1:
            self._events.emit_frequent = boxes[0].put
        else:
            self._events.emit_frequent = partial(_put_each, boxes)
        self._events.observed = bool(boxes)

    def _put(self, event: Event) -> None:
        boxes = self._boxes
        for box in boxes:
            box.put_now(event)
        self._log_box().put_now(event)

    def _log_box(self) -> Outbox:
        with self._mutex:
            if self._log is None:
                self._log = Outbox(Log(), self._events)
            return self._log

    def close(self) -> None:
        """Deliver the remaining events, and forget the observers."""
        with self._mutex:
            boxes, self._boxes = self._boxes, ()
            self._choose()
            log = self._log
        for box in boxes:
            box.detach()
        until = clock.now() + LAST_WAIT
        for box in (*boxes, *([log] if log is not None else [])):
            box.flush(until - clock.now())

    def after_fork(self) -> None:
        """Go on in a forked child, with the same observers."""
        self._mutex = threading.RLock()
        self._log = None
        for box in self._boxes:
            box.after_fork()


def _put_each(boxes: list[Outbox], event: Frequent) -> None:
    for box in boxes:
        box.put(event)
