# Generated from interlock/asyncio/lock.py by tools/make_sync.py; change that file.
"""What every lock-like has: Python's own vocabulary over an operation of the core."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from interlock._drivers import first_try
from interlock._drivers.threads import current_owner
from interlock._misuse import LOCK_NAMES, check_long_lease, suggests, wants_with
from interlock.errors import InterlockError, NotHeldError
from interlock.options import FOREVER, check_lease, check_timeout, lease_of
from interlock.sync.hold import Hold

if TYPE_CHECKING:
    from types import TracebackType

    from interlock._core.holds import Hold as CoreHold
    from interlock._core.holds import Owner
    from interlock._core.joint import Joint
    from interlock._core.lock_like import LockLike
    from interlock._drivers.threads import ThreadDriver
    from interlock.options import Duration


@wants_with
@suggests(LOCK_NAMES)
class Lock:
    """A reentrant lock, shared with Java's RLock; made by `Client.lock`.

    Its owner is the thread that acquired it (a child thread is another one), unless ``owner=`` was given.

    Attributes:
        name: what it is called.
        driver: performs for the client; not for users.
        recipe: the operations of this lock; not for users.
    """

    def __init__(
        self,
        driver: ThreadDriver,
        recipe: LockLike | Joint,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.driver = driver
        self.recipe = recipe
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self._lease = lease_of(lease, driver)
        self._fixed_owner = owner
        self.name = recipe.name

    def __repr__(self) -> str:
        hold = self.hold
        state = "not held here" if hold is None else repr(hold)
        return f"<{type(self).__name__} {self.name!r} {state}>"

    def acquire(
        self,
        blocking: bool = True,
        timeout: Duration | None = None,
        *,
        lease: Duration | None = None,
    ) -> bool:
        """Acquire, waiting as long as allowed.

        Args:
            blocking: False for one try.
            timeout: seconds to wait; None or -1 for ever, 0 for one try.
            lease: seconds after which it ends by itself; None for the one given at making, or else a hold that is renewed
                until it is released.

        Returns:
            Whether it is held now.

        Raises:
            ValueError: *timeout* or *lease* cannot be.
            OverflowError: *timeout* is above `threading.TIMEOUT_MAX`.
            ReentryError: it is not reentrant and this owner holds it.
            HoldLostError: this owner held it and has lost it.
            ServerUnavailableError: no usable answer in time.
            WrongTypeError: the name is in use by something else.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires them; it is given back.
            ClosedError: the client is closed.

        Cost:
            One round trip when it is free.
        """
        limit = FOREVER if timeout is None and blocking else check_timeout(blocking, timeout)
        driver = self.driver
        hold = first_try.acquire(
            driver,
            self.recipe,
            self._fixed_owner or current_owner(),
            driver.session.clock() + limit,
            self._lease if lease is None else lease_of(lease, driver),
        )
        return hold is not None

    def release(self) -> None:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: another owner holds it, or nobody; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; it is not renewed any more, and releasing it may be tried again.
            ClosedError: the client is closed.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        try:
            first_try.release(self.driver, self.recipe, self._fixed_owner or current_owner())
        except NotHeldError as error:
            self._name_holder(error)
            raise

    def __enter__(self) -> Hold:
        limit, driver = self._timeout, self.driver
        hold = first_try.acquire(
            driver,
            self.recipe,
            self._fixed_owner or current_owner(),
            driver.session.clock() + limit,
            self._lease,
        )
        if hold is None:
            raise driver.run(self.recipe.refusal(limit))
        return Hold(driver, hold)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold = self.recipe.hold_of(self._fixed_owner or current_owner())
        own = self.driver.cancelled_by_loss(error, hold)
        try:
            self.release()
        except InterlockError as trouble:
            if error is None or own:
                raise trouble from error
            # The body's own exception goes on; it is told what else went wrong.
            error.add_note(f"interlock: {trouble}")

    def core_hold(self) -> CoreHold | None:
        """Return this owner's hold as the core knows it; not for users."""
        return cast("CoreHold | None", self.recipe.hold_of(self._fixed_owner or current_owner()))

    def _name_holder(self, error: NotHeldError) -> None:
        """Name in *error* who holds it, if the server tells at once."""
        with suppress(InterlockError):
            error.name_holder((self.driver.run(self.recipe.refusal(0))).holder)

    def locked(self) -> bool:
        """Return whether anyone holds it; one round trip."""
        return (self.driver.run(self.recipe.status())).remaining is not None

    def owned(self) -> bool:
        """Return whether this owner holds it: False without a round trip if not, else as the server says."""
        return self.hold_count() > 0

    def hold_count(self) -> int:
        """Return how often this owner holds it: 0 without a round trip if not, else as the server says."""
        return self.driver.run(self.recipe.depth_of(self._fixed_owner or current_owner()))

    def remaining(self) -> float | None:
        """Return the seconds until it ends unless it is renewed, whoever holds it; None when nobody does; one round trip."""
        return (self.driver.run(self.recipe.status())).remaining

    def extend(self, lease: Duration) -> None:
        """Have at least *lease* seconds from now.

        Raises:
            NotHeldError: this owner does not hold it.
            HoldLostError: it is lost.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        seconds, driver = check_lease(lease), self.driver
        check_long_lease(lease, driver)
        try:
            driver.run(self.recipe.extend(self._fixed_owner or current_owner(), seconds))
        except NotHeldError as error:
            self._name_holder(error)
            raise

    def force_release(self) -> bool:
        """Free it, whoever holds it; the holder is told at its next renewal. One round trip.

        Returns:
            Whether it was locked.
        """
        return self.driver.run(self.recipe.force_release())

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold, or None; no round trip."""
        hold = self.recipe.hold_of(self._fixed_owner or current_owner())
        return None if hold is None else Hold(self.driver, hold)
