"""The event: a flag that any process sets or clears, and any number of processes wait for.

A string has the state, and each setting has a mark. A waiter remembers the mark that it found when
it came, and goes on when the event is set or has another mark. So it does not miss a setting that
somebody clears at once. After a clearing the mark stays for a while, and then the key expires.

Source: threading.Event of Python 3.13, and its bpo-57711: a clearing must not hide a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval, Op
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.names import event_channel, event_key, own_request
from interlock._core.objects.gate import Gate
from interlock._core.scripts import event as scripts
from interlock._core.scripts.event import EventStatus

if TYPE_CHECKING:
    from interlock._core.objects.counter import Carried
    from interlock._core.upkeep.session import Session


class Event(Gate[EventStatus]):
    """One event, for one client; the arguments are those of `Counter`."""

    kind = "event"
    shown = False

    def __init__(self, session: Session, name: str, key: str, idle: float = 0.0) -> None:
        super().__init__(session, name, key, idle)
        self.key, self.channel = event_key(key), event_channel(key)

    def request_key(self, call: str) -> str:
        """Return the key of a request; Redisson has no such object."""
        return own_request(self.base, call)

    def _change(self, how: str) -> Carried[bool]:
        def make(request: str) -> Form:
            script, client = scripts.EVENT_CHANGE[self.session.publish], self.session.client_id
            args = (HOLE, self.ttl, how, client, self.channel, self.idle, self.note_ttl)
            return Form(script, (self.key, request), args)

        return self.carried((how,), make)

    def set(self) -> Carried[bool]:
        """Return the step that sets it; if it was not set, one message wakes all waiters."""
        return self._change("set")

    def clear(self) -> Carried[bool]:
        """Return the step that clears it, without a message."""
        return self._change("clear")

    def is_set(self) -> Op[bool]:
        """Return whether it is set; one round trip."""
        return (yield from self.state()).is_set

    def looking(self) -> Eval[EventStatus]:
        """Return the script that tells the state."""
        return Eval(scripts.EVENT_QUERY, (self.key,), (self.idle,))

    def is_open(self, state: EventStatus) -> bool:
        """Return whether it is set."""
        return state.is_set

    def lets(self, came: EventStatus, state: EventStatus, unseen: float) -> bool:
        """Return whether it is set, or was set since a waiter *came*."""
        del unseen
        return state.is_set or (state.mark is not None and state.mark != came.mark)
