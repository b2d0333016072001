"""The number of permits of a leased semaphore: how it is set up, changed and asked for.

Its permits are holds (`permits`). What changes their number has no owner, and each call counts once.

Source: RPermitExpirableSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import GRACE, NEVER, Eval
from interlock._core.model.names import permit_leases
from interlock._core.objects.number import PermitNumber
from interlock._core.scripts.permits import LEASED_CHANGE, LEASED_QUERY
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.objects.number import Named
    from interlock._core.upkeep.session import Session


class LeasedNumber(PermitNumber):
    """The number of permits of one leased semaphore, for one client; arguments as `Number`."""

    kind = "leased semaphore"
    changes, least, besides = LEASED_CHANGE, 1, (permit_leases,)

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        permits: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, permits, named, idle)
        self.seconds = idle
        self.check_lease(session.options.lease)

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
        if self.number is not None or not self.named.first(self.key):
            return
        if not sum((yield from self._query("", deadline))):
            self.named.missing(self.kind, self.name)

    def counts(self) -> Op[tuple[int, int]]:
        """Return how many permits are free and how many are held; one round trip.

        It sets the number that the code names at the first use, or if it may have ended by itself:
        of what was deleted there is none.
        """
        found = yield from self._query(self.makes if self.unset or self.seconds else "")
        self.compare(sum(found))
        return found

    def held(self) -> Op[int]:
        """Return how many permits are held; one round trip, which sets no number."""
        return (yield from self._query(""))[1]
