"""The event: a flag that any process sets or clears, and any number of processes wait for.

Theory. A string has the state. Each setting has a mark. A waiter remembers the mark that it found
when it came, and goes on when the event is set or has another mark. So it does not miss a setting
that somebody clears at once. After a clearing the mark stays for a while, and then the key expires.

Rules:

* The state belongs to nobody: an event stays set when the process that set it dies. One that may be
  *idle* for some time ends so long after its last use.
* One look serves all waiters of a client. If a look that was sent after a waiter came shows a
  setting, that waiter goes on without a command.

Source: threading.Event of Python 3.13, and its bpo-57711: a clearing must not hide a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.queue.lines import section
from interlock._core.queue.waiting import wait_in_queue
from interlock._core.scripts import event as scripts
from interlock._core.scripts.event import EventStatus
from interlock._core.upkeep.idempotency import IdempotentCalls, new_id
from interlock.options import check_name

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.queue.lines import Line
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock._core.upkeep.session import Session

NOTE_TTL = 60.0
"""Seconds, besides two poll caps, for which a setting is remembered after it was cleared."""


class Event:
    """The operations of one event for one client; the public `Event` lists errors and costs."""

    kind = "event"

    def __init__(self, session: Session, name: str, idle: float = 0.0) -> None:
        self._idle = idle
        self.name = check_name(name)
        base = session.key(self.name)
        self.key = names.event_key(base)
        self.channel = names.event_channel(base)
        self._session = session
        self._calls = IdempotentCalls(session, base, names.own_request)
        self._note_ttl = NOTE_TTL + 2 * session.options.poll_cap

    def set(self) -> Step[bool]:
        """Set it; if it was not set, wake the waiters of all processes by one message."""
        return self._calls.carried_through(self._set_script)

    def clear(self) -> Step[bool]:
        """Clear it, without a message."""
        return self._calls.carried_through(self._clear_script)

    def is_set(self) -> Op[bool]:
        """Return whether it is set; one round trip."""
        return (yield from self._status()).is_set

    def wait(self, deadline: float) -> Op[bool]:
        """Wait until it is set or *deadline* passes; return whether it was set."""
        session = self._session
        found = yield from self._status(deadline, patient=True)
        if found.is_set:
            return True
        latest, since = _latest_look(session, self.key), session.clock()
        # Only waiters that found the same setting share a queue. Otherwise one that found a later
        # setting could stand in front. It would wait for another setting, and block those behind.
        line = section(self.channel, found.mark or "")
        looking = (line, latest, found.mark, since, deadline)
        return (yield from wait_in_queue(session, line, deadline, None, self._look, *looking))

    def _look(
        self, line: Line, latest: _Look, mark: str | None, since: float, deadline: float
    ) -> Op[float | None]:
        """Look once; return None if a waiter that found *mark* at *since* may go on.

        It may if the event is set, or has another mark.
        """
        if latest.sent_at < since or not _was_set(latest.status, mark):
            sent_at = self._session.clock()
            status = yield from self._status(deadline)
            latest.note(sent_at, status)
        if not _was_set(latest.status, mark):
            return NEVER
        # All that found the same mark may go on. One after the other, it would take a while.
        self._session.waiters.serve_all(line)
        return None

    def _status(self, deadline: float = NEVER, *, patient: bool = False) -> Op[EventStatus]:
        call = scripts.event_query(self.key, self._idle, deadline=deadline)
        call.patient = patient  # a full round trip, as for a single try of a lock
        return (yield from self._session.persist(call))

    def _set_script(self, request: IdempotentCall) -> Eval[bool]:
        session = self._session
        return scripts.event_set(
            *(self.key, request, new_id(session), session.publish, self.channel), self._idle
        )

    def _clear_script(self, request: IdempotentCall) -> Eval[bool]:
        return scripts.event_clear(self.key, request, self._note_ttl)


class _Look:
    """The last look of a client's waiters for one event, and what it found.

    Attributes:
        sent_at: when it was sent, on the session's clock.
        status: what the server answered.
    """

    __slots__ = ("__weakref__", "sent_at", "status")

    def __init__(self) -> None:
        self.sent_at = -NEVER
        self.status = EventStatus(is_set=False, mark=None)

    def note(self, sent_at: float, status: EventStatus) -> None:
        """Remember a look, if it is the latest one."""
        if sent_at >= self.sent_at:
            self.status = status
            self.sent_at = sent_at


def _was_set(status: EventStatus, mark: str | None) -> bool:
    return status.is_set or (status.mark is not None and status.mark != mark)


_looks: WeakKeyDictionary[Session, WeakValueDictionary[str, _Look]] = WeakKeyDictionary()
"""By client and key, while somebody waits there."""


def _latest_look(session: Session, key: str) -> _Look:
    looks = _looks.setdefault(session, WeakValueDictionary())
    return looks.setdefault(key, _Look())
