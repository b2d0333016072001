"""The events that one client tells its observers: passive, the driver delivers them.

Rules:

* `Holds.observer` is None unless an observer wants the events of each use of a lock.
* A frequent event is recorded as a bare tuple. A thread of the observers makes an object of it.
* Waits are in a table, so that a wait that lasts too long is found. An acquire that need not wait
  is not in that table.
"""

from __future__ import annotations

from collections import Counter
from contextvars import Context, copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock._core.insight import events
from interlock._core.model.hold import HELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock._core.locks.base import Lock
    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock.errors import LossReason

ENDLESS = "election"
"""The kind whose waits and holds are never too long: a leader leads for as long as it runs."""
QUERIES = 20
"""The largest number of locks that one renewal round queries for their holders."""


class Frequent(NamedTuple):
    """A frequent event, as it is recorded.

    Attributes:
        kind: the class of the event.
        hold: the hold that it is about.
        owner: what the thread or task is called.
        at: when it happened, on the session's clock.
        since: when the acquire, the wait or the hold began.
        detail: of `Acquired`: whether it waited. Of `GaveUp`: the name of the error's class.
        context: the context variables of the thread or task.
    """

    kind: type[events.LockEvent]
    hold: Hold
    owner: str
    at: float
    since: float
    detail: object
    context: Context


class Wish(NamedTuple):
    """A waiter for permits or a latch, as operators are told of it: it has no hold.

    Attributes:
        key: of the semaphore or latch.
        holder: the client's id and a number of the wait.
        since: when the wait began, on the session's clock.
        owner: tells the threads and tasks of one client apart.
        label: what the thread or task is called.
    """

    key: str
    holder: str
    since: float
    owner: int
    label: str


class Wait(NamedTuple):
    """A thread or task that waits.

    Attributes:
        lock: what it waits for.
        since: when it began, on the session's clock.
        context: the context variables of the thread or task; None unless they are wanted.
    """

    lock: Lock
    since: float
    context: Context | None


def _nobody(event: object) -> None:
    del event


class Observing:
    """The events of one client.

    Args:
        clock: the session's.
        slow_acquire: seconds after which a wait is reported; None: never.
        slow_hold: seconds after which a hold is reported; None: never.

    Attributes:
        emit: takes an event to the observers.
        emit_frequent: takes a frequent event to the observers that want it.
        wall: returns the seconds since 1970.
        client_id: the client.
        server: the address of its server.
        observed: whether an observer is told of each use of a lock.
        waits: what each waiting thread or task waits for.
        traces: the trace ids of holds, by holder id and name; an observer sets them.
        live: returns the client's holds.
        wishes: returns what operators are told of those of its waiters that have no hold.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        slow_acquire: float | None,
        slow_hold: float | None,
    ) -> None:
        self.emit: Callable[[events.Event], None] = _nobody
        self.emit_frequent: Callable[[Frequent], None] = _nobody
        self.wall: Callable[[], float] = clock
        self.client_id = self.server = ""
        self.waits: dict[Hold, Wait] = {}
        self.traces: dict[tuple[str, str], str] = {}
        self.live: Callable[[], Sequence[Hold]] = tuple
        self.wishes: Callable[[], Sequence[Wish]] = tuple
        self.observed = False
        self._clock = clock
        self._slow_acquire = slow_acquire
        self._slow_hold = slow_hold
        self._outages: dict[object, float] = {}
        self._told: set[Hold] = set()

    def held_by(self, holder: str) -> list[Hold]:
        """Return what *holder* has."""
        return [hold for hold in self.live() if hold.holder == holder]

    # The events of each use of a lock.

    def acquired(self, hold: Hold, sent_at: float) -> None:
        """Tell that *hold* was acquired.

        The call began at *sent_at*. If it had to wait, the start of the wait counts.
        """
        wait = self.waits.get(hold)
        if wait is None:
            context, waited = copy_context(), False
        else:
            # The thread that runs this may be another one, which handed the lock over.
            sent_at, context, waited = wait.since, wait.context or copy_context(), True
        self._tell(events.Acquired, hold, hold.since, sent_at, waited, context)

    def released(self, hold: Hold) -> None:
        """Tell that *hold* was released."""
        at = self._clock()
        self._tell(events.Released, hold, at, hold.since, None, copy_context())

    def begin_wait(self, lock: Lock, hold: Hold, since: float) -> None:
        """Note a wait for *hold* of *lock*, which began at *since*."""
        if not self.observed:
            self.waits[hold] = Wait(lock, since, None)
            return
        context = copy_context()
        self.waits[hold] = Wait(lock, since, context)
        self._tell(events.Waiting, hold, self._clock(), since, None, context)

    def end_wait(self, hold: Hold, error: BaseException | None) -> None:
        """Note the end of a wait: *hold* is held, or *error* or the time ended it."""
        wait = self.waits.pop(hold, None)
        self._told.discard(hold)
        if wait is None or not self.observed or hold.state is HELD:
            return
        what = None if error is None else type(error).__name__
        context = wait.context or copy_context()
        self._tell(events.GaveUp, hold, self._clock(), wait.since, what, context)

    def _tell(self, kind: type[events.LockEvent], hold: Hold, *told: Any) -> None:
        # The owner may be gone when an object is made of this.
        self.emit_frequent(Frequent(kind, hold, hold.label, *told))

    # Rare events.

    def lost(self, hold: Hold, reason: LossReason) -> None:
        """Tell that *hold* is lost, or released if it was meant to end with its lease."""
        if hold.ran_out():
            if self.observed:
                self.released(hold)
            return
        held_for = self._clock() - hold.since
        lost = events.Lost(**self._of(hold), seconds=held_for, reason=reason, detail=hold.detail)
        self.emit(lost)

    def abandoned(self, hold: Hold) -> None:
        """Tell that *hold* is not renewed any more."""
        seconds = self._clock() - hold.since
        self.emit(events.Abandoned(**self._of(hold), seconds=seconds, lease=hold.lease))

    def force_released(self, name: str, kind: str, holder: str = "", reason: str = "") -> None:
        """Tell that this client released the lock *name* by force, or only the hold of *holder*."""
        here = self._here()
        self.emit(events.ForceReleased(**here, name=name, kind=kind, holder=holder, reason=reason))

    def server_changed(self) -> None:
        """Tell that another server has become the primary."""
        self.emit(events.ServerChanged(**self._here()))

    def renewal(
        self,
        node: object,
        due: Sequence[Hold],
        started: float,
        count: int,
        failures: list[Exception],
    ) -> None:
        """Tell how a round at *node* for *due* went: it began at *started*, and renewed *count*."""
        now = self._clock()
        if not due:
            return
        self.emit(
            events.Renewed(**self._here(), seconds=now - started, count=count, failed=len(failures))
        )
        if failures and node not in self._outages:
            self._outages[node] = now
            first = min(hold.valid_until for hold in due)
            self.emit(
                events.RenewalFailed(
                    **self._here(),
                    count=len(due),
                    validity=max(first - now, 0.0),
                    error=type(failures[0]).__name__,
                    detail=str(failures[0]),
                )
            )
        elif not failures and (since := self._outages.pop(node, None)) is not None:
            self.emit(events.Recovered(**self._here(), seconds=now - since))

    # What lasts too long.

    def slow_waits(self, now: float) -> list[Hold]:
        """Return the holds whose wait is too long, each once; report those held for too long."""
        if (limit := self._slow_hold) is not None:
            for hold in self.live():
                late = hold.state is HELD and now - hold.since >= limit
                if late and hold not in self._told and hold.lock.kind != ENDLESS:
                    self._told.add(hold)
                    self.emit(events.SlowHold(**self._of(hold), seconds=now - hold.since))
        slow: list[Hold] = []
        if (limit := self._slow_acquire) is not None:
            for hold, wait in list(self.waits.items()):
                late = now - wait.since >= limit
                if late and hold not in self._told and wait.lock.kind != ENDLESS:
                    self._told.add(hold)
                    slow.append(hold)
        # A copy: other threads end holds meanwhile.
        told = self._told.copy()
        for hold in told.difference(self.live() if told else ()):
            if hold not in self.waits:
                self._told.discard(hold)
        return slow

    def put_off(self, slow: Sequence[Hold]) -> None:
        """Return the *slow* waits again at the next look: nobody could report them."""
        self._told.difference_update(slow)

    def queries(self, slow: Sequence[Hold]) -> dict[str, Eval[Any]]:
        """Return the scripts that tell who holds what the *slow* waits are for, by its key.

        The work of others waits for this: one query for each lock, and only for a few locks.
        """
        waits = [wait for hold in slow if (wait := self.waits.get(hold)) is not None]
        locks = dict(islice({wait.lock.key: wait.lock for wait in waits}.items(), QUERIES))
        return {key: lock.query() for key, lock in locks.items()}

    def name_holders(self, slow: Sequence[Hold], holders: Mapping[str, Sequence[str]]) -> None:
        """Report the *slow* waits, with the *holders* of what they wait for, by its key."""
        now = self._clock()
        for hold in slow:
            if (wait := self.waits.get(hold)) is not None:
                held_by = tuple(holders.get(wait.lock.key, ()))
                late = now - wait.since
                self.emit(events.SlowAcquire(**self._of(hold), seconds=late, held_by=held_by))

    @property
    def looks(self) -> bool:
        """Whether waits or holds may be too long."""
        return self._slow_acquire is not None or self._slow_hold is not None

    def after_fork(self) -> None:
        """Forget the waits of the parent process."""
        self.waits.clear()
        self.traces.clear()
        self._told.clear()

    # What an observer may ask.

    def holds(self) -> Mapping[str, int]:
        """Return how many holds there are of each kind of lock."""
        return Counter(hold.lock.kind for hold in self.live() if hold.state is HELD)

    def waiters(self) -> Mapping[str, int]:
        """Return how many threads and tasks wait for each kind of lock."""
        return Counter(wait.lock.kind for wait in list(self.waits.values()))

    def validity(self) -> float | None:
        """Return the seconds until the first hold ends without renewal; None without a hold."""
        ends = [hold.valid_until for hold in self.live() if hold.state is HELD]
        return max(min(ends) - self._clock(), 0.0) if ends else None

    def note_trace(self, holder: str, name: str, trace_id: str) -> None:
        """Note the trace of a hold, for the client's card; an empty *trace_id* removes it."""
        if trace_id:
            self.traces[holder, name] = trace_id
        else:
            _ = self.traces.pop((holder, name), None)

    def forget_traces(self) -> None:
        """Forget the traces of all holds."""
        self.traces.clear()

    def event(self, frequent: Frequent) -> events.LockEvent:
        """Return *frequent* as an event object."""
        kind, hold, owner, at, since, detail, _ = frequent
        fields = self._of(hold)
        fields["owner"] = owner
        fields["time"] = self.wall() - (self._clock() - at)
        if kind is events.Acquired:
            fields.update(seconds=at - since, waited=detail, token=hold.token)
        elif kind is events.Released:
            fields.update(seconds=at - since)
        elif kind is events.GaveUp:
            fields.update(seconds=at - since, error=detail)
        return kind(**fields)

    def _here(self) -> dict[str, Any]:
        return {"time": self.wall(), "client_id": self.client_id, "server": self.server}

    def _of(self, hold: Hold) -> dict[str, Any]:
        return {
            **self._here(),
            "name": hold.name,
            "kind": hold.lock.kind,
            "holder": hold.holder,
            "owner": hold.label,
        }
