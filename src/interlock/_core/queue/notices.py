"""Waiters that stand in no queue of a lock: each looks by itself, and a message hurries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.queue.places import Line, Place

if TYPE_CHECKING:
    from interlock._core.locks.base import Lock
    from interlock._core.upkeep.session import Session


class Notices(Line):
    """The waiters of one client for messages about one key."""

    waiters: dict[Any, Place]

    def look_in(self, seconds: float) -> None:
        """Leave it to the waiters when they look."""

    def look(self, now: float) -> None:
        """Leave it to the waiters when they look."""

    def listen(self, *, can: bool) -> None:
        """Note that its messages come from now on, or that they cannot: all its waiters look."""
        self.deaf, self.ready = not can, True
        self.look_all()

    def hear(self, payload: bytes) -> None:
        """Take a message: all look, whatever it says."""
        del payload
        self.look_all()


def stand(session: Session, lock: Lock, channel: str, waiter: Any) -> Place:
    """Make *waiter* one for the messages of *channel* about *lock*; return its `place`."""
    line: Any = session.lines.get(channel)
    if line is None:
        line = session.lines.setdefault(channel, Notices(session, lock, channel))
    place: Place | None = waiter.place
    if place is None:
        place = waiter.place = Place(line)
    place.line = line
    line.waiters[waiter] = place
    return place
