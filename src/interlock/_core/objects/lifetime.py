"""How long an object stays on the server that nobody uses any more.

Theory. The keys of a semaphore or a latch get a TTL, by a script that the client runs before a use.
Each use makes the TTL new, but a client does so only once in a tenth of that time.

Rejected: to set the TTL in each script. Every acquire would cost more, also where none is wanted.

Source: RExpirable of Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock._core.model.effects import NEVER
from interlock._core.scripts.semaphore import semaphore_expire
from interlock.errors import ConfigError
from interlock.options import check_interval

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session
    from interlock.options import Duration

RENEWED = 0.1
"""The part of the time after which a client lets an idle object begin it anew."""
REMEMBERED = 10_000
"""Names that a client remembers, at most."""


class Kept(NamedTuple):
    """How long users want an object to be kept that nobody uses.

    Attributes:
        seconds: how long after its last use.
        due: when the client sets it again, by the object's key; shared by all of a client.
    """

    seconds: float
    due: dict[str, float]


class Lifetime:
    """The end of one object that nobody uses any more.

    Args:
        session: the client's state.
        key: its number.
        rest: its other key.
        kept: how long users want it to be kept.
    """

    __slots__ = ("_due", "_key", "_rest", "_session", "seconds")

    def __init__(self, session: Session, key: str, rest: str, kept: Kept) -> None:
        self._session = session
        self._key, self._rest = key, rest
        self.seconds, self._due = kept

    @property
    def due(self) -> bool:
        """Return whether `extend` comes before the next use; no round trip."""
        return self._session.clock() >= self._due.get(self._key, -NEVER)

    @property
    def over(self) -> bool:
        """Return whether the object may have come to its end; no round trip."""
        since_due = self.seconds * (1 - RENEWED)
        return self._session.clock() >= self._due.get(self._key, NEVER) + since_due

    def extend(self, deadline: float = NEVER) -> Op[bool]:
        """Set when the object ends; return whether there is one.

        Cost:
            One round trip.
        """
        session, due = self._session, self._due
        now = session.clock()
        call = semaphore_expire(self._key, self._rest, self.seconds, deadline=deadline)
        call.patient = True  # a full round trip, as for the call that follows
        if not (yield from session.persist(call)):
            if not self.over:  # else all who wait for it must still learn that it is over
                _ = due.pop(self._key, None)
            return False
        if len(due) >= REMEMBERED:
            due.clear()
        due[self._key] = now + self.seconds * RENEWED
        return True


def check_kept(
    due: dict[str, float], needs: str, number: object, idle: Duration | None
) -> Kept | None:
    """Return how long to keep an object; None for ever.

    Args:
        due: the client's memory.
        needs: the argument that names its number.
        number: that number.
        idle: seconds from its last use on.

    Raises:
        ConfigError: *idle* cannot be, or the number is not given.
    """
    if idle is None:
        return None
    if number is None:
        raise ConfigError(f"what ends by itself must be set up again: give {needs}= too")
    return Kept(check_interval(idle, "idle"), due)
