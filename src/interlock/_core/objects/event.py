"""The event: a flag that any process sets or clears, and any number of processes wait for.

A string has the state, and each setting has a mark. After a clearing the mark stays for a while, and
then the key expires.

Source: threading.Event of Python 3.13, and its bpo-57711: a clearing must not hide a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.names import event_channel, event_key
from interlock._core.objects.gate import Gate
from interlock._core.scripts.gate import EVENT_CHANGE, EVENT_QUERY

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.objects.counter import Carried


class Event(Gate):
    """One event, for one client."""

    kind = "event"
    changes, query = EVENT_CHANGE, EVENT_QUERY
    shown = False
    channel_of, key_of = staticmethod(event_channel), staticmethod(event_key)

    def set(self) -> Carried[bool]:
        """Return the step that sets it; if it was not set, one message wakes all waiters."""
        return self.change("set")

    def clear(self) -> Carried[bool]:
        """Return the step that clears it, without a message."""
        return self.change("clear")

    def is_set(self) -> Op[bool]:
        return (yield from self.state()).left == 0
