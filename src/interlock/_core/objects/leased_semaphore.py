"""The semaphore whose permits expire: RPermitExpirableSemaphore of Redisson.

Theory. A string has the number of free permits. A sorted set has the id of each held permit, and
the end of its lease. The client draws the ids, so an acquire that is sent twice finds its own.
Every script first takes back expired permits. A permit without a lease of its own is renewed like a
lock. So the permits of a killed process come back within one lease.

Rules:

* All times are the server's. Java's clients use their own clocks. Their times agree with ours as
  far as the clocks do.
* A permit is a hold of its own, with an owner of its own. The owner lives in the object that the
  user was given. Anyone who has that object may release the permit. Once nobody has it, the permit
  is no longer renewed.
* A permit that Java took for ever has the score 922337203685477 and is never taken back.

Source: RPermitExpirableSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlock._core.locks.known_lock import not_held
from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD, Permit
from interlock._core.objects.leased_permits import LeasedPermits
from interlock._core.objects.semaphore import check_change, check_permits, delete
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.scripts.semaphore import semaphore_release, semaphore_undo
from interlock._core.upkeep.idempotency import once
from interlock.errors import ConfigError
from interlock.options import check_text

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock.errors import InterlockError

_ID = re.compile("[0-9a-f]{32}")


class LeasedSemaphore(LeasedPermits):
    """The operations of one leased semaphore for one client; the arguments are `Semaphore`'s."""

    def release_id(self, permit_id: str) -> Op[None]:
        """Give back the permit with *permit_id*, no matter who took it.

        Raises:
            NotHeldError: nobody holds it; nothing was changed.
            ConfigError: it is one of several that were acquired, and must be released, together.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip.

        Source:
            RPermitExpirableSemaphore.release.
        """
        known = self._known(permit_id)
        if known is not None:
            yield from known.release()
            return
        call = self.release_ids(permit_id)
        if not (yield from self.session.persist(call)) and not call.unknown:
            raise self._not_held(f"permit {permit_id}")

    def extend_id(self, permit_id: str, lease: float) -> Op[None]:
        """Extend the permit *permit_id* to at least *lease* seconds from now, whoever took it.

        Raises:
            InterlockError: as for `release_id`.

        Cost:
            One round trip.

        Source:
            RPermitExpirableSemaphore.updateLeaseTime, which may also shorten it.
        """
        known = self._known(permit_id)
        if known is not None:
            yield from known.extend(lease)
            return
        self.check_lease(lease)
        [held] = yield from self.session.persist(
            self.renewal([self.key], lease, [permit_id], deadline=NEVER)
        )
        if not held:
            raise self._not_held(f"permit {permit_id}")

    def try_set_permits(self, permits: int) -> Op[bool]:
        """Create the semaphore unless it exists, as `Semaphore.try_set_permits` does.

        Permits that are held count, although their number is missing.
        """
        made = yield from self._try_set(permits)
        _ = yield from self._extend()
        return made

    def set_permits(self, permits: int) -> Op[None]:
        """Set the number of all permits, free and held, to *permits*.

        While more than that are held, the number of free permits is below 0.

        Cost:
            One round trip.

        Source:
            RPermitExpirableSemaphore.setPermits.
        """
        session = self.session
        permits = check_permits(permits, 0)
        call = scripts.leased_semaphore_set(self.key, permits, session.publish, self.channel)
        _ = yield from session.persist(once(session, self.key, call))
        self._leave_alone()
        _ = yield from self._extend()

    def add_permits(self, permits: int) -> Step[bool]:
        """Add *permits*, or take them away, as `Semaphore.add_permits` does.

        Source:
            RPermitExpirableSemaphore.addPermits.
        """
        permits, session, requests = check_change(permits), self.session, self.requests

        def add(request: IdempotentCall) -> Eval[bool]:
            return requests.script(request, scripts.leased_semaphore_add, (permits,))

        def undo(request: IdempotentCall) -> Eval[bool]:
            return semaphore_undo(self.key, request, session.publish, self.channel)

        def take_back(again: IdempotentCall) -> Eval[int]:
            # The plain semaphore's script, which does not create a missing semaphore.
            return requests.script(again, semaphore_release, (-permits, 0, 0))

        return requests.undone(requests.begin(), add, undo, take_back)

    def delete(self) -> Op[bool]:
        """Remove the semaphore and all its permits; return whether there was one; one round trip.

        Source:
            RPermitExpirableSemaphore.delete.
        """
        return delete(self.requests, self.key, names.permit_leases(self.key))

    def counts(self) -> Op[tuple[int, int]]:
        """Return how many permits are free and how many are held; one round trip."""
        session = self.session
        call = scripts.leased_semaphore_query(self.key, session.publish, self.channel)
        return (yield from session.persist(call))

    def check_own(self, name: str) -> None:
        """Raise NotHeldError unless *name*, the semaphore of a permit, is the name of this one."""
        if name != self.name:
            raise self._not_held(f"a permit of {name!r}")

    def _not_held(self, what: str) -> InterlockError:
        return not_held(self.kind, self.name, what)

    def _known(self, permit_id: object) -> Permit | None:
        """Return this client's permit with *permit_id*; None if it has no such permit."""
        permit_id = check_text(permit_id, "a permit's id")
        if not _ID.fullmatch(permit_id):
            raise self._not_held(f"permit {permit_id!r}")
        for hold in self.session.holds.of_key(self.key):
            if isinstance(hold, Permit) and permit_id in hold.ids and hold.state is HELD:
                if len(hold.ids) > 1:
                    raise ConfigError(
                        f"{permit_id} is one of {len(hold.ids)} permits "
                        "that were acquired together; give the permit itself, for all of them"
                    )
                return hold
        return None
