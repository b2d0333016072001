"""One waiter in a queue of `waiters`: only its state, no rules."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.queue.lines import Line


class Stand(Enum):
    """What a waiter does; each value is told by its flags."""

    BEHIND = "behind"
    FRONT = "front"
    ASKING = "asking"
    OFFERED = "offered"
    DEPARTED = "departed"


TRANSITIONS: Final = {
    # from, what is done        to
    (Stand.BEHIND, "leave"): {Stand.FRONT, Stand.DEPARTED},
    (Stand.BEHIND, "give_up"): {Stand.FRONT, Stand.DEPARTED},
    (Stand.BEHIND, "mend"): {Stand.FRONT},
    (Stand.BEHIND, "serve_all"): {Stand.DEPARTED},
    (Stand.BEHIND, "begin_asking"): {Stand.ASKING},
    (Stand.BEHIND, "started"): {Stand.DEPARTED},
    (Stand.FRONT, "begin_asking"): {Stand.ASKING},
    (Stand.FRONT, "offer"): {Stand.OFFERED},
    (Stand.FRONT, "started"): {Stand.DEPARTED},
    (Stand.FRONT, "leave"): {Stand.DEPARTED},
    (Stand.FRONT, "give_up"): {Stand.DEPARTED},
    (Stand.FRONT, "serve_all"): {Stand.DEPARTED},
    (Stand.ASKING, "asked"): {Stand.FRONT, Stand.BEHIND},
    (Stand.ASKING, "leave"): {Stand.DEPARTED},
    (Stand.ASKING, "give_up"): {Stand.DEPARTED},
    (Stand.ASKING, "serve_all"): {Stand.DEPARTED},
    (Stand.OFFERED, "begin_asking"): {Stand.ASKING},
    (Stand.OFFERED, "conclude"): {Stand.FRONT, Stand.DEPARTED},
    (Stand.OFFERED, "started"): {Stand.DEPARTED},
    (Stand.OFFERED, "leave"): {Stand.DEPARTED},
    (Stand.OFFERED, "give_up"): {Stand.DEPARTED},
}
"""Every change of a waiter: before, the method of `Waiters` (or the reply, "asked"), and after.

The method may be called for another waiter: the next one is the front when the front leaves. A
waiter that has departed stays so.
"""


class Candidate(Protocol):
    """A hold that may be given to a waiter; `Hold` is one."""

    @property
    def core(self) -> object:
        """Return the lock."""
        ...

    @property
    def holder(self) -> str:
        """Return its holder id."""
        ...

    @property
    def placed(self) -> bool:
        """Return whether the client may stand in the server's queue in its name."""
        ...

    def offer(self) -> None:
        """Note that a release by the present holder may make this hold the next holder."""
        ...


class Claim(NamedTuple):
    """A message that a release has made a waiter the holder.

    Attributes:
        at: when it did, by the server's clock, in microseconds.
        number: what follows the client's id in the holder id; of a permit, its id.
        token: the fencing token that the release drew for it; None if there is none.
        source: what the token follows; empty if there is none.
        wanted: what those in the waiter's line want; empty for a lock.
    """

    at: int
    number: str
    token: int | None = None
    source: str = ""
    wanted: str = ""

    def is_for(self, holder: str) -> bool:
        """Return whether *holder* was made the holder."""
        return holder == self.number or holder.endswith(f":{self.number}")


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


class Waiter:
    """One waiter in its line.

    Attributes:
        line: the name of the line.
        wakeup: wakes the thread or task that waits; any thread may call it.
        front: True while it is this waiter's turn to ask the server.
        should_ask: True if something happened that makes asking worthwhile.
        successor_look: set by an operation that got what all wait for: seconds until the next
            waiter looks, because nobody else can have it before; None if others may at once.
        next_look: seconds until its own next look, from the ``successor_look`` of the waiter before
            it, or from a message.
        claim: a message that this waiter is the holder now, or None.
        candidate: the hold that may be given to this waiter, or None.
        busy: True while it asks the server itself.
        offered: True while a release gives the lock to it.
        offered_until: when it asks even though the lock is offered to it.
        departed: True when it no longer waits.
        away: True when it has left its line, too.
        shares: True if others may have the same at the same time, as readers do.
        asked_in_vain: True if the server has refused it before.
        announced: True if a message for all waiters came since it asked last.
        wish: what operators are told of it; None if a hold tells it.
    """

    __slots__ = (
        "announced", "asked_in_vain", "away", "busy", "candidate", "claim", "departed", "front",
        "line", "next_look", "offered", "offered_until", "shares", "should_ask", "successor_look",
        "wakeup", "wish",
    )  # fmt: skip

    def __init__(self, line: Line, wakeup: Callable[[], None]) -> None:
        self.line = line
        self.wakeup = wakeup
        self.front = False
        self.should_ask = False
        self.successor_look: float | None = None
        self.next_look: float | None = None
        self.claim: Claim | None = None
        self.candidate: Candidate | None = None
        self.busy = self.offered = self.departed = self.away = False
        self.shares = self.asked_in_vain = self.announced = False
        self.offered_until = 0.0
        self.wish: Wish | None = None

    @property
    def stand(self) -> Stand:
        """Return what it does."""
        if self.departed:
            return Stand.DEPARTED
        if self.offered:
            return Stand.OFFERED
        if self.busy:
            return Stand.ASKING
        return Stand.FRONT if self.front else Stand.BEHIND

    def take(self) -> bool:
        """Return whether to ask the server now; reset `should_ask`."""
        should_ask, self.should_ask = self.should_ask, False
        return should_ask and self.front

    def refused(self) -> bool:
        """Note that the server has refused it; return whether it had done so before."""
        before, self.asked_in_vain = self.asked_in_vain, True
        return before

    def wake(self, *, ask: bool = True) -> None:
        """Wake the waiter, to ask the server or only to check its state."""
        if ask:
            self.should_ask = True
        self.wakeup()
