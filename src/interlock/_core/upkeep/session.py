"""What the operations of one client share."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Protocol

from interlock._core.insight.observing import Observing
from interlock._core.model.effects import NEVER, Cleanup, Eval, R, Wait, undoing
from interlock._core.model.holds import ENDED, ENDING, HELD, Holds, numbers
from interlock._core.model.names import check_one_slot, shares_channels
from interlock._core.queue.grant_looks import GrantLooks
from interlock._core.queue.waiter import Wish
from interlock._core.upkeep.watchdog import Watchdog
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Op
    from interlock._core.model.holds import CoreLock, Hold, Owner
    from interlock._core.queue.waiters import Waiters
    from interlock.errors import LossReason
    from interlock.options import Options

FIRST_RETRY_PAUSE = 0.02
LONGEST_RETRY_PAUSE = 0.5
"""Seconds between attempts to reach a server that does not answer: at first, and at most."""
GRACE = 0.15
"""Seconds for one round trip if the caller's time is already up."""
PROMPT = GRACE / 2
"""Seconds after which a server counts as silent, for what its caller does not depend on."""
DEAF_POLL = 0.1
"""Seconds between two looks at a lock while there are no messages."""
_ONCE = ("", 0, "")
"""Placeholder for an owner that has acquired only once."""


class OpenBlock(Protocol):
    """What a block has taken that no hold stands for."""

    @property
    def looked_at(self) -> object:
        """Return what to look at if the script tells another client that it is next, or None."""
        ...

    def at_close(self) -> Eval[int] | None:
        """Return the script that gives it back."""
        ...


class Session:
    """The state of one client, as its operations see it.

    Attributes:
        clock: monotonic seconds, which go on while the machine is suspended; never the wall clock.
        client_id: the first half of every holder id.
        parents: those of the processes that forked this one.
        id_prefix: 20 hex digits, with which the ids of its calls begin; empty before the first.
        where: the server's address, which identifies it.
        database: identifies the server's database.
        home: returns the driver of this client while that lives, and does not keep it alive.
        epoch: returns a number that grows each time another server takes over; that server may
            lack the last writes.
        took_over: returns how many seconds ago another server has taken over a key, as far as this
            client has seen that.
        publish: the command that announces releases, PUBLISH or SPUBLISH, or empty for none;
            decided before the first operation (`announce_by`).
        has_queues: whether waiting clients stand in a queue on the server. The server must be able
            to count the subscribers of a channel. Without messages it cannot. With plain channels
            in a cluster it cannot either: each node knows only its own subscribers.
        replicas: the policy for replicas; None if they are not asked.
        clustered: whether all keys of an object must be in one hash slot.
        counts_failovers: whether *epoch* grows with each failover.
        call_user: calls a listener of a loss, and reports what it raises.
        events: what observers are told.
        open_blocks: what blocks have taken of semaphores whose permits nobody owns, and how many.
        released_on_close: the locks and blocks of the scripts that `releases_on_close` returned.
    """

    # An instance has at most 29 attributes: with more, Python 3.11 looks up each one slowly.
    released_on_close: Sequence[CoreLock | OpenBlock] = ()
    _releases_on_close: list[Eval[int]] | None = None
    _ending: frozenset[Hold] = frozenset()

    def __init__(
        self,
        *,
        options: Options,
        client_id: str,
        clock: Callable[[], float],
        random: Callable[[], float],
        waiters: Waiters,
        wake: Callable[[], None],
        call_user: Callable[[Callable[[], object]], None],
        where: str = "",
        database: str = "",
        home: Callable[[], object] = lambda: None,
        epoch: Callable[[], int] = lambda: 0,
        took_over: Callable[[str], float] = lambda _key: NEVER,
        clustered: bool = False,
        counts_failovers: bool = False,
        log: Callable[[str, str, str], None] | None = None,
        caller: Callable[[], Owner] | None = None,
    ) -> None:
        self.where = where
        self.database = database or where
        self.home = home
        self.epoch = epoch
        self.took_over = took_over
        self.options = options
        self.client_id = client_id
        self.parents: tuple[str, ...] = ()
        self.clock, self.random = clock, random
        self.id_prefix = ""
        self.waiters = waiters
        policy = options.replicas
        self.replicas = None if policy == "off" or policy.mode == "off" else policy
        self.clustered = clustered
        self.announce_by("PUBLISH")
        self.counts_failovers = counts_failovers
        self._log, self._noted = log, set[str]()
        waiters.tell_refusal = self._note_refusal
        self.call_user = call_user
        self.holds = Holds()
        self.events = Observing(self.holds, clock, options.slow_acquire, options.slow_hold)
        self.events.client_id, self.events.server = client_id, where
        self._caller = caller
        self.open_blocks: dict[OpenBlock, int] = {}
        self._given_back: dict[OpenBlock, Eval[int]] = {}
        self.looks = GrantLooks(wake)
        self.watchdog = Watchdog(
            self.holds,
            lease=options.lease,
            batch=options.renew_batch,
            wake=wake,
            lose=self.begin_loss,
            # In a cluster each key is renewed by a script of its own: a key whose slot is just
            # moving must not hold up others.
            apart=(lambda key: key) if clustered else (lambda _: None),
        )

    def draw_prefix(self) -> str:
        """Return a prefix for ids that no other client has, and keep it."""
        seed = f"{self.client_id} {self.random()} {self.clock()}"
        prefix = hashlib.blake2b(seed.encode(), digest_size=10).hexdigest()
        self.id_prefix = prefix
        return prefix

    def announce_by(self, publish: str) -> None:
        """Announce releases by the command *publish*; empty: by none."""
        self.publish = publish
        self.has_queues = publish == "SPUBLISH" if self.clustered else bool(publish)

    @property
    def may_pass_on(self) -> bool:
        """Return whether a lock may become that of a waiter which does not ask for it then.

        It may be a waiter of this client, by a local pass, or one of another client in the server's
        queue. The queue must give each client its turn. If replicas confirm grants, everybody asks.
        """
        return self.has_queues and self.replicas is None

    def queues_for(self, key: str) -> bool:
        """Return whether clients that wait for *key* stand in a queue on the server.

        Not if another name has the same queue: a release would give it to a client that waits for
        that name.
        """
        return self.has_queues and not shares_channels(key)

    def note(self, event: str, text: str) -> None:
        """Log what the server lacks, or what it is asked in vain, once for each *event*."""
        if event not in self._noted:
            self._noted.add(event)
            if self._log is not None:
                self._log(event, self.where, text)

    def note_short_lease(self, kind: str, name: str, lease: float) -> None:
        """Log that the answer to an acquire came after the *lease* that it granted."""
        self.note(
            "lease.too_short",
            f"the answer to an acquire of {kind} {name!r} came after its lease of {lease:g} s: it "
            "is tried again. A lease must be longer than the way to the server and back",
        )

    def _note_refusal(self) -> None:
        """Log that this client stands in no queue."""
        self.note(
            "queue.refused",
            "the user may not subscribe to the channels of the waiting room; each release wakes it",
        )

    def wish(self, key: str) -> Wish:
        """Return what operators are told of the running thread or task, which begins to wait."""
        number = next(numbers)
        caller = None if self._caller is None else self._caller()
        owner, label = (number, "") if caller is None else (caller.identity, caller.label)
        return Wish(key, f"{self.client_id}:{number}", self.clock(), owner, label)

    def holder(self, owner: Owner) -> str:
        """Return the hash field for a new hold of *owner*."""
        known_as, number = owner.known_as, owner.number
        if known_as is not None and known_as[0] is self.client_id and known_as[1] == number:
            return known_as[2]
        holder = f"{self.client_id}:{number}"
        # Many owners acquire once, and may wait for long. Only an owner that comes again is worth
        # the memory.
        owner.known_as = _ONCE if known_as is None else (self.client_id, number, holder)
        return holder

    def key(self, name: str) -> str:
        """Return the Redis key that belongs to the user's *name*, which was checked.

        Raises:
            TypeError: `Options.name_mapper` returned no string.
            ConfigError: it returned a text that is no name, or the keys of the object would be in
                several hash slots of the cluster.
        """
        mapper = self.options.name_mapper
        key = name if mapper is None else check_name(mapper(name), "what name_mapper returns")
        if self.clustered:
            check_one_slot(key)
        return key

    def releases_on_close(self) -> Sequence[Eval[int]]:
        """Forget every hold of a client that closes.

        Return the scripts that release them. A second call returns the same scripts.
        """
        if self._releases_on_close is None:
            # A hold that has ended meanwhile is lost. Nobody need release it.
            _ = self.watchdog.end_overdue(self.clock())
            # A hold that is just being acquired may be granted although no reply was read.
            ending = [
                hold for hold in self.holds if hold.state in (HELD, ENDING) or hold.late_grants()
            ]
            releases = [hold.core.release_script(hold, 0) for hold in ending]
            given_back = self._give_back_on_close()
            self.released_on_close = [*(hold.core for hold in ending), *given_back]
            self._ending = frozenset(ending)
            self._releases_on_close = [*releases, *given_back.values()]
        for hold in self.holds:
            if self.holds.observer is not None and hold.state in (HELD, ENDING):
                self.holds.observer.released(hold)
            self.holds.end(hold)
            # Another thread may have begun it since the look above, with a claim.
            if hold.asked_by and hold.state is ENDED and hold not in self._ending:
                self._releases_on_close.append(hold.core.release_script(hold, 0))
                self.released_on_close = [*self.released_on_close, hold.core]
        return self._releases_on_close

    def _give_back_on_close(self) -> dict[OpenBlock, Eval[int]]:
        """Return the scripts that give back what open blocks have taken; their ends do nothing.

        A Ctrl-C may come anywhere. Then the next close goes on from there.
        """
        given_back = self._given_back
        for block in list(self.open_blocks):
            if block not in given_back and (call := block.at_close()) is not None:
                given_back[block] = call
            if not self.open_blocks.pop(block, 0):
                _ = given_back.pop(block, None)  # its end was faster
        return given_back

    def become(self, client_id: str, waiters: Waiters) -> None:
        """Become another client, which holds nothing, in a forked child."""
        self.parents = (*self.parents, self.client_id)
        self.client_id = self.events.client_id = client_id
        self.id_prefix = ""
        self.waiters = waiters
        waiters.tell_refusal = self._note_refusal
        self._releases_on_close, self.released_on_close = None, ()
        self._ending = frozenset()
        self.open_blocks.clear()
        self._given_back.clear()
        self.events.after_fork()
        self.watchdog.forget()
        self.looks.forget()
        self.holds.cleaning.clear()
        for hold in self.holds:
            self.holds.end(hold)

    def is_parents(self, holder: str | None) -> bool:
        """Return whether *holder* is one of the process that forked this one."""
        return holder is not None and holder.startswith(tuple(f"{each}:" for each in self.parents))

    def lose(self, hold: Hold, reason: LossReason) -> None:
        """Note that *hold* is lost, and tell its listeners and the observers."""
        self.begin_loss(hold, reason)()

    def begin_loss(self, hold: Hold, reason: LossReason) -> Callable[[], None]:
        """Note that *hold* is lost; return the function that tells of it, to be called once."""
        held = hold.state in (HELD, ENDING)
        listeners = hold.lose(reason)
        if held:
            hold.leave_open(self.events.failure_of(hold))

        def tell() -> None:
            if held:
                self.events.lost(hold, hold.reason or reason)
            for callback in listeners:
                self.call_user(callback)

        return tell

    def poll_interval(self) -> float:
        """Return how long to wait for a message before looking again.

        The times are spread, so that waiters do not all look at once.
        """
        cap = (
            self.options.poll_cap if self.waiters.hearing else min(self.options.poll_cap, DEAF_POLL)
        )
        return cap * (0.75 + self.random() / 4)

    def persist(self, call: Eval[R], hold: Hold | None = None) -> Op[R]:
        """Send *call* until a reply is read; sending it again must change nothing.

        It gives up at the call's deadline. Without a deadline it gives up after an outage of
        `Options.outage_timeout`.

        Args:
            call: the script.
            hold: the hold that *call* may acquire; it counts the tries. The caller must tell it the
                outcome (`Hold.grant`, `Hold.uncount_try`).

        Raises:
            ServerUnavailableError: the last error, if time is up or trying again is useless.
        """
        try:
            if hold is None:
                return call.script.decode((yield call))  # as `_send`, with one generator less
            return (yield from self._send(call, hold))
        except ServerUnavailableError as error:
            failure = error
        return (yield from self.again(call, failure, hold))

    @staticmethod
    def _send(call: Eval[R], hold: Hold | None) -> Op[R]:
        if hold is None:
            return call.script.decode((yield call))
        hold.sent()
        try:
            return call.script.decode((yield call))
        except InterlockError as error:
            hold.failed(error)
            raise

    def again(self, call: Eval[R], failure: BaseException, hold: Hold | None = None) -> Op[R]:
        """Go on as `persist` does, after the first try of *call* ended by *failure*."""
        pause, until = FIRST_RETRY_PAUSE, call.deadline
        if call.patient and until <= self.clock():
            until += GRACE  # a single try has time for a second one, if its connection is stale
        while True:
            if not isinstance(failure, ServerUnavailableError):
                raise failure
            call.unknown += failure.sent
            if call.unknown and not failure.sent:
                # Others may have got the same error object: change a copy.
                cause, failure = failure.__cause__, copy(failure)
                failure.__cause__, failure.sent = cause, True
            if until == NEVER:
                until = self.clock() + self.options.outage_timeout
            resume = self.clock() + pause * (0.5 + self.random())
            if not failure.transient or resume >= until:
                raise failure
            yield from Wait(None, resume)
            if self.clock() >= until:
                raise failure
            pause = min(pause * 2, LONGEST_RETRY_PAUSE)
            try:
                return (yield from self._send(call, hold))
            except ServerUnavailableError as error:
                failure = error

    def clean_up(
        self,
        call: Eval[R],
        until: float,
        late: int = 0,
        error: BaseException | None = None,
        *,
        later: bool = False,
    ) -> Op[None]:
        """Send *call* now if the server answers promptly, else in the background.

        If this is interrupted, the background sends it all the same.

        Args:
            call: the script.
            until: when *call* becomes useless.
            late: how many late grants it must find. It is repeated until it has found them, or
                until *until*.
            error: what makes it necessary. If the server did not answer, or the client is closed,
                the background sends it at once.
            later: whether the background does so in any case.
        """
        prompt = not (later or isinstance(error, ServerUnavailableError | ClosedError))
        call.deadline = self.clock() + GRACE if prompt else NEVER
        # If the background does not have it yet when an interruption comes, this is done again.
        return undoing(
            self._clean_up(call, until, late, prompt=prompt), self._leave, call, until, late
        )

    def _clean_up(self, call: Eval[R], until: float, late: int, *, prompt: bool) -> Op[None]:
        cleaning = self.holds.cleaning
        cleaning[id(call)] = call
        try:
            if prompt:
                with suppress(ServerUnavailableError, ClosedError):
                    late -= bool((yield from call))
                    if late <= 0:
                        return
            yield from self._leave(call, until, late)
        finally:
            _ = cleaning.pop(id(call), None)

    def promptly(self, cleaning: Op[None]) -> Op[bool]:
        """Perform *cleaning*; return whether that took so little that another call may follow."""
        until = self.clock() + PROMPT
        yield from cleaning
        return self.clock() < until

    @staticmethod
    def _leave(
        call: Eval[R], until: float, late: int, error: BaseException | None = None
    ) -> Op[None]:
        """Leave *call* to the background."""
        del error
        call.deadline = NEVER
        yield from Cleanup(call, until, late)
