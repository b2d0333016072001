"""Waiters that stand in no queue of a lock: each looks by itself, and a message hurries it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.queue.places import Line

if TYPE_CHECKING:
    from interlock._core.upkeep.session import Session


class Notices(Line):
    """The waiters of one client for messages about one key."""

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


class Topic:
    """What is listened to: the *key* of it, which tells where that is kept, and its *channel*."""

    line = Notices

    def __init__(self, session: Session, key: str, channel: str) -> None:
        self.session, self.key = session, key
        self.channel = self.standing = channel

    def channels(self, client: str) -> tuple[str, ...]:
        """Return the channel: it need not tell who listens."""
        del client
        return (self.channel,)
