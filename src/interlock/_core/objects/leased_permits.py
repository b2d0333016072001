"""How permits with leases are taken and given back: the first try, and the wait after it.

Begin with `TakingLeased`, the operation. `LeasedPermits` has its parts; `LeasedSemaphore` adds all
else that users may ask of a semaphore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from interlock._core.locks.lock_base import (
    Release,
    end_late_grants,
    require_replicas,
    undo_acquire,
)
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval, Opened, undoing
from interlock._core.model.form import note_form
from interlock._core.model.holds import PENDING, Permit, State
from interlock._core.objects.limits import is_unset
from interlock._core.objects.permit_queue import PermitQueue
from interlock._core.objects.semaphore import check_permits, out_of_time, try_set_permits
from interlock._core.queue.waiters import SHARED
from interlock._core.queue.waiting import may_overtake, wait_in_queue
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.scripts.script import Grant
from interlock._core.upkeep.idempotency import IdempotentCalls, new_id
from interlock._core.upkeep.session import GRACE
from interlock.errors import ClosedError, ConfigError, InterlockError
from interlock.options import check_lease, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op, Step
    from interlock._core.model.form import Forms
    from interlock._core.model.holds import Hold, Owner, Renewal
    from interlock._core.objects.limits import Limits
    from interlock._core.queue.places import Place
    from interlock._core.upkeep.session import Session

R = TypeVar("R")

MAX_TOGETHER = 10_000
"""Permits in one acquire, at most; each has an id."""


class Request(NamedTuple):
    """One acquire of permits.

    Attributes:
        owner: stands for the object that the user is given, and lives as long as that.
        permits: how many.
        deadline: on the session's clock; if it has passed, there is one try.
        lease: seconds, or None for permits that the watchdog renews.
    """

    owner: Owner
    permits: int
    deadline: float
    lease: float | None


class TakingLeased(Opened["R | None"]):
    """An acquire of *permit*, as `LeasedPermits.acquire` describes it.

    With a *timeout*, it raises AcquireTimeoutError in place of returning None.
    """

    __slots__ = (
        *("_deadline", "_first", "_made", "_outcome", "_permit", "_permits", "_semaphore"),
        *("_sent_at", "_timeout", "result"),
    )

    def __init__(
        self,
        semaphore: LeasedPermits,
        permit: Permit,
        request: Request,
        made: Callable[[Permit], R],
        timeout: float | None = None,
    ) -> None:
        self._semaphore = semaphore
        self._permit = permit
        self._permits, self._deadline = request.permits, request.deadline
        self._made = made
        self._timeout = timeout
        self._sent_at = 0.0
        self._first: Eval[Grant | float] | None = None
        self._outcome: Grant | float | None = None
        self.result: R | None = None
        self.begun = self.goes_on = False

    def begin(self) -> Eval[Grant | float] | None:
        """Enter the permit into the table; return the first try, if there may be one.

        There is none if others wait here, or if the number must be set before.
        """
        permit, semaphore = self._permit, self._semaphore
        session = semaphore.session
        self.begun = True
        session.holds.begin(permit)
        clock = session.clock
        self._sent_at = clock()
        waiters = session.waiters
        if (waiters.queues or waiters.places) and semaphore.queue.busy(self._permits):
            return None
        if semaphore.unset:
            return None
        permit.sent()
        call = self._first = semaphore.acquire_script(permit, self._deadline)
        return call

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether the permit is held now."""
        semaphore = self._semaphore
        if semaphore.accept(self._permit, self._sent_at, answer):
            self.result = self._made(self._permit)
            if semaphore.session.waiters.places:
                semaphore.queue.tell_waiter(self._permits)
            return True
        self._outcome = answer
        return False

    def go_on(self, failure: InterlockError | None) -> Op[R | None]:
        """Ask again, or wait."""
        made = self._made
        # The traceback of a failure refers to this step. It must not keep the owner alive.
        del self._made
        outcome = self._outcome if failure is None else failure
        op = self._go_on(outcome)
        del failure, outcome
        if (yield from op):
            return made(self._permit)
        if self._timeout is not None:
            semaphore = self._semaphore
            raise out_of_time(semaphore.kind, semaphore.name, self._permits, self._timeout)
        return None

    def settled(self) -> bool:
        """Return whether no permit is held, and none can be."""
        return self._permit.settled()

    def undo(self, failure: BaseException) -> Op[object]:
        """Give back what was taken, and give up an unused place."""
        return self._undo(failure)

    def abandon(self) -> None:
        """Remove the permit from the table if it is still PENDING."""
        if self._permit.state is PENDING:
            self._semaphore.session.holds.end(self._permit)

    def _go_on(self, outcome: Grant | float | InterlockError | None) -> Op[bool]:
        """Acquire after a first try with this *outcome*; return whether the permit is held."""
        permit = self._permit
        try:
            taken = yield from undoing(self._wait(outcome), self._undo)
            if not taken:
                yield from undo_acquire(self._semaphore.session, permit, None, None)
            return taken
        finally:
            # A signal may come between two steps, but a PENDING permit must not stay in the table.
            self.abandon()

    def _undo(self, error: BaseException) -> Op[None]:
        session = self._semaphore.session
        prompt_until = session.clock() + GRACE / 2
        yield from undo_acquire(session, self._permit, None, error)
        silent = session.clock() >= prompt_until
        yield from self._semaphore.queue.leave(self._permits, error, later=silent)

    def _wait(self, outcome: Grant | float | InterlockError | None) -> Op[bool]:
        semaphore, deadline = self._semaphore, self._deadline
        session, queue = semaphore.session, semaphore.queue
        part = queue.part(self._permits)
        if self._first is not None and outcome is not None:
            if (yield from self._after_first(self._first, outcome)):
                return True
        elif may_overtake(session, part, deadline) and (
            (yield from self._try(waits=session.clock() < deadline)) is None
        ):
            queue.tell_waiter(self._permits)
            return True
        if session.clock() < deadline:
            queue.make_place(self._permits)
        taken = yield from wait_in_queue(session, part, deadline, SHARED, self._try)
        yield from queue.leave(self._permits, later=taken)
        return taken

    def _after_first(
        self, first: Eval[Grant | float], outcome: Grant | float | InterlockError
    ) -> Op[bool]:
        """Take the *outcome* of the *first* try, or make it again; return whether it is held."""
        permit = self._permit
        if isinstance(outcome, InterlockError):
            permit.failed(outcome)
            outcome = yield from self._semaphore.session.again(first, outcome, permit)
            if self._semaphore.accept(permit, self._sent_at, outcome):
                return True
        remaining = yield from self._refused(outcome)
        waits = self._semaphore.session.clock() < self._deadline
        return (yield from self._look_for_loss(remaining, waits=waits)) is None

    def _try(self, *, waits: bool = True) -> Op[float | None]:
        """Ask as `_ask` does, with the number set before, and again if it was missing."""
        if self._semaphore.unset:
            _ = yield from self._semaphore.set_up(self._deadline)
        remaining = yield from self._ask(waits=waits)
        return (yield from self._look_for_loss(remaining, waits=waits))

    def _look_for_loss(self, remaining: float | None, *, waits: bool) -> Op[float | None]:
        """Ask again if the number was missing and is set now; *remaining* as `_ask` returns it."""
        if remaining is None:
            return None
        wanted, deadline = self._permits, self._deadline
        if not (yield from self._semaphore.restore(remaining, wanted, deadline)):
            return remaining
        return (yield from self._ask(waits=waits))

    def _ask(self, *, waits: bool) -> Op[float | None]:
        """Ask the server once; return the seconds until the next look, None if it is held.

        A single try does not stand in the queue. A last try at the deadline does, because it ends
        the claim that the client may have been given.
        """
        semaphore, permit = self._semaphore, self._permit
        session = semaphore.session
        place = semaphore.queue.place(self._permits) if waits else None
        sent_at = session.clock()
        if place is None:
            call = semaphore.acquire_script(permit, self._deadline)
        else:
            call = semaphore.standing_script(permit, self._permits, self._deadline, place)
        answer = yield from session.persist(call, permit)
        if semaphore.accept(permit, sent_at, answer):
            if place is not None and call.queued:
                place.taken = place.others_wait
            return None
        remaining = yield from self._refused(answer)
        if place is not None:
            place.remaining = remaining
        return remaining

    def _refused(self, answer: Grant | float) -> Op[float]:
        """Return the seconds until the next look after *answer*, which did not make it held.

        A grant that cannot be used is given back.
        """
        semaphore, permit = self._semaphore, self._permit
        if not isinstance(answer, Grant):
            return answer
        if permit.state is State.ENDED:
            permit.refuse_grant()
            raise ClosedError("the client was closed, and what it was just acquiring given back")
        # The answer took longer than the lease: somebody else may have the permits by now.
        call = semaphore.release_script(permit, 0)
        _ = yield from semaphore.session.persist(call)
        if call.unknown:
            # A copy of that release may still be under way. It must not hit the next grant, so that
            # one gets new ids.
            yield from end_late_grants(semaphore.session, permit)
            permit.identify(semaphore.new_ids(len(permit.ids)))
        permit.released()
        return 0.0


class LeasedPermits:
    """The permits of one leased semaphore for one client; the arguments are `Semaphore`'s."""

    kind = "leased semaphore"
    renewal: Renewal = staticmethod(scripts.leased_semaphore_renew)

    def __init__(
        self,
        session: Session,
        name: str,
        permits: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._permits = None if permits is None else check_permits(permits)
        self._limits = limits
        self.name = check_name(name)
        self.key = session.key(self.name)
        self.hold_key: object = self.key
        self.channel = names.semaphore_channel(self.key)
        self.session = session
        self.queue = PermitQueue(
            *(session, self.key, self.channel, "leased:", scripts.leased_semaphore_leave)
        )
        self._requests = IdempotentCalls(session, self.key)
        self._acquires: Forms[Grant | float] = {}
        self._releases: Forms[bool] = {}

    @property
    def unset(self) -> bool:
        """Return whether `set_up` comes before the next call; no round trip."""
        return is_unset(self._limits, self.key, self._permits)

    def set_up(self, deadline: float = NEVER) -> Op[bool]:
        """Set the number that the code names, unless there is one; tell if that is another one.

        Return whether it was set.

        Cost:
            One round trip, and another one to set it.
        """
        permits, limits = self._permits, self._limits
        assert permits is not None
        assert limits is not None
        found = yield from self._total(deadline)
        made = found == 0 and (
            yield from try_set_permits(
                self.session, self._requests, self.key, self.channel, permits, deadline
            )
        )
        if found == 0 and not made:  # another client was faster, or somebody has set 0
            found = yield from self._total(deadline)
        if not made and found != permits and not limits.known(self.key, permits):
            limits.differs(self.name, found, permits)
        limits.note(self.key, permits)
        return made

    def _total(self, deadline: float) -> Op[int]:
        """Return how many permits there are, free and held; one round trip."""
        query = scripts.leased_semaphore_query(
            self.key, self.session.publish, self.channel, deadline=deadline
        )
        return sum((yield from self.session.persist(query)))

    def acquire(self, request: Request, made: Callable[[Permit], R]) -> Step[R | None]:
        """Take permits together, waiting until the deadline of *request*.

        Args:
            request: what is wanted.
            made: turns the permit into the object that the user is given.

        Returns:
            The object that *made* returns for all of them, or None if the deadline came first.

        Raises:
            InterlockError: as for `Semaphore.acquire`; no permit stays taken.

        Cost:
            One round trip if enough permits are free.

        Source:
            RPermitExpirableSemaphore.acquire and tryAcquire.
        """
        return TakingLeased(self, self._permit(request), request, made)

    def acquire_or_raise(
        self, request: Request, timeout: float, made: Callable[[Permit], R]
    ) -> Step[R]:
        """Acquire as `acquire` does, or raise.

        Raises:
            AcquireTimeoutError: the deadline came first.
        """
        # With *timeout* it never returns None.
        step: Any = TakingLeased(self, self._permit(request), request, made, timeout)
        return step  # type: ignore[no-any-return]

    def _permit(self, request: Request) -> Permit:
        """Create the permit for *request*. It is not in the table yet."""
        if check_permits(request.permits) > MAX_TOGETHER:
            raise ConfigError(f"at most {MAX_TOGETHER} permits can be acquired together")
        lease = request.lease
        wanted = self.session.options.lease if lease is None else check_lease(lease)
        renewal = self.renewal if lease is None else None
        return Permit(self, request.owner, self.new_ids(request.permits), wanted, renewal)

    def release_hold(self, hold: Hold) -> Release:
        """Give *hold* back, no matter who asks."""
        return Release().of(self.session, hold)

    def last_release(self, hold: Hold) -> Eval[int]:
        """Return the script that gives *hold* back."""
        return self._release_script(hold.holder)

    def release_script(self, hold: Hold, depth: int) -> Eval[bool]:
        """Return the script that gives *hold* back; *depth* is not used."""
        del depth
        return self._release_script(hold.holder)

    def new_ids(self, permits: int) -> tuple[str, ...]:
        """Return an id for each of *permits*; nobody else has them."""
        if permits == 1:
            return (new_id(self.session),)  # a generator costs three times as much
        return tuple(new_id(self.session) for _ in range(permits))

    def release_ids(self, ids: str) -> Eval[bool]:
        """Return the script that gives the permits *ids* back, no matter who took them."""
        return self._release_script(ids)

    def _release_script(self, ids: str) -> Eval[bool]:
        publish = self.session.publish
        common = publish, len(ids)
        form = self._releases.get(common)
        if form is not None:
            return form.anew((ids,))
        call = scripts.leased_semaphore_release(self.key, ids, publish, self.channel)
        note_form(self._releases, common, call, (ids,))
        return call

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
        others_wait, keep = self.queue.stand(permits, place)
        scripts.stand_in_queue(call, place.client, others_wait=others_wait, keep=keep)
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
        if self._limits is None:
            return False
        if self._permits is not None:
            self._limits.compare(self.kind, self.name, self.key, wanted, self._permits)
        if remaining < NEVER:  # otherwise nobody holds a permit: no end of a lease is named
            return False
        if self._permits is not None:
            return (yield from self.set_up(deadline))
        if (
            self.session.clock() < deadline
            and self._limits.first_wait(self.key)
            and not (yield from self._total(deadline))
        ):
            self._limits.missing(self.kind, self.name)
        return False

    def accept(self, permit: Permit, sent_at: float, answer: Grant | float) -> bool:
        """Take *answer* to the try sent at *sent_at*; return whether *permit* is held now."""
        if type(answer) is not Grant:  # `isinstance` is a call
            permit.uncount_try()
            return False
        session = self.session
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        if not permit.grant(None, sent_at, clock()):
            return False
        session.watchdog.watch(permit)
        if session.holds.observer is not None:
            session.holds.observer.acquired(permit, sent_at)
        return True
