"""Waiters that stand in no queue of a lock: each looks by itself, and a message hurries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.queue.places import Line, Place

if TYPE_CHECKING:
    from interlock._core.upkeep.session import Session


class Topic:
    """What is listened to: the *key* of it, which tells where that is kept, and its *channel*."""

    def __init__(self, key: str, channel: str) -> None:
        self.key = key
        self.channel = self.standing = channel

    def channels(self, client: str) -> tuple[str, ...]:
        """Return the channel: it need not tell who listens."""
        del client
        return (self.channel,)


class Notices(Line):
    """The waiters of one client for the messages of one topic."""

    waiters: dict[Any, None]

    def look_in(self, seconds: float) -> None:
        """Leave it to the waiters when they look."""

    def look(self, now: float) -> None:
        """Leave it to the waiters when they look."""

    def listen(self, *, can: bool) -> None:
        """Note that its messages come from now on, or that they cannot: all its waiters look."""
        self.heard, self.deaf = can, not can
        self.look_all()

    def hear(self, payload: bytes) -> None:
        """Take a message: all look, whatever it says."""
        del payload
        self.look_all()


def stand(session: Session, topic: Topic, waiter: Any) -> Place:
    """Make *waiter* one of *topic*, unless it is; return its `place`."""
    line: Any = session.lines.get(topic.channel)
    if line is None:
        made: Any = topic
        line = session.lines.setdefault(topic.channel, Notices(session, made))
    place: Place | None = waiter.place
    if place is None:
        place = waiter.place = Place(line)
    place.line = line
    line.waiters[waiter] = None
    return place


def leave(session: Session, waiter: Any) -> None:
    """Note that *waiter* waits no more."""
    place: Place | None = waiter.place
    if place is not None:
        place.line.waiters.pop(waiter, None)
        if not place.line.waiters:
            place.line.left_at = session.clock()
