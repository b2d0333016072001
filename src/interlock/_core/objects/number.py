"""The numbers of permits of semaphores: how they are set up, changed and asked for.

What changes such a number has no owner, and each call counts once. The permits of a leased semaphore
are holds (`permits`).

Source: RSemaphore and RPermitExpirableSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import GRACE, NEVER, Eval
from interlock._core.model.names import permit_leases, semaphore_channel
from interlock._core.objects.counter import Counter
from interlock._core.scripts.permits import LEASED_CHANGE, LEASED_QUERY
from interlock._misuse import warn
from interlock.errors import ConfigError
from interlock.options import check_interval, check_number

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.objects.counter import Carried
    from interlock.options import Duration

MAX_PERMITS = 2**31 - 1
"""The largest number that Java can read: it uses an int."""


def check_permits(permits: object, least: int = 1) -> int:
    """Return *permits* if it is a number of permits; else raise TypeError or ConfigError."""
    if type(permits) is int and least <= permits <= MAX_PERMITS:
        return permits  # at once: most calls end here
    return check_number(permits, "permits", least, MAX_PERMITS)


def check_idle(idle: Duration | None, needs: str, number: object) -> float:
    """Return for how many seconds to keep what nobody uses; 0 for ever.

    The argument *needs* names the *number*; ConfigError unless that is given, too.
    """
    if idle is None:
        return 0.0
    if number is None:
        raise ConfigError(f"what ends by itself must be set up again: give {needs}= too")
    return check_interval(idle, "idle")


class PermitNumber(Counter):
    """A number of permits, which starts as *number* if there is none.

    Source: what RSemaphore and RPermitExpirableSemaphore of Redisson 4.7.0 have in common.
    """

    counted, most = "permits", MAX_PERMITS
    differs = (
        "{name!r} has {there} permits on the server, not {number} as permits={number} says: "
        "set_permits({number}) changes it"
    )
    channel_of = staticmethod(semaphore_channel)

    def try_set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that makes the semaphore with *permits* unless it exists.

        Permits that are held count, although their number is missing.
        """
        return self.change("make", check_permits(permits, 0))

    def set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that sets the number of all permits, free and taken.

        While more than that are taken, the number of free permits is below 0.
        """
        permits = check_permits(permits, 0)
        self.note_named()
        return self.change("set", permits)

    def add_permits(self, permits: int) -> Carried[bool]:
        """Return the step that adds *permits* for good, or takes them away when negative."""
        if check_permits(permits, -MAX_PERMITS) == 0:
            raise ConfigError("adding 0 permits changes nothing; give a number above or below 0")
        self.note_named()
        return self.change("add", permits)

    def delete(self) -> Carried[bool]:
        """Return the step that removes the semaphore, and tells whether there was one."""
        return self.change("delete", 0)

    def warn_missing(self) -> None:
        """Warn that nobody has set the semaphore up, which somebody waits for."""
        factory = f"client.{self.kind.replace(' ', '_')}({self.name!r}, permits=n)"
        warn(
            f"{self.kind} {self.name!r} has no permits, because nobody has set it up: this waits "
            f"until somebody does. Write {factory} to set it up"
        )

    def warn_too_many(self, wanted: int, most: int | None) -> None:
        """Warn once of each number of permits that is *wanted*, if there are *most* of them."""
        if most and wanted > most and self.first(wanted):
            has = "1 permit" if most == 1 else f"{most} permits"
            warn(
                f"{self.kind} {self.name!r} has {has} in all, and {wanted} are wanted together: "
                f"this cannot succeed before set_permits({wanted}) or "
                f"add_permits({wanted - most})"
            )


class LeasedNumber(PermitNumber):
    """The number of permits of one leased semaphore, for one client."""

    kind = "leased semaphore"
    changes, least, besides = LEASED_CHANGE, 1, (permit_leases,)

    def check(self) -> None:
        self.check_lease(self.session.options.lease)

    def check_lease(self, lease: float) -> None:
        """Raise ConfigError if a permit of *lease* seconds outlasts the semaphore."""
        if self.seconds and self.seconds < lease:
            raise ConfigError(
                f"{self!r} is removed after {self.seconds:g} s, and a lease of {lease:g} s is "
                "longer: give a longer idle="
            )

    def _query(self, makes: str, deadline: float = NEVER) -> Op[tuple[int, int]]:
        keys, args = (self.key, *self.beside), (makes, self.idle, self.channel)
        call = Eval(LEASED_QUERY[self.session.publish], keys, args)
        found: tuple[int, int] = yield from self.session.persist(call, deadline)
        return found

    def set_up(self, deadline: float = NEVER) -> Op[None]:
        """Set the number that the code names if there is none, and warn if there is another one."""
        until = max(deadline, self.session.clock() + GRACE)
        self.compare(sum((yield from self._query(self.makes, until))))

    def note_wait(self, deadline: float) -> Op[None]:
        """Warn at the first wait until *deadline* if nobody has set the number of permits."""
        if self.number is None and self.first() and not sum((yield from self._query("", deadline))):
            self.warn_missing()

    def counts(self) -> Op[tuple[int, int]]:
        """Return how many permits are free and how many are held; one round trip.

        It sets the number that the code names at the first use, or if it may have ended by itself:
        of what was deleted there is none.
        """
        found = yield from self._query(self.makes if self.unset or self.seconds else "")
        self.compare(sum(found))
        return found

    def held(self) -> Op[int]:
        return (yield from self._query(""))[1]
