"""The number of permits of a leased semaphore: how it is set up, changed and asked for.

Its permits are holds (`permits`). What changes their number has no owner, and each call counts once.

Source: RPermitExpirableSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import GRACE, NEVER, Eval
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.names import permit_leases, semaphore_channel
from interlock._core.objects.counter import Counter
from interlock._core.objects.semaphore import MAX_PERMITS, check_permits
from interlock._core.scripts.permits import LEASED_CHANGE, LEASED_QUERY
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.objects.counter import Carried
    from interlock._core.objects.named import Named
    from interlock._core.upkeep.session import Session


class LeasedNumber(Counter):
    """The number of permits of one leased semaphore, for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        key: of the number of free permits.
        permits: how many there are if there is no such semaphore; None to make none.
        named: what the client knows of such numbers.
        seconds: after its last use when it ends; 0 for never.

    Attributes:
        makes: *permits*, as an argument of commands.
    """

    kind = "leased semaphore"

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        permits: int | None,
        named: Named,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, seconds)
        self.permits = None if permits is None else check_permits(permits)
        self.makes = "" if permits is None else str(permits)
        self.seconds, self._named = seconds, named
        self.channel, self._leases = semaphore_channel(key), permit_leases(key)
        if seconds:
            self.check_lease(session.options.lease)

    def check_lease(self, lease: float) -> None:
        """Raise ConfigError if a permit of *lease* seconds outlasts the semaphore."""
        if self.seconds and self.seconds < lease:
            raise ConfigError(
                f"{self!r} is removed after {self.seconds:g} s, and a lease of {lease:g} s is "
                "longer: give a longer idle="
            )

    # The commands.

    def _change(self, how: str, number: int) -> Carried[bool]:
        def make(request: str) -> Form:
            args = (HOLE, self.ttl, how, number, self.idle, self.channel)
            script = LEASED_CHANGE[self.session.publish]
            return Form(script, (self.key, request, self._leases), args)

        return self.carried((how, number), make)

    def _query(self, makes: str) -> Eval[tuple[int, int]]:
        args = (makes, self.idle, self.channel)
        return Eval(LEASED_QUERY[self.session.publish], (self.key, self._leases), args)

    # What users ask.

    @property
    def unset(self) -> bool:
        """Whether this client has not used the number that its code names; no round trip."""
        return self.permits is not None and not self._named.known(self.key, self.permits)

    def set_up(self, deadline: float = NEVER) -> Op[None]:
        """Set the number that the code names if there is none, and warn if there is another one."""
        until = max(deadline, self.session.clock() + GRACE)
        self._compare(sum((yield from self.session.persist(self._query(self.makes), until))))

    def _compare(self, there: int) -> None:
        if self.permits is None or not self.unset:
            return
        self._named.note(self.key, self.permits)
        if there != self.permits:
            self._named.differs(self.name, there, self.permits)

    def note_wanted(self, n: int) -> None:
        """Warn once if there are never as many as *n* together, as far as the code names a number."""
        if self.permits is not None and n > self.permits and self._named.first(self.key, n):
            self._named.too_many(self.kind, self.name, n, self.permits)

    def note_wait(self, deadline: float) -> Op[None]:
        """Warn at the first wait until *deadline* if nobody has set the number of permits."""
        if self.permits is not None or not self._named.first(self.key):
            return
        if not sum((yield from self.session.persist(self._query(""), deadline))):
            self._named.missing(self.kind, self.name)

    def counts(self) -> Op[tuple[int, int]]:
        """Return how many permits are free and how many are held; one round trip.

        It sets the number that the code names at the first use, or if it may have ended by itself:
        of what was deleted there is none.
        """
        makes = self.makes if self.unset or self.seconds else ""
        found: tuple[int, int] = yield from self.session.persist(self._query(makes), NEVER)
        self._compare(sum(found))
        return found

    def held(self) -> Op[int]:
        """Return how many permits are held; one round trip, which sets no number."""
        found: tuple[int, int] = yield from self.session.persist(self._query(""), NEVER)
        return found[1]

    def try_set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that makes the semaphore with *permits* unless it exists.

        Permits that are held count, although their number is missing.

        Source:
            RPermitExpirableSemaphore.trySetPermits.
        """
        permits = check_permits(permits, 0)
        return self._change("make", permits)

    def set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that sets the number of all permits, free and held.

        While more than that are held, the number of free permits is below 0.

        Source:
            RPermitExpirableSemaphore.setPermits.
        """
        permits = check_permits(permits, 0)
        if self.permits is not None:  # another number than the named one is meant from now on
            self._named.note(self.key, self.permits)
        return self._change("set", permits)

    def add_permits(self, permits: int) -> Carried[bool]:
        """Return the step that adds *permits* for good, or takes them away when negative.

        Source:
            RPermitExpirableSemaphore.addPermits.
        """
        permits = check_permits(permits, -MAX_PERMITS)
        if permits == 0:
            raise ConfigError("adding 0 permits changes nothing; give a number above or below 0")
        return self._change("add", permits)

    def delete(self) -> Carried[bool]:
        """Return the step that removes the semaphore, and tells whether there was one.

        Source:
            RPermitExpirableSemaphore.delete.
        """
        return self._change("delete", 0)
