# Generated from interlock/asyncio/leased_semaphore.py by tools/make_sync.py; change that file.
"""The semaphore whose permits have ids and leases."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Never

from interlock._core.model.no_hold import NoHold
from interlock._drivers.blocking import release_unclaimed, take_for
from interlock._drivers.flow import current_owner
from interlock._drivers.process.unclaimed import PermitClaim
from interlock._hints import hints, told, unexpected
from interlock._traceback import shorten
from interlock.options import FOREVER, check_lease, check_timeout, lease_of
from interlock.sync.hold import Hold
from interlock.sync.trying import Trying

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from interlock._core.model import holds as core_holds
    from interlock._core.model.holds import Owner
    from interlock._core.objects.leased_semaphore import LeasedSemaphore as CoreLock
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import BlockingDriver
    from interlock.options import Duration


_new = object.__new__
_WRITE = "with semaphore.acquire() as permit:"


@hints("client.leased_semaphore(name), whose acquire() gives it")
class Permit(Hold):
    """One or more permits that were acquired together; truthy while they last.

    Leaving their ``with`` block gives them back. Without a lease of their own they are
    renewed while this object, or the thread that took them, lives.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # help() would show them
        _hold: core_holds.Permit | NoHold
        _claim: PermitClaim[BlockingDriver] | None

    def __init__(self, driver: BlockingDriver, hold: NoHold) -> None:
        super().__init__(driver, hold)

    @classmethod
    def _given(cls, permit: core_holds.Permit, claim: PermitClaim[BlockingDriver]) -> Self:
        """Return *permit*, which was just acquired with *claim*, for its user."""
        claim.hold, claim.over = permit, False
        # Made without `__init__`: calls of that cost as much as the object.
        self = _new(cls)
        self._driver, self._hold, self._claim = claim.driver, permit, claim
        self._released, self._lost, self._last = False, None, None
        self.name = permit.core.name
        return self

    def __repr__(self) -> str:
        if isinstance(self._hold, NoHold):
            return f"<Permit {self.name!r} not acquired>"
        state = "valid" if self.valid else "lost" if self.lost.is_set() else "over"
        return f"<Permit {self.name!r} {state} ids={self.ids}>"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return what the server knows them by: 32 hex digits for each permit."""
        return self._hold.ids

    def release(self) -> None:
        """Give them back, from whatever thread; one round trip.

        Raises:
            NotHeldError: they were given back before; nothing was changed.
            HoldLostError: they were lost before.
            ServerUnavailableError: no reply; it may be tried again, and they are not renewed.
        """
        claim = self._claim
        if claim is None:
            super().release()  # it raises: they were not acquired
        else:
            # Not by attributes of this object, whose class tells of other names: they are slow.
            claim.driver.perform(claim.hold.core.release_hold(claim.hold))
            self._released = claim.over = True


# Bound once: Python 3.11 looks up an attribute of a class anew each time.
_given = Permit._given


@hints("client.leased_semaphore(name)")
class LeasedSemaphore:
    """A number of permits with ids and leases; made by `Client.leased_semaphore`.

    It is shared with Java's RPermitExpirableSemaphore. The permits of a killed process come back
    when their leases end.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_driver", "_parts", "_recipe", "name")

    def __init__(self, driver: BlockingDriver, core: CoreLock) -> None:
        self._driver = driver
        self._recipe = core
        self._parts = driver, core  # one look-up for both, as in `Lock`
        self.name = core.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @told
    def acquire(
        self,
        n: int = 1,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        **_foreign: Never,
    ) -> Permit:
        """Take *n* permits together, waiting as long as allowed.

        Args:
            n: how many, at most 10,000.
            timeout: seconds to wait.
            lease: seconds after which they end by themselves; None for permits that are renewed
                until they are released.

        Raises:
            AcquireTimeoutError: they did not become free in time.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; nothing stays taken.

        Cost:
            One round trip when they are free.
        """
        if _foreign:
            raise unexpected(self.acquire, _foreign)
        limit = FOREVER if timeout is None else check_timeout(blocking=True, timeout=timeout)
        (driver, core), caller = self._parts, current_owner()
        if driver.unclaimed.entries:
            release_unclaimed(driver, core, caller, limit)
        deadline = FOREVER if timeout is None else driver.session.clock() + limit
        seconds = None if lease is None else lease_of(lease, driver)
        claim = PermitClaim(driver, caller, _WRITE)
        try:
            return driver.perform(core.acquire(claim, n, deadline, seconds, _given, limit))
        except BaseException as error:
            shorten(error)
            raise

    def try_acquire(
        self, n: int = 1, timeout: Duration = 0, lease: Duration | None = None
    ) -> Permit | None:
        """Take *n* permits as `acquire` does, or return None if they do not become free in time."""
        limit = check_timeout(blocking=True, timeout=timeout)
        driver = self._driver
        claim = self._claim(current_owner(), limit)
        deadline, seconds = driver.session.clock() + limit, lease_of(lease, driver)
        try:
            return driver.perform(self._recipe.acquire(claim, n, deadline, seconds, _given))
        except BaseException as error:
            shorten(error)
            raise

    def trying(
        self, n: int = 1, timeout: Duration = 0, lease: Duration | None = None
    ) -> Trying[Permit]:
        """Return a block that is entered whether or not *n* permits are taken.

        For example ``with semaphore.trying() as permit: if permit: ...``. Leaving the block
        gives them back. The permit is empty and falsy if they were not taken.

        The arguments, errors and cost are as of `try_acquire`.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        return Trying(partial(self._try, n, limit, lease_of(lease, self._driver)))

    def _try(self, n: int, limit: float, lease: float | None, block: Block | None) -> Permit:
        """Take *n* permits for *block*, or return an empty permit."""
        driver, core, caller = self._driver, self._recipe, current_owner()
        claim = self._claim(caller, limit)
        deadline = driver.session.clock() + limit

        def keep(permit: Permit) -> None:
            if block is not None:
                permit._keep_for(block)

        permit = take_for(
            driver, lambda got: core.acquire(claim, n, deadline, lease, got), _given, keep
        )
        if permit is None:
            return Permit(driver, NoHold(core.kind, self.name, caller.label, None))
        return permit

    def _take(
        self, timeout: Duration | None, lease: Duration | None, keep: Callable[[Permit], None]
    ) -> Permit:
        """Take a permit and *keep* it, or raise as `acquire` does."""
        driver, core, limit = self._driver, self._recipe, check_timeout(True, timeout)
        claim = self._claim(current_owner(), limit)
        deadline, seconds = driver.session.clock() + limit, lease_of(lease, driver)
        return take_for(
            driver, lambda got: core.acquire(claim, 1, deadline, seconds, got, limit), _given, keep
        )

    def _claim(self, caller: Owner, limit: float) -> PermitClaim[BlockingDriver]:
        """Return the claim of *caller* to permits that it acquires in *limit* seconds."""
        driver = self._driver
        if driver.unclaimed.entries:
            release_unclaimed(driver, self._recipe, caller, limit)
        return PermitClaim(driver, caller, _WRITE)

    def release(self, permit: Permit | str) -> None:
        """Give back *permit*, or the one with that id, in any process; one round trip.

        Raises:
            NotHeldError: nobody holds it; nothing was changed.
            HoldLostError: it was lost before.
            ValueError: it is the id of one of several that were acquired together; give the permit.
            ServerUnavailableError: no reply; it may be tried again.
        """
        if isinstance(permit, Permit):
            self._recipe.check_own(permit.name)
            permit.release()
        else:
            self._driver.run(self._recipe.release_id(permit))

    def extend(self, permit: Permit | str, lease: Duration) -> None:
        """Lengthen the lease of *permit*, or of the one with that id, as `Permit.extend` does.

        Errors and cost are as of `release`.
        """
        if isinstance(permit, Permit):
            self._recipe.check_own(permit.name)
            permit.extend(lease)
        else:
            self._driver.run(self._recipe.extend_id(permit, check_lease(lease)))

    def try_set_permits(self, n: int) -> bool:
        """Make the semaphore with *n* permits unless it exists; return whether it was made."""
        return self._driver.run(self._recipe.try_set_permits(n))

    def set_permits(self, n: int) -> None:
        """Make free and held permits add up to *n*; no held one is taken away; one round trip."""
        self._driver.run(self._recipe.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add *n* permits for good, or take them away when *n* is negative; one round trip.

        Raises:
            ServerUnavailableError: no reply in time; it is being undone if it was executed.
        """
        self._set_up()
        self._driver.perform(self._recipe.add_permits(n))

    def delete(self) -> bool:
        """Remove the semaphore and all permits; return whether there was one; one round trip.

        Permits that are held are lost. Waiters go on waiting.
        """
        return self._driver.run(self._recipe.delete())

    def permits(self) -> int:
        """Return how many permits there are, free and held; one round trip."""
        self._set_up()
        return sum(self._driver.run(self._recipe.counts()))

    def acquired_permits(self) -> int:
        """Return how many permits are held, or given to a waiter, anywhere; one round trip."""
        return (self._driver.run(self._recipe.counts()))[1]

    def available_permits(self) -> int:
        """Return how many permits are free; one round trip."""
        self._set_up()
        return (self._driver.run(self._recipe.counts()))[0]

    def _set_up(self) -> None:
        """Set the number of permits if the code names one, before the first call of the client."""
        if self._recipe.unset:
            _ = self._driver.run(self._recipe.set_up())
