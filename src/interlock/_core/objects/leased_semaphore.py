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
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from interlock._core.locks.known_lock import not_held
from interlock._core.locks.lock_base import (
    Release,
    end_late_grants,
    require_replicas,
    undo_acquire,
)
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval, Opened, undoing
from interlock._core.model.form import note_form
from interlock._core.model.holds import State
from interlock._core.objects.permit import Permit, update_lease
from interlock._core.objects.semaphore import (
    check_change,
    check_permits,
    delete,
    out_of_time,
    try_set_permits,
)
from interlock._core.queue.waiters import line_of, section
from interlock._core.queue.waiting import wait_for, wait_in_queue
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.scripts.script import Grant
from interlock._core.scripts.semaphore import semaphore_release, semaphore_undo
from interlock._core.upkeep.idempotency import IdempotentCalls, new_id, once
from interlock.errors import ClosedError, ConfigError, InterlockError
from interlock.options import check_lease, check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op, Step
    from interlock._core.model.form import Forms
    from interlock._core.model.holds import Hold, Owner, Renewal
    from interlock._core.objects.limits import Limits
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock._core.upkeep.session import Session

R = TypeVar("R")

MAX_TOGETHER = 10_000
"""Permits in one acquire, at most; each has an id."""
_ID = re.compile("[0-9a-f]{32}")


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


class LeasedSemaphore:
    """The operations of one leased semaphore for one client; the arguments are `Semaphore`'s."""

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
        self._line = section(line_of(self.channel, self.key), "")
        self._requests = IdempotentCalls(session, self.key)
        self._acquires: Forms[Grant | float] = {}
        self._releases: Forms[bool] = {}

    @property
    def unset(self) -> bool:
        """Return whether `set_up` comes before the next call; no round trip."""
        permits, limits = self._permits, self._limits
        return permits is not None and limits is not None and not limits.known(self.key, permits)

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
        return _Taking(self, self._permit(request), request, made)

    def acquire_or_raise(
        self, request: Request, timeout: float, made: Callable[[Permit], R]
    ) -> Step[R]:
        """Acquire as `acquire` does, or raise.

        Raises:
            AcquireTimeoutError: the deadline came first.
        """
        step = _Taking(self, self._permit(request), request, made, timeout)
        return cast("Step[R]", step)  # with *timeout* it never returns None

    def _permit(self, request: Request) -> Permit:
        """Create the permit for *request*. It is not in the table yet."""
        if check_permits(request.permits) > MAX_TOGETHER:
            raise ConfigError(f"at most {MAX_TOGETHER} permits can be acquired together")
        lease = request.lease
        wanted = self.session.options.lease if lease is None else check_lease(lease)
        renewal = self.renewal if lease is None else None
        return Permit(self, request.owner, self._new_ids(request.permits), wanted, renewal)

    def begin(self, permit: Permit, request: Request) -> Eval[Grant | float] | None:
        """Return the first try for *permit*, unless others wait here.

        There is no first try either if the number must be set before.
        """
        if self._channel(request.permits) in self.session.waiters.queues or self.unset:
            return None
        permit.sent()
        return self._acquire_script(permit, request.deadline)

    def _channel(self, permits: int) -> str:
        """Return the local queue of those who want *permits*.

        It is apart from that for a plain semaphore, whose waiters stand in a queue on the server.
        """
        return f"{self._line}{permits} leased"

    def go_on(
        self,
        permit: Permit,
        request: Request,
        sent_at: float,
        first: Eval[Grant | float] | None,
        outcome: Grant | float | InterlockError | None,
    ) -> Op[bool]:
        """Acquire *permit*, after a *first* try that was sent at *sent_at* and had this *outcome*.

        Return whether it is held.
        """
        session = self.session
        try:
            taken = yield from undoing(
                self._wait(permit, request, sent_at, first, outcome),
                undo_acquire,
                session,
                permit,
                None,
            )
            if not taken:
                yield from undo_acquire(session, permit, None, None)
            return taken
        finally:
            # A signal may come between two steps, but a PENDING permit must not stay in the table.
            if permit.state is State.PENDING:
                session.holds.end(permit)

    def release_hold(self, hold: Hold) -> Release:
        """Give *hold* back, no matter who asks."""
        return Release().of(self.session, hold)

    def last_release(self, hold: Hold) -> Eval[int]:
        """Return the script that gives *hold* back."""
        return self.release_script(hold, 0)

    def release_script(self, hold: Hold, depth: int) -> Eval[bool]:
        """Return the script that gives *hold* back; *depth* is not used."""
        del depth
        return self._release_script(hold.holder)

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
        call = self._release_script(permit_id)
        if not (yield from self.session.persist(call)) and not call.unknown:
            raise self._not_held(f"permit {permit_id}")

    def update_lease_of_id(self, permit_id: str, lease: float | None) -> Op[None]:
        """Set the end of the permit *permit_id* to *lease* seconds from now, no matter who took it.

        Raises:
            InterlockError: as for `release_id`.

        Cost:
            One round trip.

        Source:
            RPermitExpirableSemaphore.updateLeaseTime.
        """
        known = self._known(permit_id)
        if known is not None:
            yield from update_lease(self.session, known, lease)
            return
        if lease is None:
            raise ConfigError("a lease is wanted: only a permit of this client can be renewed")
        call = scripts.leased_semaphore_update(self.key, check_lease(lease), permit_id)
        if not (yield from self.session.persist(once(self.session, self.key, call))):
            raise self._not_held(f"permit {permit_id}")

    def try_set_permits(self, permits: int) -> Op[bool]:
        """Create the semaphore unless it exists, as `Semaphore.try_set_permits` does."""
        made = try_set_permits(self.session, self._requests, self.key, self.channel, permits)
        return (yield from made)

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
        if self._permits is not None and self._limits is not None:
            self._limits.note(self.key, self._permits)  # another number is meant from now on

    def add_permits(self, permits: int) -> Step[bool]:
        """Add *permits*, or take them away, as `Semaphore.add_permits` does.

        Source:
            RPermitExpirableSemaphore.addPermits.
        """
        permits, session, requests = check_change(permits), self.session, self._requests

        def add(request: IdempotentCall) -> Eval[bool]:
            return requests.script(request, scripts.leased_semaphore_add, (permits,), self.channel)

        def undo(request: IdempotentCall) -> Eval[bool]:
            return semaphore_undo(self.key, request.key, request.ttl, session.publish, self.channel)

        return requests.undone(
            requests.begin(),
            add,
            undo,
            lambda again: self._take_back_script(again, permits),
        )

    def delete(self) -> Op[bool]:
        """Remove the semaphore and all its permits; return whether there was one; one round trip.

        Source:
            RPermitExpirableSemaphore.delete.
        """
        leases = names.permit_leases(self.key)
        return (yield from delete(self._requests, self.key, leases))

    def counts(self) -> Op[tuple[int, int]]:
        """Return how many permits are free and how many are held; one round trip."""
        session = self.session
        call = scripts.leased_semaphore_query(self.key, session.publish, self.channel)
        return (yield from session.persist(call))

    def check_own(self, name: str) -> None:
        """Raise NotHeldError unless *name*, the semaphore of a permit, is the name of this one."""
        if name != self.name:
            raise self._not_held(f"a permit of {name!r}")

    def _take_back_script(self, request: IdempotentCall, permits: int) -> Eval[bool]:
        # The plain semaphore's script, which does not create a missing semaphore.
        return self._requests.script(request, semaphore_release, (-permits, 0), self.channel)

    def _new_ids(self, permits: int) -> tuple[str, ...]:
        if permits == 1:
            return (new_id(self.session),)  # a generator costs three times as much
        return tuple(new_id(self.session) for _ in range(permits))

    def _not_held(self, what: str) -> InterlockError:
        return not_held(self.kind, self.name, what)

    def _known(self, permit_id: object) -> Permit | None:
        """Return this client's permit with *permit_id*; None if it has no such permit."""
        permit_id = check_text(permit_id, "a permit's id")
        if not _ID.fullmatch(permit_id):
            raise self._not_held(f"permit {permit_id!r}")
        for hold in self.session.holds.of_key(self.key):
            if isinstance(hold, Permit) and permit_id in hold.ids and hold.state is State.HELD:
                if len(hold.ids) > 1:
                    raise ConfigError(
                        f"{permit_id} is one of {len(hold.ids)} permits "
                        "that were acquired together; give the permit itself, for all of them"
                    )
                return hold
        return None

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

    def _acquire_script(self, permit: Permit, deadline: float) -> Eval[Grant | float]:
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

    def _try(self, permit: Permit, deadline: float) -> Op[float | None]:
        """Ask as `_ask` does, with the number set before, and again if it was missing."""
        if self.unset:
            _ = yield from self.set_up(deadline)
        remaining = yield from self._ask(permit, deadline)
        return (yield from self._look_for_loss(permit, deadline, remaining))

    def _look_for_loss(
        self, permit: Permit, deadline: float, remaining: float | None
    ) -> Op[float | None]:
        """Set the number of permits if it was missing, and ask again.

        *remaining* is what `_ask` returned.

        Without a number, tell that it is missing.
        """
        if remaining is None or self._limits is None:
            return remaining
        if self._permits is not None:
            self._limits.compare(self.kind, self.name, self.key, len(permit.ids), self._permits)
        if remaining < NEVER:  # otherwise nobody holds a permit: no end of a lease is named
            return remaining
        if self._permits is not None:
            if (yield from self.set_up(deadline)):
                return (yield from self._ask(permit, deadline))
        elif (
            self.session.clock() < deadline
            and self._limits.first_wait(self.key)
            and not (yield from self._total(deadline))
        ):
            self._limits.missing(self.kind, self.name)
        return remaining

    def _ask(self, permit: Permit, deadline: float) -> Op[float | None]:
        """Ask the server once; return the seconds until the next look, None if *permit* is held."""
        session = self.session
        sent_at = session.clock()
        call = self._acquire_script(permit, deadline)
        answer = yield from session.persist(call, permit)
        if self.accept(permit, sent_at, answer):
            return None
        return (yield from self._refused(permit, answer))

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

    def _wait(
        self,
        permit: Permit,
        request: Request,
        sent_at: float,
        first: Eval[Grant | float] | None,
        outcome: Grant | float | InterlockError | None,
    ) -> Op[bool]:
        session, deadline = self.session, request.deadline
        channel = self._channel(request.permits)
        if first is None or outcome is None:
            return (
                yield from wait_for(session, channel, deadline, None, self._try, permit, deadline)
            )
        if isinstance(outcome, InterlockError):
            permit.failed(outcome)
            outcome = yield from session.again(first, outcome, permit)
            if self.accept(permit, sent_at, outcome):
                return True
        remaining = yield from self._refused(permit, outcome)
        if (yield from self._look_for_loss(permit, deadline, remaining)) is None:
            return True
        return (
            yield from wait_in_queue(session, channel, deadline, None, self._try, permit, deadline)
        )

    def _refused(self, permit: Permit, answer: Grant | float) -> Op[float]:
        """Return the seconds until the next look after *answer*, which did not make *permit* held.

        A grant that cannot be used is given back.
        """
        session = self.session
        if not isinstance(answer, Grant):
            return answer
        if permit.state is State.ENDED:
            permit.refuse_grant()
            raise ClosedError("the client was closed, and what it was just acquiring given back")
        # The answer took longer than the lease: somebody else may have the permits by now.
        call = self.release_script(permit, 0)
        _ = yield from session.persist(call)
        if call.unknown:
            # A copy of that release may still be under way. It must not hit the next grant, so that
            # one gets new ids.
            yield from end_late_grants(session, permit)
            permit.identify(self._new_ids(len(permit.ids)))
        permit.released()
        return 0.0


class _Taking(Opened["R | None"]):
    """An acquire of *permit*, as `LeasedSemaphore.acquire` describes it.

    With a *timeout*, it raises AcquireTimeoutError in place of returning None.
    """

    __slots__ = (
        "_first", "_made", "_outcome", "_permit", "_request", "_semaphore", "_sent_at", "_timeout",
        "result",
    )  # fmt: skip

    def __init__(
        self,
        semaphore: LeasedSemaphore,
        permit: Permit,
        request: Request,
        made: Callable[[Permit], R],
        timeout: float | None = None,
    ) -> None:
        self._semaphore = semaphore
        self._permit = permit
        self._request = request
        self._made = made
        self._timeout = timeout
        self._sent_at = 0.0
        self._first: Eval[Grant | float] | None = None
        self._outcome: Grant | float | None = None
        self.result: R | None = None
        self.begun = self.goes_on = False

    def begin(self) -> Eval[Grant | float] | None:
        """Enter the permit into the table; return the first try, if there may be one."""
        permit, semaphore = self._permit, self._semaphore
        session = semaphore.session
        self.begun = True
        session.holds.begin(permit)
        clock = session.clock
        self._sent_at = clock()
        call = self._first = semaphore.begin(permit, self._request)
        return call

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether the permit is held now."""
        if self._semaphore.accept(self._permit, self._sent_at, answer):
            self.result = self._made(self._permit)
            return True
        self._outcome = answer
        return False

    def go_on(self, failure: InterlockError | None) -> Op[R | None]:
        """Ask again, or wait."""
        semaphore, permit, request, made = self._semaphore, self._permit, self._request, self._made
        # The traceback of a failure refers to this step. It must not keep the owner alive.
        del self._request, self._made
        outcome = self._outcome if failure is None else failure
        op = semaphore.go_on(permit, request, self._sent_at, self._first, outcome)
        del failure, outcome
        if (yield from op):
            return made(permit)
        if self._timeout is not None:
            raise out_of_time(semaphore.kind, semaphore.name, request.permits, self._timeout)
        return None

    def settled(self) -> bool:
        """Return whether no permit is held, and none can be."""
        return self._permit.settled()

    def undo(self, failure: BaseException) -> Op[object]:
        """Give back what was taken."""
        return undo_acquire(self._semaphore.session, self._permit, None, failure)

    def abandon(self) -> None:
        """Remove the permit from the table if it is still PENDING."""
        if self._permit.state is State.PENDING:
            self._semaphore.session.holds.end(self._permit)
