"""The one thing that can be done to permits of a leased semaphore and not to a lock.

To cut their lease short.

Source: RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.holds import Permit, State, valid_until
from interlock._core.lock_base import lost, not_held
from interlock._core.scripts import leased_semaphore as scripts
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.session import Session

__all__ = ["Permit", "update_lease"]


def update_lease(session: Session, permit: Permit, lease: float | None) -> Op[None]:
    """Have *permit* as if it had been acquired with *lease* just now.

    It may end sooner than before.

    Raises:
        NotHeldError: it was released.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer; the shorter of the two leases counts.

    Cost:
        One round trip.
    """
    core, now = permit.core, session.clock()
    wanted = session.options.lease if lease is None else check_lease(lease)
    if permit.state in (State.PENDING, State.ENDED):
        raise not_held(core.kind, permit.name, permit.label)
    if permit.lost(now):
        session.lose(permit, permit.expiry_reason())
        raise lost(permit)
    ends_at = valid_until(now, wanted)
    permit.ask_to_end(ends_at, renewed=lease is None)
    done = yield from session.persist(
        scripts.leased_semaphore_update(
            permit.key, wanted, permit.holder, deadline=permit.valid_until
        )
    )
    if not done:
        session.lose(permit, "force-released")
        raise lost(permit)
    permit.end_at(ends_at, wanted, core.renewal if lease is None else None)
    session.watchdog.watch(permit)
