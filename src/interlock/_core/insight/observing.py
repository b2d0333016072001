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
from interlock._core.model.effects import NEVER
from interlock._core.model.hold import HELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock.errors import LossReason

ENDLESS = "election"
"""The kind whose waits and holds are never too long: a leader leads for as long as it runs."""
QUERIES = 20
"""The largest number of locks that one renewal round queries for their holders."""


class Frequent(NamedTuple):
    """A frequent event, as it is recorded.

    Attributes:
        owner: what the thread or task is called.
        at: when it happened, on the session's clock.
        told: what it tells besides its hold.
    """

    kind: type[events.LockEvent]
    hold: Hold
    owner: str
    at: float
    context: Context
    told: dict[str, Any]


class Wait(NamedTuple):
    """Since when a thread or task waits, on the session's clock; its context if that is wanted."""

    since: float
    context: Context | None


def _nobody(event: object) -> None:
    del event


class Observing:
    """The events of one client, and what an observer may ask of it: an `events.ClientView`.

    Attributes:
        emit: takes an event to the observers.
        emit_frequent: takes a frequent event to the observers that want it.
        wall: returns the seconds since 1970.
        observed: whether an observer is told of each use of a lock.
        waits: what each waiting thread or task waits for.
        traces: the trace ids of holds, by holder id and name; an observer sets them.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._clock = session, session.clock
        self.emit: Callable[[events.Event], None] = _nobody
        self.emit_frequent: Callable[[Frequent], None] = _nobody
        self.wall: Callable[[], float] = session.clock
        self.waits: dict[Hold, Wait] = {}
        self.traces: dict[tuple[str, str], str] = {}
        self.observed = False
        options = session.options
        self._slow_acquire = NEVER if options.slow_acquire is None else options.slow_acquire
        self._slow_hold = NEVER if options.slow_hold is None else options.slow_hold
        self._outages: dict[object, float] = {}
        self._told: set[Hold] = set()

    @property
    def client_id(self) -> str:
        return self._session.client_id

    @property
    def server(self) -> str:
        return self._session.outside.where

    def held(self) -> list[Hold]:
        return [hold for hold in list(self._session.live) if hold.state is HELD]

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
        told = {"seconds": hold.since - sent_at, "waited": waited, "token": hold.token}
        self._tell(events.Acquired, hold, hold.since, context, **told)

    def released(self, hold: Hold) -> None:
        at = self._clock()
        self._tell(events.Released, hold, at, copy_context(), seconds=at - hold.since)

    def begin_wait(self, hold: Hold, since: float) -> None:
        """Note a wait for *hold*, which began at *since*."""
        context = copy_context() if self.observed else None
        self.waits[hold] = Wait(since, context)
        if context is not None:
            self._tell(events.Waiting, hold, self._clock(), context)

    def end_wait(self, hold: Hold, error: BaseException | None) -> None:
        """Note the end of a wait: *hold* is held, or *error* or the time ended it."""
        wait = self.waits.pop(hold, None)
        self._told.discard(hold)
        if wait is None or not self.observed or hold.state is HELD:
            return
        at, context = self._clock(), wait.context or copy_context()
        what = None if error is None else type(error).__name__
        self._tell(events.GaveUp, hold, at, context, seconds=at - wait.since, error=what)

    def _tell(
        self, kind: type[events.LockEvent], hold: Hold, at: float, context: Context, **told: Any
    ) -> None:
        # The owner may be gone when an object is made of this.
        self.emit_frequent(Frequent(kind, hold, hold.label, at, context, told))

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
        seconds = self._clock() - hold.since
        self.emit(events.Abandoned(**self._of(hold), seconds=seconds, lease=hold.lease))

    def force_released(self, name: str, kind: str, holder: str = "", reason: str = "") -> None:
        """Tell that this client released the lock *name* by force, or only the hold of *holder*."""
        here = self._here()
        self.emit(events.ForceReleased(**here, name=name, kind=kind, holder=holder, reason=reason))

    def server_changed(self) -> None:
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
        for hold in self.held():
            held_for = now - hold.since
            if self._late(hold, held_for, self._slow_hold):
                self.emit(events.SlowHold(**self._of(hold), seconds=held_for))
        waits = list(self.waits.items())
        slow = [
            hold for hold, wait in waits if self._late(hold, now - wait.since, self._slow_acquire)
        ]
        # A copy: other threads end holds meanwhile.
        told = self._told.copy()
        for hold in told.difference(list(self._session.live) if told else ()):
            if hold not in self.waits:
                self._told.discard(hold)
        return slow

    def _late(self, hold: Hold, seconds: float, limit: float) -> bool:
        """Return once, when *hold* has lasted or waited for *limit* seconds, that it has."""
        if seconds < limit or hold in self._told or hold.lock.kind == ENDLESS:
            return False
        self._told.add(hold)
        return True

    def put_off(self, slow: Sequence[Hold]) -> None:
        """Return the *slow* waits again at the next look: nobody could report them."""
        self._told.difference_update(slow)

    def queries(self, slow: Sequence[Hold]) -> dict[str, Eval[Any]]:
        """Return the scripts that tell who holds what the *slow* waits are for, by its key.

        The work of others waits for this: one query for each lock, and only for a few locks.
        """
        locks = dict(islice({hold.key: hold.lock for hold in slow}.items(), QUERIES))
        return {key: lock.query() for key, lock in locks.items()}

    def name_holders(self, slow: Sequence[Hold], holders: Mapping[str, Sequence[str]]) -> None:
        """Report the *slow* waits, with the *holders* of what they wait for, by its key."""
        now = self._clock()
        for hold in slow:
            if (wait := self.waits.get(hold)) is not None:
                held_by = tuple(holders.get(hold.key, ()))
                late = now - wait.since
                self.emit(events.SlowAcquire(**self._of(hold), seconds=late, held_by=held_by))

    @property
    def looks(self) -> bool:
        """Whether waits or holds may be too long."""
        return min(self._slow_acquire, self._slow_hold) < NEVER

    def begin(self) -> None:
        """Begin without waits, also in a forked child."""
        self.waits.clear()
        self.traces.clear()
        self._told.clear()

    # What an observer may ask.

    def holds(self) -> Mapping[str, int]:
        return Counter(hold.lock.kind for hold in self.held())

    def waiters(self) -> Mapping[str, int]:
        return Counter(hold.lock.kind for hold in list(self.waits))

    def validity(self) -> float | None:
        ends = [hold.valid_until for hold in self.held()]
        return max(min(ends) - self._clock(), 0.0) if ends else None

    def note_trace(self, holder: str, name: str, trace_id: str) -> None:
        if trace_id:
            self.traces[holder, name] = trace_id
        else:
            _ = self.traces.pop((holder, name), None)

    def forget_traces(self) -> None:
        self.traces.clear()

    def event(self, frequent: Frequent) -> events.LockEvent:
        """Return *frequent* as an event object."""
        kind, hold, owner, at, _, told = frequent
        time = self.wall() - (self._clock() - at)
        fields: dict[str, Any] = {**self._of(hold), "owner": owner, "time": time, **told}
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
