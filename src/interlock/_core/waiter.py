"""One waiter in a queue of `waiters`: its state, and no rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Candidate(Protocol):
    """A hold that may be given to a waiter; `Hold` is one."""

    @property
    def core(self) -> object:
        """Return the lock."""
        ...

    def offer(self) -> None:
        """Note that another holder, which releases, may make it the holder."""
        ...


class Waiter:
    """One waiter in the queue of a channel.

    Attributes:
        channel: what is waited for.
        wakeup: what wakes its waiter, from whatever thread.
        front: True while it is this waiter's turn to ask the server.
        asking: True when something happened that makes asking worth it.
        taken_for: set by an operation that leaves with what all wait for: seconds for which
            nobody else can have it.
        inherited: what the one before in the queue left in its ``taken_for``.
        candidate: the hold that may be given to this waiter, or None.
        busy: True while it asks the server itself.
        offered: True while somebody gives the lock to it.
        offered_until: when it asks all the same.
        gone: True when it waits no longer.
        shares: True when it wants what others may have too.
    """

    __slots__ = (
        "asking", "busy", "candidate", "channel", "front", "gone", "inherited", "offered",
        "offered_until", "shares", "taken_for", "wakeup",
    )  # fmt: skip

    def __init__(self, channel: str, wakeup: Callable[[], None]) -> None:
        self.channel = channel
        self.wakeup = wakeup
        self.front = False
        self.asking = False
        self.taken_for: float | None = None
        self.inherited: float | None = None
        self.candidate: Candidate | None = None
        self.busy = self.offered = self.gone = self.shares = False
        self.offered_until = 0.0

    def take(self) -> bool:
        """Return whether to ask the server now, and forget it."""
        asking, self.asking = self.asking, False
        return asking and self.front

    def wake(self, *, ask: bool = True) -> None:
        """Wake the waiter, to ask the server or just to look around."""
        if ask:
            self.asking = True
        self.wakeup()
