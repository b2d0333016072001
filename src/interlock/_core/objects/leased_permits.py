"""How permits with leases are taken and given back: the first try, and the wait after it.

Begin with `TakingLeased`, the operation. `LeasedPermits` has its parts; `LeasedSemaphore` adds all
else that users may ask of a semaphore.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from interlock._core.locks.lock_base import (
    Holdable,
    end_late_grants,
    require_replicas,
    undo_acquire,
)
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval, Opened
from interlock._core.model.form import note_form
from interlock._core.model.holds import ENDED, Owner, Permit
from interlock._core.objects.numbered import Numbered
from interlock._core.objects.permit_queue import PermitQueue
from interlock._core.objects.semaphore import check_permits, out_of_time
from interlock._core.queue.waiting import may_try_first
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.scripts.script import Grant, stand_in_queue
from interlock._core.upkeep.idempotency import new_id, numbers
from interlock.errors import ClosedError, ConfigError, InterlockError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op, Step
    from interlock._core.model.form import Forms
    from interlock._core.model.holds import Hold, Renewal
    from interlock._core.objects.lifetime import Kept
    from interlock._core.objects.limits import Limits
    from interlock._core.queue.places import Place
    from interlock._core.upkeep.session import Session

R = TypeVar("R")
OwnerT = TypeVar("OwnerT", bound=Owner)


@functools.cache
def _renewal_for(idle: float) -> Renewal:
    """Return what renews permits, and keeps their semaphores for *idle* seconds."""
    return functools.partial(scripts.leased_semaphore_renew, idle=idle)


MAX_TOGETHER = 10_000
"""Permits in one acquire, at most; each has an id."""


class TakingLeased(Opened["R | None"], Generic[OwnerT, R]):
    """An acquire of *permit*, as `LeasedPermits.acquire` describes it.

    With a *timeout*, it raises AcquireTimeoutError in place of returning None.
    """

    __slots__ = (
        *("deadline", "first", "made", "outcome", "owner", "permit", "permits", "result"),
        *("semaphore", "sent_at", "timeout"),
    )
    semaphore: LeasedPermits
    owner: OwnerT
    permit: Permit
    permits: int
    deadline: float
    made: Callable[[Permit, OwnerT], R]
    timeout: float | None
    sent_at: float
    first: Eval[Grant | float] | None
    outcome: Grant | float | None

    def begin(self) -> Eval[Grant | float] | None:
        """Enter the permit into the table; return the first try, if there may be one.

        There is none if others wait here, or if the number must be set before.
        """
        permit, semaphore = self.permit, self.semaphore
        session = semaphore.session
        self.begun = True
        waiters, clock = session.waiters, session.clock
        self.sent_at = clock()
        if ((waiters.queues or waiters.places) and semaphore.queue.busy(self.permits)) or (
            semaphore.named is not None and semaphore.unset
        ):
            session.holds.begin(permit)
            return None
        session.holds.try_first(permit)
        call = self.first = semaphore.acquire_script(permit, self.deadline)
        return call

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether the permit is held now."""
        semaphore, permit = self.semaphore, self.permit
        if semaphore.accept(permit, self.sent_at, answer):
            made = self.made  # bound first: Python 3.11 is slow to call what is no method
            self.result = made(permit, self.owner)
            if semaphore.session.waiters.places:
                semaphore.queue.tell_waiter(self.permits)
            return True
        self.outcome = answer
        return False

    def go_on(self, failure: InterlockError | None) -> Op[R | None]:
        """Ask again, or wait."""
        owner = self.owner
        # The traceback of a failure refers to this step. It must not keep the owner alive.
        del self.owner
        outcome = self.outcome if failure is None else failure
        op = self._wait(outcome)
        del failure, outcome
        try:
            if (yield from op):
                return self.made(self.permit, owner)
            yield from undo_acquire(self.semaphore.session, self.permit)
        except GeneratorExit:
            self.abandon()
            raise
        self.begun = False  # nothing is left to undo
        if self.timeout is not None:
            semaphore = self.semaphore
            raise out_of_time(semaphore.kind, semaphore.name, self.permits, self.timeout)
        return None

    def settled(self) -> bool:
        """Return whether no permit is held, and none can be."""
        return self.permit.settled()

    def abandon(self) -> None:
        """Remove the permit from the table if it is still PENDING."""
        self.semaphore.session.holds.unreserve(self.permit)

    def undo(self, failure: BaseException) -> Op[None]:
        """Give back what was taken, and give up an unused place."""
        permit, session = self.permit, self.semaphore.session
        silent = not (yield from session.promptly(undo_acquire(session, permit, failure)))
        yield from self.semaphore.queue.leave(self.permits, failure, later=silent, permit=permit)

    def _wait(self, outcome: Grant | float | InterlockError | None) -> Op[bool]:
        semaphore, deadline = self.semaphore, self.deadline
        session, queue = semaphore.session, semaphore.queue
        if self.first is not None and outcome is not None:
            if (yield from self._after_first(self.first, outcome)):
                return True
        elif may_try_first(session, queue.part(self.permits), deadline) and (
            (yield from self._try(waits=session.clock() < deadline)) is None
        ):
            queue.tell_waiter(self.permits)
            return True
        return (yield from queue.wait(self.permits, deadline, self._try, self.permit))

    def _after_first(
        self, first: Eval[Grant | float], outcome: Grant | float | InterlockError
    ) -> Op[bool]:
        """Take the *outcome* of the *first* try, or make it again; return whether it is held."""
        permit = self.permit
        if isinstance(outcome, InterlockError):
            permit.failed(outcome)
            outcome = yield from self.semaphore.session.again(first, outcome, permit)
            if self.semaphore.accept(permit, self.sent_at, outcome):
                return True
        remaining = yield from self._refused(outcome)
        waits = self.semaphore.session.clock() < self.deadline
        return (yield from self._look_for_loss(remaining, waits=waits)) is None

    def _try(self, *, waits: bool = True) -> Op[float | None]:
        """Ask as `_ask` does, with the number set before, and again if it was missing."""
        if self.semaphore.unset:
            _ = yield from self.semaphore.set_up(self.deadline)
        remaining = yield from self._ask(waits=waits)
        return (yield from self._look_for_loss(remaining, waits=waits))

    def _look_for_loss(self, remaining: float | None, *, waits: bool) -> Op[float | None]:
        """Ask again if the number was missing and is set now; *remaining* as `_ask` returns it."""
        if remaining is None:
            return None
        wanted, deadline = self.permits, self.deadline
        if not (yield from self.semaphore.restore(remaining, wanted, deadline)):
            return remaining
        return (yield from self._ask(waits=waits))

    def _ask(self, *, waits: bool) -> Op[float | None]:
        """Ask the server once; return the seconds until the next look, None if it is held.

        A single try does not stand in the queue. A last try at the deadline does, because it ends
        the claim that the client may have been given.
        """
        semaphore, permit = self.semaphore, self.permit
        session = semaphore.session
        place = semaphore.queue.place(self.permits) if waits else None
        sent_at = session.clock()
        if place is None:
            call = semaphore.acquire_script(permit, self.deadline)
        else:
            call = semaphore.standing_script(permit, self.permits, self.deadline, place)
        answer = yield from session.persist(call, permit)
        if semaphore.accept(permit, sent_at, answer):
            if place is not None:
                place.granted()
            return None
        remaining = yield from self._refused(answer)
        if place is not None:
            place.refused(remaining)
        return remaining

    def _refused(self, answer: Grant | float) -> Op[float]:
        """Return the seconds until the next look after *answer*, which did not make it held.

        A grant that cannot be used is given back.
        """
        semaphore, permit = self.semaphore, self.permit
        if not isinstance(answer, Grant):
            return answer
        if permit.state is ENDED:
            permit.refuse_grant()
            raise ClosedError("the client was closed, and what it was just acquiring given back")
        # The answer took longer than the lease: somebody else may have the permits by now.
        semaphore.session.note_short_lease(semaphore.kind, semaphore.name, permit.lease)
        call = semaphore.release_script(permit, 0)
        _ = yield from semaphore.session.persist(call)
        if call.unknown:
            # A copy of that release may still be under way. It must not hit the next grant, so that
            # one gets new ids.
            yield from end_late_grants(semaphore.session, permit)
            permit.rename(semaphore.new_ids(len(permit.ids)))
        permit.released()
        return 0.0


class LeasedPermits(Numbered, Holdable):
    """The permits of one leased semaphore for one client; the arguments are those of `Numbered`."""

    kind = "leased semaphore"
    renewal: Renewal = staticmethod(scripts.leased_semaphore_renew)

    def __init__(
        self,
        session: Session,
        name: str,
        permits: int | None = None,
        limits: Limits | None = None,
        kept: Kept | None = None,
    ) -> None:
        permits = None if permits is None else check_permits(permits)
        of = names.permit_leases, names.semaphore_channel
        super().__init__(session, name, permits, limits, kept, *of)
        self.hold_key: object = self.key
        self.queue = PermitQueue(
            *(session, self.key, self.channel, self.kind, "leased:", scripts.leased_semaphore_leave)
        )
        self.looked_at = self.queue
        if kept is not None:
            self.check_lease(session.options.lease)
            self.renewal = _renewal_for(kept.seconds)
        self._renewal = self.renewal  # Python 3.11 looks up an attribute of the class anew
        self._acquires: Forms[Grant | float] = {}
        self._releases: Forms[int] = {}

    def check_lease(self, lease: float) -> None:
        """Raise ConfigError if a permit of *lease* seconds outlasts the semaphore."""
        if self._lifetime is not None and self._lifetime.seconds < lease:
            raise ConfigError(
                f"{self.kind} {self.name!r} is removed after {self._lifetime.seconds:g} s, and a "
                f"lease of {lease:g} s is longer: give a longer idle="
            )

    def extend_hold(self, hold: Hold, lease: float) -> Step[None]:
        """Extend permits as `Holdable.extend_hold` does, unless they would outlast the semaphore.

        Source:
            RPermitExpirableSemaphore.updateLeaseTime.
        """
        self.check_lease(lease)
        return super().extend_hold(hold, lease)

    def _set_number(self, deadline: float) -> Op[bool]:
        permits, limits = self.named, self._limits
        assert permits is not None
        found = yield from self._total(deadline)
        made = found == 0 and (yield from self._try_set(permits, deadline))
        if found == 0 and not made:  # another client was faster, or somebody has set 0
            found = yield from self._total(deadline)
        if not made and found != permits and not limits.known(self.key, permits):
            limits.differs(self.name, found, permits)
        limits.note(self.key, permits)
        return made

    def _try_set(self, permits: int, deadline: float = NEVER) -> Op[bool]:
        permits = check_permits(permits, 0)
        return self.requests.ask(scripts.leased_semaphore_try_set, permits, deadline)

    def _total(self, deadline: float) -> Op[int]:
        """Return how many permits there are, free and held; one round trip."""
        query = scripts.leased_semaphore_query(
            self.key, self.session.publish, self.channel, deadline=deadline
        )
        query.patient = True  # a full round trip, as for the try that follows
        return sum((yield from self.session.persist(query)))

    @overload
    def acquire(
        self,
        owner: OwnerT,
        permits: int,
        deadline: float,
        lease: float | None,
        made: Callable[[Permit, OwnerT], R],
    ) -> Step[R | None]: ...
    @overload
    def acquire(
        self,
        owner: OwnerT,
        permits: int,
        deadline: float,
        lease: float | None,
        made: Callable[[Permit, OwnerT], R],
        timeout: float,
    ) -> Step[R]: ...
    def acquire(
        self,
        owner: OwnerT,
        permits: int,
        deadline: float,
        lease: float | None,
        made: Callable[[Permit, OwnerT], R],
        timeout: float | None = None,
    ) -> Step[Any]:
        """Take *permits* together, waiting until *deadline*.

        Args:
            owner: stands for the object that the user is given, and lives as long as that.
            permits: how many.
            deadline: on the session's clock; if it has passed, there is one try.
            lease: seconds, or None for permits that the watchdog renews.
            made: turns the permit and its *owner* into the object that the user is given.
            timeout: what AcquireTimeoutError tells that was allowed; None to return None instead.

        Returns:
            The object that *made* returns for all of them, or None if the deadline came first.

        Raises:
            InterlockError: as for `Semaphore.acquire`; no permit stays taken.
            AcquireTimeoutError: the deadline came first.

        Cost:
            One round trip if enough permits are free.

        Source:
            RPermitExpirableSemaphore.acquire and tryAcquire.
        """
        session = self.session
        if type(permits) is int and permits == 1:
            holder = (session.id_prefix or session.draw_prefix()) + str(next(numbers))  # `new_id`
        elif check_permits(permits) > MAX_TOGETHER:
            raise ConfigError(f"at most {MAX_TOGETHER} permits can be acquired together")
        else:
            holder = self.new_ids(permits)
        if lease is None:
            permit = Permit(self, owner, holder, session.options.lease, self._renewal)
        else:
            if self._lifetime is not None:
                self.check_lease(lease)
            permit = Permit(self, owner, holder, check_lease(lease))
        # Made without `__init__`: a call of that costs as much as the object.
        step: TakingLeased[OwnerT, R] = TakingLeased()
        step.semaphore, step.owner, step.permit = self, owner, permit
        step.permits, step.deadline, step.made = permits, deadline, made
        step.timeout = timeout
        step.first = step.outcome = None
        step.begun = step.goes_on = False
        return step

    def kept_release(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that gives *hold* back. It is shared: do not change it."""
        del depth
        ids, publish = hold.holder, self.session.publish
        common = publish, len(ids)
        form = self._releases.get(common)
        if form is not None:
            return form.anew((ids,))
        call = self.release_ids(ids)
        note_form(self._releases, common, call, (ids,))
        return call

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that gives *hold* back; *depth* is not used."""
        del depth
        return self.release_ids(hold.holder)

    def new_ids(self, permits: int) -> str:
        """Return ids for *permits*, one after the other; nobody else has them."""
        return "".join([new_id(self.session) for _ in range(permits)])

    def release_ids(self, ids: str) -> Eval[int]:
        """Return the script that gives the permits *ids* back, no matter who took them."""
        return scripts.leased_semaphore_release(self.key, ids, self.session.publish, self.channel)

    def acquire_script(self, permit: Permit, deadline: float) -> Eval[Grant | float]:
        """Return the script that takes *permit*, without a place in the queue."""
        session, lease, ids = self.session, permit.lease, permit.holder
        publish = session.publish
        common = publish, lease, len(ids)
        form = self._acquires.get(common)
        if form is not None:
            call = form.anew((ids,), deadline)
        else:
            call = scripts.leased_semaphore_acquire(
                self.key, lease, ids, publish, self.channel, deadline=deadline
            )
            call.patient = True
            note_form(self._acquires, common, call, (ids,))
        if session.replicas is not None:
            require_replicas(call, permit, session.replicas)
        return call

    def standing_script(
        self, permit: Permit, permits: int, deadline: float, place: Place
    ) -> Eval[Grant | float]:
        """Return the script that takes *permit*, or makes the client stand at its *place*."""
        session = self.session
        call = scripts.leased_semaphore_acquire(
            self.key, permit.lease, permit.holder, session.publish, self.channel, deadline=deadline
        )
        call.patient = True
        others_wait, keep, starts = self.queue.stand(permits, place, permit)
        if starts:
            permit.stand()
        stand_in_queue(call, place.client, others_wait=others_wait, keep=keep, starts=starts)
        if session.replicas is not None:
            require_replicas(call, permit, session.replicas)
        return call

    def restore(self, remaining: float, wanted: int, deadline: float) -> Op[bool]:
        """Set the number of permits if it was missing; return whether it was set.

        Without a number, tell that it is missing; tell also if there are not as many as *wanted*.

        Args:
            remaining: what the refused acquire was told.
            wanted: how many permits it was for.
            deadline: as for a try.
        """
        if self.named is not None:
            self._limits.compare(self.kind, self.name, self.key, wanted, self.named)
        if remaining < NEVER:  # otherwise nobody holds a permit: no end of a lease is named
            return False
        if self.named is not None:
            made = yield from self._set_number(deadline)
            _ = yield from self._extend(deadline)
            return made
        if (
            self.session.clock() < deadline
            and self._limits.first_wait(self.key)
            and not (yield from self._total(deadline))
        ):
            self._limits.missing(self.kind, self.name)
        return False
