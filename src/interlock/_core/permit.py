"""A hold of permits of a leased semaphore, and the one thing that can be done to it and not to a lock's: to cut it short.

Source: RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.effects import NEVER
from interlock._core.holds import DRIFT, SLACK, Hold, State
from interlock._core.scripts import leased_semaphore as scripts
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Owner, Recipe
    from interlock._core.session import Session


class Permit(Hold):
    """Permits that were acquired together, and end together.

    Their lease may be cut short while a renewal is under way, whose answer then speaks of a longer one: so what is believed is
    the shorter of the two.

    Attributes:
        ids: what the server knows them by, 32 hex digits each.
        ends_at: when a lease of their own ends, whatever a renewal says; never while they are renewed.
    """

    __slots__ = ("ends_at", "ids")

    def __init__(self, recipe: Recipe, owner: Owner, ids: tuple[str, ...], lease: float) -> None:
        super().__init__(recipe, owner, "", lease)
        self.identify(ids)
        self.ends_at = NEVER

    def identify(self, ids: tuple[str, ...]) -> None:
        """Have them known by *ids* from now on, of which nothing was sent yet."""
        self.ids = ids
        self.holder = "".join(ids)
        self.strays = 0

    def valid(self, now: float) -> bool:
        """Return whether nobody else can have the permits at *now*."""
        return now < self.ends_at and super().valid(now)

    def lost(self, now: float) -> bool:
        """Return whether they ended without being released."""
        over = now >= self.ends_at and self.state in (State.HELD, State.ENDING)
        return over or super().lost(now)


def update_lease(session: Session, permit: Permit, lease: float | None) -> Op[None]:
    """Have *permit* as if it had been acquired with *lease* just now: it may end sooner than before.

    Raises:
        NotHeldError: it was released.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer; the shorter of the two leases counts.

    Cost:
        One round trip.
    """
    recipe, now = permit.recipe, session.clock()
    wanted = session.options.lease if lease is None else check_lease(lease)
    if permit.state in (State.PENDING, State.ENDED):
        raise releasing.not_held(recipe.kind, permit.name, permit.label)
    if permit.lost(now):
        session.lose(permit, permit.expiry_reason())
        raise releasing.lost(permit)
    ends_at = now + wanted * (1 - DRIFT) - SLACK
    permit.ends_at = min(permit.ends_at, ends_at)
    if lease is not None:
        permit.renewal = None
    done = yield from session.persist(
        scripts.leased_semaphore_update(
            permit.key, wanted, permit.holder, deadline=permit.valid_until
        )
    )
    if not done:
        session.lose(permit, "force-released")
        raise releasing.lost(permit)
    permit.lease = wanted
    permit.valid_until = ends_at
    permit.ends_at = ends_at
    if lease is None:
        permit.ends_at = NEVER
        permit.renewal = recipe.renewal
    session.watchdog.watch(permit)
