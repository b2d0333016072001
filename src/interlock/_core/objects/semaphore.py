"""The counting semaphore.

RSemaphore of Redisson. Its only state is a string, the number of free permits.

Theory. Nobody owns a permit: anyone may release. If a process is killed, its permits are gone until
somebody puts them back. A call takes or gives its permits exactly once, even if replies are lost;
see `interlock._core.upkeep.idempotency`. More cannot be promised. If permits must come back by
themselves, use a `LeasedSemaphore`.

Waiters of a client that want equally many permits stand in one queue. Only its front asks the
server. For each such queue the client has a place in a queue on the server. A release wakes the
first clients there, as long as permits are free. Each woken client has a claim to its permits for
250 ms. The claim binds only clients in that queue. A client that wants more permits than are free
is passed over. In each 10 s by the server's clock, permits are kept for one such client for 2 s. So
they delay the others by 2 s at a time, no matter how many they are.

If the user's code names the number of permits, each client sets it before its first call, unless
the semaphore exists. A refusal may mean that the server has lost the semaphore. So the client looks
for that, and sets the number again. Without a number, the first wait of a client looks whether
the semaphore exists, and warns.

A release does not create a semaphore whose number is named, or that the client has taken permits
of: the server has lost it. To create it from the permits that come back would set a wrong number.
So the client says that it is gone. The next acquire sets the number that the code names.

The server's number does not tell how many permits are taken. So a second key has the sum of free
and taken ones, as our clients have set it. Only calls that set a number write it. Java neither
reads nor writes it. If Java has set the number, the sum is not known, and cannot be set.

When our clients make a number, a new epoch begins, which stands beside the sum. An acquire is told
the epoch. A release names the epoch of the oldest permits that the client has taken and not given
back. If it is over, the number was lost and made anew since. Then they do not count: else the
number would be too high for good. What the client gives beyond that counts always.

An interrupted drain or add is undone by its note, which has the epoch. If another thread's call has
removed the note just then, the opposite call names no epoch. So the number is wrong if, in the same
moment, the server loses it and a client makes it anew.

Rejected: always keeping permits for the first client. One request for too many would stop all.

Begin with `Taking`, the acquire. `Semaphore` has its parts, and all else that users may ask.

Source: RSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from interlock._core.model import names
from interlock._core.model.effects import NEVER, Opened
from interlock._core.model.replication import Replication
from interlock._core.objects.numbered import Numbered
from interlock._core.objects.permit_queue import PermitQueue
from interlock._core.queue.waiting import may_try_first
from interlock._core.scripts import semaphore as scripts
from interlock._core.scripts.script import stand_in_queue
from interlock.errors import AcquireTimeoutError, ConfigError
from interlock.options import check_number

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.objects.lifetime import Kept
    from interlock._core.objects.limits import Limits
    from interlock._core.queue.places import Place
    from interlock._core.upkeep.idempotency import CarriedThrough, IdempotentCall, IdempotentCalls
    from interlock._core.upkeep.session import Session
    from interlock.errors import InterlockError

OVERTOOK = 2
"""The reply to an acquire that took permits without a place, while others stood in the queue.

Four times the epoch is added to each reply.
"""
MAX_PERMITS = 2**31 - 1
"""The largest number that Java can read: it uses an int."""


def check_permits(permits: object, least: int = 1) -> int:
    """Return *permits* if it is a number of permits.

    Raises:
        TypeError: unless it is an int.
        ConfigError: unless it is *least* to `MAX_PERMITS`.
    """
    if type(permits) is int and least <= permits <= MAX_PERMITS:
        return permits  # at once: most calls end here
    return check_number(permits, "permits", least, MAX_PERMITS)


def check_change(permits: object) -> int:
    """Return *permits* if they can be added; a negative number takes permits away.

    Raises:
        TypeError: unless it is an int.
        ConfigError: if it is 0 or too large.
    """
    change = check_permits(permits, -MAX_PERMITS)
    if change == 0:
        raise ConfigError("adding 0 permits changes nothing; give a number above or below 0")
    return change


class Taking(Opened["bool"]):
    """An acquire of *permits* of *semaphore*, as `Semaphore.acquire` describes it.

    With a *timeout*, it raises AcquireTimeoutError in place of returning False.
    """

    __slots__ = (
        "call", "deadline", "epoch", "permits", "request", "result", "semaphore", "timeout"
    )  # fmt: skip
    semaphore: Semaphore
    permits: int
    epoch: int
    deadline: float
    timeout: float | None
    request: IdempotentCall
    call: Eval[int] | None

    def begin(self) -> Eval[int] | None:
        """Return the first try, if there may be one.

        There is none if others wait here, or if the number must be set before.
        """
        semaphore, permits = self.semaphore, self.permits
        waiters = semaphore.session.waiters
        request = semaphore.requests.begin(self.deadline)
        if ((waiters.queues or waiters.places) and semaphore.queue.busy(permits)) or (
            semaphore.named is not None and semaphore.unset
        ):
            call = None
        else:
            call = semaphore.acquire_script(request, permits, self.deadline)
        request.unanswered = call is not None
        self.request, self.call = request, call
        self.begun = True
        return call

    def done(self, answer: int) -> bool:
        """Take the server's answer; return whether the permits were taken."""
        semaphore, request, call = self.semaphore, self.request, self.call
        assert call is not None
        request.take(answer, unanswered=call.unknown > 0)
        if not answer:
            return False
        self._read(answer)
        if semaphore.session.waiters.places:
            semaphore.queue.tell_waiter(self.permits)
        semaphore.end(request, self.permits, self.epoch)
        self.result = True
        return True

    def _read(self, answer: int) -> None:
        """Note what *answer* tells of the permits that were taken."""
        self.epoch = answer >> 2
        if answer & OVERTOOK and self.semaphore.session.clock() < self.deadline:
            # From its next acquire on, the client stands in the queue, too.
            self.semaphore.queue.make_place(self.permits, waits=False)

    def go_on(self, failure: InterlockError | None) -> Op[bool]:
        """Ask again, or wait."""
        semaphore, request = self.semaphore, self.request
        taken = yield from self._wait(failure)
        if taken:
            semaphore.end(request, self.permits, self.epoch)
        elif request.unanswered:
            session = semaphore.session
            until = session.clock() + session.options.outage_timeout
            yield from session.clean_up(semaphore.undo_script(request), until, later=True)
            request.unanswered = False  # the background undoes it now
        if not taken:
            self.begun = False  # nothing is left to undo
            if self.timeout is not None:
                raise out_of_time(semaphore.kind, semaphore.name, self.permits, self.timeout)
        return taken

    @property
    def looked_at(self) -> PermitQueue:
        """Return what to look at if what is given back goes to another client."""
        return self.semaphore.queue

    def at_close(self) -> Eval[int] | None:
        """Return the script that gives back what was taken for a block, which is still open."""
        return self.semaphore.release(self.permits, self.epoch).begin()

    def settled(self) -> bool:
        """Return whether no permit is taken, and none can be."""
        return self.request.settled()

    def undo(self, failure: BaseException) -> Op[None]:
        """Give back what was taken, and give up an unused place."""
        semaphore, permits = self.semaphore, self.permits
        retracting = semaphore.requests.retract(
            self.request,
            semaphore.undo_script,
            lambda again: semaphore.release_script(again, permits, 0, self.epoch),
            failure,
        )
        silent = not (yield from semaphore.session.promptly(retracting))
        yield from semaphore.queue.leave(permits, failure, later=silent)

    def _wait(self, failure: InterlockError | None) -> Op[bool]:
        semaphore, permits, deadline = self.semaphore, self.permits, self.deadline
        session, queue, first = semaphore.session, semaphore.queue, self.call
        if first is not None or may_try_first(session, queue.part(permits), deadline):
            waits = session.clock() < deadline
            remaining = yield from self._try(waits=waits, first=first, failure=failure)
            if remaining is None:
                queue.tell_waiter(permits)
                return True
        return (yield from queue.wait(permits, deadline, self._try))

    def _try(
        self,
        *,
        waits: bool = True,
        first: Eval[int] | None = None,
        failure: InterlockError | None = None,
    ) -> Op[float | None]:
        """Ask as `_ask` does, with the number set before, and again if it was missing.

        If a *first* try was made, it was refused or ended with *failure*.
        """
        semaphore, deadline = self.semaphore, self.deadline
        if first is None:
            if semaphore.unset:
                _ = yield from semaphore.set_up(deadline)
            remaining = yield from self._ask(waits=waits)
        elif failure is None:
            remaining = NEVER
        else:
            taken = yield from semaphore.requests.send(self.request, first, failure)
            self._read(taken)
            remaining = None if taken else NEVER
        if remaining is None:
            return None
        if (yield from semaphore.restore(self.permits, deadline)):
            return (yield from self._ask(waits=waits))
        return remaining

    def _ask(self, *, waits: bool) -> Op[float | None]:
        """Ask the server once; None if it took the permits, else the seconds until the next try.

        A single try does not stand in the queue. A last try at the deadline does, because it ends
        the claim that the client may have been woken for.
        """
        semaphore, request, permits = self.semaphore, self.request, self.permits
        place = semaphore.queue.place(permits) if waits else None
        if place is None:
            call = semaphore.acquire_script(request, permits, self.deadline)
        else:
            place.refused(NEVER)
            call = semaphore.standing_script(request, permits, self.deadline, place)
        taken = yield from semaphore.requests.send(request, call)
        if taken and place is not None:
            place.granted()
        self._read(taken)
        return None if taken else NEVER


class Semaphore(Numbered):
    """The operations of one semaphore for one client; the arguments are those of `Numbered`.

    Attributes:
        queue: those who wait for its permits.
    """

    kind = "semaphore"

    def __init__(
        self,
        session: Session,
        name: str,
        permits: int | None = None,
        limits: Limits | None = None,
        kept: Kept | None = None,
    ) -> None:
        permits = None if permits is None else check_permits(permits, 0)
        of = names.semaphore_total, names.semaphore_channel
        super().__init__(session, name, permits, limits, kept, *of)
        self.queue = PermitQueue(
            *(session, self.key, self.channel, self.kind, "", scripts.semaphore_leave)
        )
        self.requests.looked_at = self.queue

    def prepared(self, step: CarriedThrough) -> CarriedThrough:
        """Return *step*, a release, which sets the number first if need be; not if it has ended."""
        # Without a number it is never unset: save a call.
        if self.named is not None and self.unset:
            step.first = self.set_up(ended=False)
        return step

    def _set_number(self, deadline: float) -> Op[bool]:
        permits, limits = self.named, self._limits
        assert permits is not None
        free, found = yield from self._numbers(deadline)
        made = free is None and (yield from self._try_set(permits, deadline))
        if free is None and not made:  # another client was faster
            free, found = yield from self._numbers(deadline)
        if not made and free is not None and not limits.known(self.key, permits):
            # If Java has set the number, at least those exist that are free.
            total = free if found is None else max(found, free)
            if total > permits or (found is not None and total < permits):
                limits.differs(self.name, total, permits)
        limits.note(self.key, permits)
        return made

    def _numbers(self, deadline: float) -> Op[tuple[int | None, int | None]]:
        query = scripts.semaphore_total(self.key, deadline=deadline)
        query.patient = True  # a full round trip, as for the try that follows
        return (yield from self.session.persist(query))

    def acquire(self, permits: int, deadline: float, timeout: float | None = None) -> Taking:
        """Take *permits* together, waiting until *deadline*; return whether they were taken.

        Args:
            permits: how many.
            deadline: on the session's clock; if it has passed, there is one try.
            timeout: what AcquireTimeoutError tells that was allowed; None to return False instead.

        Raises:
            AcquireTimeoutError: *deadline* came first, and *timeout* is given.
            ServerUnavailableError: the server gave no usable answer in time; nothing stays taken.
            WrongTypeError: the key holds another kind of object.
            ReplicationError: too few replicas know of it, and they are required; nothing stays
                taken.

        Cost:
            One round trip if enough permits are free, and two after a wait. While waiting, one per
            poll cap for all waiters of this client that want equally many.

        Source:
            RSemaphore.acquire and tryAcquire.
        """
        # Made without `__init__`, as in `LockBase.acquire`.
        step = Taking()
        step.semaphore, step.permits, step.deadline = self, check_permits(permits), deadline
        step.begun = step.goes_on = step.result = False
        step.call, step.timeout, step.epoch = None, timeout, 0
        return step

    def end(self, request: IdempotentCall, permits: int, epoch: int) -> None:
        """Note that *request* got its *permits* in *epoch*."""
        self._limits.note_taken(self.key, permits, epoch)
        self.requests.end(request)  # last: an interruption after it undoes nothing

    def restore(self, wanted: int, deadline: float) -> Op[bool]:
        """Set the number of permits if it was missing; return whether it was set.

        Without a number, tell that it is missing; tell also if there are not as many as *wanted*.
        """
        limits = self._limits
        if self.named is not None:
            limits.compare(self.kind, self.name, self.key, wanted, self.named)
            query = scripts.semaphore_query(self.key, deadline=deadline)
            missing = (yield from self.session.persist(query)) is None
            return missing and (yield from self.set_up(deadline, lost=True))
        if self.session.clock() < deadline and limits.first_wait(self.key):
            free, found = yield from self._numbers(deadline)
            if free is None:
                limits.missing(self.kind, self.name)
            elif found is not None:
                limits.compare(self.kind, self.name, self.key, wanted, found)
        return False

    def release(self, permits: int, epoch: int | None = None) -> CarriedThrough:
        """Add *permits* to the free ones, whether or not the caller has acquired them.

        An interrupted release is still completed.

        Args:
            permits: how many.
            epoch: in which they were taken, 0 if that is not known; None if they are the oldest
                ones that this client has.

        Raises:
            ServerUnavailableError: no reply in time; the background goes on sending the
                release for a while.
            WrongTypeError: the key holds another kind of object.

        Cost:
            One round trip.

        Source:
            RSemaphore.release.
        """
        permits, lost = check_permits(permits), self._limits.was_there(self.key)
        return self._release(permits, create=0 if self.named or lost else 1, epoch=epoch)

    def leave_to(self, step: CarriedThrough) -> None:
        """Note that *step* gives back what a block took that nothing leaves.

        If the client closes before *step* has an answer, it sends the same call, which counts once.
        """
        _ = step.begin()
        self.session.open_blocks[step] = 1

    def tell_gone(self, permits: int) -> None:
        """Tell that *permits* came back to a semaphore that the server does not have."""
        self._limits.gone(self.name, permits)

    def release_if_exists(self, permits: int) -> CarriedThrough:
        """Release as `release` does, if the semaphore exists; return whether it does.

        Source:
            RSemaphore.releaseIfExists.
        """
        return self._release(check_permits(permits), create=0)

    def add_permits(self, permits: int) -> Step[bool]:
        """Add *permits* for good, or take them away when negative.

        The number of free ones may fall below 0.

        Raises:
            ServerUnavailableError: no reply in time; if it was executed, the background undoes it.
            WrongTypeError: the key holds another kind of object.

        Cost:
            One round trip.

        Source:
            RSemaphore.addPermits.
        """
        permits = check_change(permits)
        return self.requests.undone(
            self.requests.begin(),
            lambda request: self._add_script(request, permits, create=1),
            partial(self.undo_script, added=True),
            lambda again: self._add_script(again, -permits, create=0),
        )

    def set_permits(self, permits: int) -> Op[None]:
        """Set the number of all permits, free and taken, to *permits*.

        While more than that are taken, the number of free ones is below 0.

        Raises:
            ConfigError: the semaphore exists, and it is not known how many permits it has.

        Cost:
            One round trip.
        """
        permits = check_permits(permits, 0)
        if not (yield from self.requests.ask(scripts.semaphore_set, permits)):
            raise ConfigError(
                f"semaphore {self.name!r} was set up by another program, so nobody knows how many "
                "of its permits are taken: use add_permits(difference), or delete() it first"
            )
        self._leave_alone()
        _ = yield from self._extend()

    def drain_permits(self) -> Step[int]:
        """Take all permits that are free.

        Return how many. If the number of free ones is below 0, it is set to 0, and the negative
        number is returned.

        Raises:
            ServerUnavailableError: no reply in time; the background gives back what was taken.
            WrongTypeError: the key holds another kind of object.
            ReplicationError: as for `acquire`.

        Cost:
            One round trip.

        Source:
            RSemaphore.drainPermits.
        """
        request = self.requests.begin()
        return self.requests.undone(
            request,
            self._drain_script,
            self.undo_script,
            lambda again: self.release_script(again, cast("int", request.answer), 0, 0),
        )

    def try_set_permits(self, permits: int) -> Op[bool]:
        """Create the semaphore with *permits* unless it exists; return whether it was created.

        Cost:
            One round trip.

        Source:
            RSemaphore.trySetPermits.
        """
        made = yield from self._try_set(permits)
        _ = yield from self._extend()
        return made

    def _try_set(self, permits: int, deadline: float = NEVER) -> Op[bool]:
        return self.requests.ask(scripts.semaphore_try_set, check_permits(permits, 0), deadline)

    def delete(self) -> Op[bool]:
        """Remove the semaphore; return whether there was one; one round trip.

        Source:
            RSemaphore.delete.
        """
        self._limits.note_over(self.key)
        return delete(self.requests, self.key)

    def available_permits(self) -> Op[int]:
        """Return how many permits are free; one round trip."""
        return (yield from self.session.persist(scripts.semaphore_query(self.key))) or 0

    def acquire_script(self, request: IdempotentCall, permits: int, deadline: float) -> Eval[int]:
        """Return the script that takes *permits*, without a place in the queue."""
        call = self.requests.script(request, scripts.semaphore_acquire, (permits,), deadline)
        call.patient = True
        if self.session.replicas is not None:
            self._confirm(call)
        return call

    def _confirm(self, call: Eval[bool] | Eval[int]) -> None:
        """Ask replicas to confirm the permits that *call* takes."""
        if self.session.replicas is not None:
            what = f"{self.kind} {self.name!r}"
            call.replication = Replication(self.session.replicas, what, bool, NEVER)

    def _release(self, permits: int, create: int, epoch: int | None = None) -> CarriedThrough:
        if epoch is not None:
            self._limits.give_back_of(self.key, permits, epoch)
        else:
            epoch, earlier = self._limits.give_back(self.key, permits)
            if earlier:
                self.tell_gone(earlier)
                permits -= earlier
        return self.requests.carried_through(self.release_script, permits, create, epoch)

    def release_script(
        self, request: IdempotentCall, permits: int, create: int, epoch: int
    ) -> Eval[int]:
        """Return the script that gives back *permits*; those of another *epoch* do not count."""
        return self.requests.script(request, scripts.semaphore_release, (permits, create, epoch))

    def _drain_script(self, request: IdempotentCall) -> Eval[int]:
        call = scripts.semaphore_drain(self.key, request)
        self._confirm(call)
        return call

    def _add_script(self, request: IdempotentCall, permits: int, create: int) -> Eval[bool]:
        return self.requests.script(request, scripts.semaphore_add, (permits, create))

    def undo_script(self, request: IdempotentCall, *, added: bool = False) -> Eval[bool]:
        told = self.session.publish, self.channel
        return scripts.semaphore_undo(self.key, request, *told, total=True, added=added)

    def standing_script(
        self, request: IdempotentCall, permits: int, deadline: float, place: Place
    ) -> Eval[int]:
        """Return the script that takes *permits*, or makes the client stand at its *place*."""
        call = self.requests.made(request, scripts.semaphore_acquire, (permits,), deadline)
        call.patient = True
        others_wait, keep, _ = self.queue.stand(permits, place)
        stand_in_queue(call, place.client, self.channel, others_wait=others_wait, keep=keep)
        self._confirm(call)
        return call


def delete(requests: IdempotentCalls, key: str, leases: str = "") -> Op[bool]:
    """Remove the semaphore *key* of either kind; *leases* is the second key of a leased one."""
    request = requests.begin()
    return (yield from requests.answer_to(request, scripts.semaphore_delete(key, request, leases)))


def out_of_time(kind: str, name: str, permits: int, timeout: float) -> AcquireTimeoutError:
    """Return the error for permits that did not become free in time."""
    what = "a permit" if permits == 1 else f"{permits} permits together"
    return AcquireTimeoutError(
        f"{kind} {name!r} did not have {what} to give in {timeout:g} s", name=name, timeout=timeout
    )
