"""The update of the lease of permits, which may cut it short.

Source: RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.doubt import end_doubt, shortening
from interlock._core.locks.known_lock import not_held
from interlock._core.locks.lock_base import lost
from interlock._core.model.holds import Permit, State
from interlock._core.objects.leased_permits import LeasedPermits
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.upkeep.idempotency import once
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session

__all__ = ["Permit", "update_lease"]


def update_lease(session: Session, permit: Permit, lease: float | None) -> Op[None]:
    """Set the lease of *permit* as if it had been acquired with *lease* just now.

    The permit may end sooner than before.

    Raises:
        NotHeldError: it was released.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer within the outage time-out; the lease that ends
            first counts.

    Cost:
        One round trip.
    """
    core, now = permit.core, session.clock()
    wanted = session.options.lease if lease is None else check_lease(lease)
    if isinstance(core, LeasedPermits):
        core.check_lease(wanted)
    if permit.lost(now):
        session.lose(permit, permit.expiry_reason())
        raise lost(permit)
    if permit.state is not State.HELD:
        raise not_held(core.kind, permit.name, permit.label)
    yield from end_doubt(session, permit)
    now = session.clock()
    deadline = min(permit.valid_until, now + session.options.outage_timeout)
    if lease is not None or permit.renewal is None:
        permit.end_renewal()
    update = scripts.leased_semaphore_update(permit.key, wanted, permit.holder, deadline=deadline)
    call = once(session, permit.key, update)
    recall = scripts.leased_semaphore_update(permit.key, 0.0, permit.holder)
    # It may end sooner than before. The server may do this, and the reply may be lost.
    permit.ask_lease(now, wanted)
    if permit.renewal is None:
        session.watchdog.watch(permit)
    if not (yield from shortening(session, permit, call, recall)):
        if permit.leaving():
            # It was released meanwhile, and the release came first.
            raise not_held(core.kind, permit.name, permit.label)
        session.lose(permit, permit.gone_reason(session.clock()))
        raise lost(permit)
    renewal = core.renewal if lease is None else None
    permit.update_lease(now, wanted, renewal, session.clock())
    session.watchdog.watch(permit)
