"""The client: one server, one identity, and the factories of everything."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import closing
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeAlias, TypeVar, Unpack, overload

from interlock._core.locks import base as core_lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.locks.ticket import Ticket as GivenTicket
from interlock._core.model.hold import HELD
from interlock._core.objects import barrier as core_barrier
from interlock._core.objects import count_down_latch as core_latch
from interlock._core.objects import election as core_election
from interlock._core.objects import event as core_event
from interlock._core.objects import permits as core_permits
from interlock._core.objects import semaphore as core_semaphore
from interlock._core.objects.number import LeasedNumber, check_idle, check_permits
from interlock._drivers.aio import AsyncDriver
from interlock._drivers.known_hold import of_block
from interlock._drivers.members import condition_of
from interlock._drivers.process.identity import this_process
from interlock._drivers.unawaited import attempt
from interlock._hints import hints, told
from interlock._links.urls import open_url, servers_of
from interlock.asyncio.barrier import Barrier
from interlock.asyncio.composite_lock import MultiLock, RedLock
from interlock.asyncio.condition import Condition
from interlock.asyncio.count_down_latch import CountDownLatch
from interlock.asyncio.decorators import Locked, Single
from interlock.asyncio.election import Election
from interlock.asyncio.ending import go_on
from interlock.asyncio.event import Event
from interlock.asyncio.leased_semaphore import LeasedSemaphore
from interlock.asyncio.limited import Limited
from interlock.asyncio.lock import Hold, Lock, adopt
from interlock.asyncio.read_write_lock import ReadWriteLock
from interlock.asyncio.semaphore import Semaphore
from interlock.asyncio.ticket import Ticket
from interlock.backoff import ExponentialBackoff
from interlock.errors import InterlockError
from interlock.options import (
    Options,
    check_flag,
    check_holds,
    check_interval,
    check_name,
    check_reason,
    check_text,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from types import TracebackType

    from interlock._core.insight.events import Observer
    from interlock._links.topology import Topology
    from interlock.asyncio.trying import Trying
    from interlock.backoff import Backoff
    from interlock.check import Report
    from interlock.inspection import Deadlock, LockInfo
    from interlock.options import Duration, OptionChanges

T = TypeVar("T")
Unreachable: TypeAlias = Literal["raise", "run", "skip"]


@told
def connect(
    url: str | None = None, *, options: Options | None = None, **changes: Unpack[OptionChanges]
) -> Client:
    """Return a client of the server at *url*; connections are made when they are needed.

    Args:
        url: ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://``, ``redis+cluster://``
            or ``embedded://``. ``rediss`` asks for TLS, and ``valkey`` may stand for ``redis``.
            ``?prefix=acme:`` gives `Options.prefix`. None for ``INTERLOCK_URL``, then
            ``REDIS_URL``, else the embedded server.
        options: how the client behaves.
        **changes: single fields of `Options`, as keywords.

    Raises:
        ConfigError: a URL or an option that cannot work.
    """
    return Client(*open_url(url, options_of(options, changes)))


@hints("interlock.connect(url)")
class Client:
    """Makes locks on one server; close it, or use it in a ``with`` statement.

    Locks that are held when it closes are released. In a forked child it is another client, which
    holds nothing.

    To make an object costs no round trip. Each call of it that asks the server raises
    ServerUnavailableError if there is no usable answer in time, WrongTypeError if the name is in
    use by something else, and ClosedError if the client is closed. Names are text, and durations
    seconds (or a `timedelta`); a *timeout* of None or -1 waits for ever, and 0 tries once. A value
    that cannot be is a ConfigError (a ValueError), one of another type a TypeError.
    """

    __slots__ = ("__weakref__", "_driver", "_servers", "_where")

    def __init__(self, servers: Topology, options: Options) -> None:
        self._driver = self._new_driver(servers, options)
        self._servers = servers
        self._where = servers.where

    def _new_driver(self, servers: Topology, options: Options, /) -> AsyncDriver:
        return AsyncDriver(servers, options)

    @classmethod
    @told
    def from_redis(
        cls, client: Any, *, options: Options | None = None, **changes: Unpack[OptionChanges]
    ) -> Self:
        """Return a client of the server that a *client* of redis-py is configured for, as it is.

        Args:
            client: a `Redis` or `RedisCluster` of redis-py's, sync or asyncio, also from
                `Sentinel.master_for`, or one of valkey-py's. Its connections are not used.
            options: how the client behaves.
            **changes: single fields of `Options`, as keywords.

        Raises:
            ConfigError: not a client of redis-py's, or an option that cannot work.
        """
        chosen = options_of(options, changes)
        return cls(servers_of(client), chosen)

    def __repr__(self) -> str:
        state = " closed" if self._driver.closed else ""
        return f"<interlock.Client {self._where} id={self.client_id}{state}>"

    @property
    def client_id(self) -> str:
        """Return the first half of every holder id of this client."""
        return self._driver.session.client_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except InterlockError as trouble:
            go_on(error, trouble)

    async def close(self) -> None:
        """Release what is still held, and end every connection and thread.

        A waiter gets ClosedError. If the close is interrupted, call it again: it goes on until it
        is complete.

        Raises:
            ServerUnavailableError: what was held could not be released and ends with its lease.
        """
        await self._driver.close()

    async def check(self, *, objects: Sequence[str] = ("lock",), names: str = "*") -> Report:
        """Look at the servers for everything that endangers locks, as ``interlock doctor`` does.

        Nothing is changed. A server that cannot be reached is a finding like any other. That takes
        about 14 round trips to each primary, on connections of its own.

        Args:
            objects: what the application uses, by the names of the factories: ``"lock"``,
                ``"semaphore"``, ...
            names: how its objects are called: a name, or the beginning of names and ``*``.
        """
        # It is seldom asked for, and every program that starts would wait for it.
        from interlock.check import Requirements, examine  # noqa: PLC0415

        requirements = Requirements(objects, names, self._driver.session.options)
        return await self._driver.aside(examine, [self._servers], requirements)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell an `interlock.observe.Observer` what happens to the locks of this client.

        Its methods run in a thread for that, soon after what they tell. They may be slow, raise or
        hang. Return a function that ends this; so does closing the client.
        """
        return self._driver.observers.add(observer)

    async def locks(
        self, pattern: str = "*", *, kinds: Iterable[str] = ()
    ) -> AsyncIterator[LockInfo]:
        """Iterate over the locks that anybody holds or awaits, in any language.

        The server is never blocked. A lock that comes or goes meanwhile may be missed, and while
        keys move, a lock may come twice.

        Args:
            pattern: of names, as the command KEYS takes it: ``orders:*``.
            kinds: of `LockInfo.kind`; none for all. Without *kinds*, only those semaphores and
                latches are told that a client waits for.

        Cost:
            About four round trips for each 500 keys of hashes, on connections of its own.
        """
        from interlock.inspection.reader import Reader  # noqa: PLC0415 - seldom asked for

        driver = self._driver
        with closing(Reader(self._servers, driver.session.options)) as reader:
            pages = reader.pages(pattern, kinds)
            while (page := await driver.aside(next, pages, None)) is not None:
                for info in page:
                    yield info

    def holds(self) -> list[Hold]:
        """Return what threads and tasks of this client hold, but for permits; no round trip.

        Such a `Hold` does not keep the lock: it is renewed as long as its owner can release it.
        """
        driver = self._driver
        live = [
            each for each in list(driver.session.live) if each.state is HELD and not each.of_permits
        ]
        return [
            of_block(Hold, driver, each, None) for each in sorted(live, key=attrgetter("since"))
        ]

    async def force_release(self, name: str, *, holder: str, reason: str = "") -> bool:
        """Break the hold that *holder* has of *name*, whatever kind of lock that is.

        Args:
            name: the lock.
            holder: the holder id, as `describe` tells it; for a leased semaphore the permit's id.
            reason: what the holder is told, as ``force-released: reason``.

        Returns:
            Whether *holder* held it until now; if not, nothing was changed.

        """
        name, holder = check_name(name), check_text(holder, "a holder")
        info = await self.describe(name)
        if info is None or holder not in {each.holder for each in info.holders}:
            return False
        from interlock.inspection.kinds import force_release  # noqa: PLC0415 - seldom asked for

        text, driver = check_reason(reason), self._driver
        freed: bool = await driver.run(force_release(driver.session, info.kind, name, holder, text))
        return freed

    async def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks among all clients of these servers, those of other processes too.

        They are found by the cards of clients, so Java's locks are not part of any. Each 500 cards
        take about two round trips, on connections of its own.
        """
        from interlock.inspection.reader import read_deadlocks  # noqa: PLC0415 - seldom asked for

        driver = self._driver
        return await driver.aside(read_deadlocks, self._servers, driver.session.options)

    async def describe(self, name: str) -> LockInfo | None:
        """Return everything that is known about the lock *name*; None if nobody holds or awaits it.

        That takes about six round trips, on connections of its own.
        """
        from interlock.inspection.reader import read_lock  # noqa: PLC0415 - seldom asked for

        driver = self._driver
        return await driver.aside(read_lock, self._servers, driver.session.options, name)

    @told
    def lock(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        reentrant: bool = True,
        # asyncio only
        cancel_on_lost: bool = False,
        # end
    ) -> Lock:
        """Return the lock *name*.

        Args:
            name: the key in Redis, behind `Options.prefix`.
            timeout: seconds that an acquire or a ``with`` statement waits.
            lease: seconds after which a hold ends by itself; None for a hold that is renewed until
                it is released.
            reentrant: whether its owner may take it again.
            cancel_on_lost: cancel the task in an ``async with`` block when the hold is lost.
        """
        face = self._face(core_lock.Lock, name, timeout, lease, reentrant=reentrant)
        # asyncio only
        face.cancel_on_lost = cancel_on_lost
        # end
        return face

    @told
    def fair_lock(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        reentrant: bool = True,
    ) -> Lock:
        """Return the fair lock *name*, which serves its waiters in the order of arrival.

        The arguments are as for `lock`. A waiter that is silent for `Options.fair_wait` counts as
        dead. Use the same value in all clients of one lock.
        """
        return self._face(FairLock, name, timeout, lease, reentrant=reentrant)

    @told
    def fenced_lock(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        reentrant: bool = True,
    ) -> Lock:
        """Return the fenced lock *name*, whose holds have a `Hold.token` that only grows.

        The arguments are as for `lock`. See `interlock.fencing` for the check that the protected
        resource makes.
        """
        return self._face(FencedLock, name, timeout, lease, reentrant=reentrant)

    @told
    def group_lock(
        self,
        group: str,
        values: Iterable[str],
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        reentrant: bool = True,
    ) -> Lock:
        """Return all of *values* of *group* as one lock, in one key, however many they are.

        Args:
            group: the key in Redis, behind `Options.prefix`.
            values: what is locked, in any order; Java has the same with ``StringCodec``.
            timeout: as for `lock`, like the others.
            lease: as for `lock`.
            reentrant: whether its owner may take the same values again.
        """
        make = partial(GroupLock, values=values)
        return self._face(make, group, timeout, lease, reentrant=reentrant)

    @told
    def read_write_lock(
        self, name: str, *, timeout: Duration | None = None, lease: Duration | None = None
    ) -> ReadWriteLock:
        """Return the read/write lock *name*: many owners hold ``read``, or one holds ``write``.

        The arguments are as for `lock`.
        """
        return ReadWriteLock(
            self._face(ReadLock, name, timeout, lease), self._face(WriteLock, name, timeout, lease)
        )

    @told
    def spin_lock(
        self,
        name: str,
        *,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        reentrant: bool = True,
    ) -> Lock:
        """Return the spin lock *name*, which sends no messages: a waiter tries again.

        The arguments are as for `lock`; *backoff* has the pauses between two tries, and is an
        `ExponentialBackoff` unless given.
        """
        pauses = backoff or ExponentialBackoff()
        make = partial(SpinLock, backoff=pauses)
        return self._face(make, name, timeout, lease, reentrant=reentrant)

    @told
    def multi_lock(
        self, *locks: Lock, timeout: Duration | None = None, lease: Duration | None = None
    ) -> MultiLock:
        """Return all of *locks* as one; they may be of several clients. See `MultiLock`."""
        return MultiLock(*locks, timeout=timeout, lease=lease)

    @told
    def red_lock(
        self, *locks: Lock, timeout: Duration | None = None, lease: Duration | None = None
    ) -> RedLock:
        """Return a majority of *locks*, each on a server of its own, as one lock. See `RedLock`."""
        return RedLock(*locks, timeout=timeout, lease=lease)

    def _face(
        self,
        kind: Callable[..., core_lock.Lock],
        name: str,
        timeout: Duration | None,
        lease: Duration | None,
        *,
        reentrant: bool = True,
    ) -> Lock:
        """Return a lock."""
        over, name, key = self._named(name)
        core = kind(over.session, name, key, reentrant=check_flag(reentrant, "reentrant"))
        return Lock(over, core, timeout=timeout, lease=lease)

    def _named(self, name: str) -> tuple[Any, str, str]:
        """Return the driver that performs operations, the checked *name* and its key."""
        over, name = self._driver, check_name(name)
        return over, name, over.session.key(name)

    @told
    def try_lock(
        self, name: str, timeout: Duration = 0, lease: Duration | None = None
    ) -> Trying[Hold]:
        """Return ``lock(name).trying(timeout, lease=lease)``, a block that may be entered without.

        For example ``async with client.try_lock(name) as hold: if hold: ...``. See `Lock.trying`.
        """
        return self.lock(name).trying(timeout, lease=lease)

    # asyncio only
    @attempt
    # end
    async def adopt(self, ticket: Ticket | str, *, lease: Duration | None = None) -> Hold:
        """Take over a hold that another process gave away by `Hold.hand_over`; one round trip.

        It is a hold of this task. If nobody keeps it, it is renewed until the task ends, and a
        MisuseWarning tells so.

        Args:
            ticket: what ``hand_over()`` returned there, or its text.
            lease: as for `lock`.

        Raises:
            NotHeldError: it was adopted before, or its lease has ended.
            ReentryError: this task holds the lock.
        """
        return await adopt(self._driver, ticket, lease)

    def ticket(self, text: str) -> Ticket:
        """Return the ticket with *text*, to extend or release the hold it stands for.

        Args:
            text: that of a ticket of `Hold.hand_over`, or what ``interlock ticket acquire`` printed.
        """
        driver = self._driver
        return Ticket(driver, GivenTicket.read(text), partial(adopt, driver))

    @overload
    def locked(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        # asyncio only
        cancel_on_lost: bool = False,
        # end
        if_unreachable: Literal["raise", "run"] = "raise",
    ) -> Locked[Never]: ...
    @overload
    def locked(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        # asyncio only
        cancel_on_lost: bool = False,
        # end
        if_unreachable: Literal["skip"],
    ) -> Locked[None]: ...
    @told
    def locked(
        self,
        name: str,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        # asyncio only
        cancel_on_lost: bool = False,
        # end
        if_unreachable: Unreachable = "raise",
    ) -> Locked[Any]:
        """Return a decorator that holds a lock during each call of a function.

        ``@client.locked("pay:{order_id}")`` takes the name from the call's arguments:
        ``{parameter}``, ``{parameter.attribute}`` or ``{parameter[item]}``. Braces that belong to
        the name are doubled. For a block there is `lock`.

        Args:
            name: the lock, or a template for it.
            timeout: as for `lock`; a call then raises AcquireTimeoutError.
            lease: as for `lock`.
            cancel_on_lost: cancel the task of a call when its hold is lost.
            if_unreachable: what a call does if no server answers: ``"raise"``
                ServerUnavailableError, ``"run"`` without the lock, or ``"skip"`` and return None.
                The last two are logged as a warning.
        """

        def make(called: str) -> Lock:
            lock = self.lock(called, timeout=timeout, lease=lease)
            # asyncio only
            lock.cancel_on_lost = cancel_on_lost
            # end
            return lock

        _ = make("check")  # a duration that cannot be is told here
        return Locked(check_name(name), make, if_unreachable)

    @overload
    def single(
        self,
        name: str,
        *,
        min_hold: Duration = 0,
        max_hold: Duration | None = None,
        if_unreachable: Unreachable = "raise",
    ) -> Single[None]: ...
    @overload
    def single(
        self,
        name: str,
        *,
        otherwise: T,
        min_hold: Duration = 0,
        max_hold: Duration | None = None,
        if_unreachable: Unreachable = "raise",
    ) -> Single[T]: ...
    @told
    def single(
        self,
        name: str,
        *,
        min_hold: Duration = 0,
        max_hold: Duration | None = None,
        otherwise: Any = None,
        if_unreachable: Unreachable = "raise",
    ) -> Single[Any]:
        """Return a decorator that skips a call while another call, in any process, holds the lock.

        Args:
            name: the lock, or a template for it as for `locked`.
            min_hold: seconds that the lock stays locked from the beginning of a call that ends
                earlier, by an exception too. Then the process may end as well. Choose more than the
                clocks of schedulers differ by.
            max_hold: seconds after which a call loses the lock, even if it still runs. Then another
                call may run, and this one raises HoldLostError when it ends. Until then the hold is
                renewed, so it ends sooner if the process dies.
            otherwise: what a call returns that is skipped.
            if_unreachable: as for `locked`; ``"skip"`` returns *otherwise*.

        Cost:
            One round trip for a call that is skipped, two for one that is not.
        """
        holds = check_holds(min_hold, max_hold)
        return Single(name, self._driver, holds, otherwise, if_unreachable)

    @told
    def semaphore(
        self,
        name: str,
        permits: int | None = None,
        *,
        timeout: Duration | None = None,
        idle: Duration | None = None,
    ) -> Semaphore:
        """Return the semaphore *name*, whose permits nobody owns.

        Without *permits*, a first wait for a semaphore that nobody has set up goes on, and a
        `MisuseWarning` tells of it.

        Args:
            name: the key in Redis, behind `Options.prefix`.
            permits: how many there are if the semaphore does not exist, whether it never did or the
                server has lost it; it costs no round trip. If the server has another number, that
                one counts, and a `MisuseWarning` tells of it.
            timeout: seconds that a ``with`` statement waits.
            idle: seconds after its last use, when the server removes it: longer than anybody has a
                permit. The next use sets *permits* again. None to keep it.
        """
        span = check_idle(idle, "permits", permits)
        over, name, key = self._named(name)
        core = core_semaphore.Semaphore(over.session, name, key, permits, span)
        return Semaphore(over, core, timeout=timeout)

    @told
    def leased_semaphore(
        self, name: str, permits: int | None = None, *, idle: Duration | None = None
    ) -> LeasedSemaphore:
        """Return the semaphore *name*, whose permits have ids and leases.

        A permit comes back when its lease ends.

        Args:
            name: the key in Redis, behind `Options.prefix`.
            permits: as for `semaphore`.
            idle: seconds after its last use, when the server removes it. A permit that is renewed
                is a use; no lease may be longer. The next use sets *permits* again.
        """
        span = check_idle(idle, "permits", permits)
        over, name, key = self._named(name)
        number = LeasedNumber(over.session, name, key, permits, span)
        core = core_permits.LeasedPermits(over.session, name, key, number=number)
        return LeasedSemaphore(over, core)

    @told
    def limited(
        self,
        name: str,
        n: int,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Limited:
        """Return a limit: at most *n* blocks or calls at once, in all processes.

        It is a context manager and a decorator. ``@client.limited("openai:{model}", 5)`` takes the
        name from the call's arguments, as `locked` does. If a process dies, its permits come back
        within their lease.

        Each call brings *n* along, so there is nothing to set up or to lose. Processes whose code
        has another number may run at once: each obeys its own.

        Args:
            name: what is limited, or a template for it.
            n: how many may run at once.
            timeout: seconds that a block or call waits, before it raises AcquireTimeoutError.
            lease: seconds after which a permit ends by itself; None for permits that are renewed.
        """
        over, limit = self._driver, check_permits(n)

        def make(called: str) -> core_permits.LimitedPermits:
            key = over.session.key(check_name(called))
            return core_permits.LimitedPermits(over.session, called, key, limit)

        _ = make(name)  # a wrong name is told here
        return Limited(over, name, make, timeout, lease)

    @told
    def count_down_latch(
        self, name: str, count: int | None = None, *, idle: Duration | None = None
    ) -> CountDownLatch:
        """Return the count-down latch *name*.

        Args:
            name: what it is called.
            count: set once in the life of the latch, before the first call of a client; one round
                trip more. An open latch stays open until `CountDownLatch.delete`. If the latch was
                set up with another count, a MisuseWarning says so.
            idle: seconds after its last use, when the server removes it; a wait is a use. The next
                use sets *count* again.
        """
        span = check_idle(idle, "count", count)
        over, name, key = self._named(name)
        core = core_latch.CountDownLatch(over.session, name, key, count, span)
        return CountDownLatch(over, core)

    @told
    def event(self, name: str, *, idle: Duration | None = None) -> Event:
        """Return the event *name*, which any process sets, clears or waits for.

        *idle* seconds after its last use, the server removes it, so that it is clear; a wait for it
        is a use. None keeps it.
        """
        span = 0.0 if idle is None else check_interval(idle, "idle")
        over, name, key = self._named(name)
        return Event(over, core_event.Event(over.session, name, key, idle=span))

    @told
    def condition(self, lock: Lock | str, *, name: str | None = None) -> Condition:
        """Return a condition of *lock*, whose owners wait for each other's news.

        Args:
            lock: a plain, fenced, spin or write lock of this client; a name for its `lock`.
            name: what tells several conditions of one lock apart; the lock's own unless given.
                All who use the condition give the same one.
        """
        held = self.lock(lock) if isinstance(lock, str) else lock
        core = condition_of(held, self._driver.session, name, Lock)
        return Condition(core, held)

    @told
    def barrier(self, name: str, parties: int, *, timeout: Duration | None = None) -> Barrier:
        """Return the barrier *name*, at which *parties* wait for each other.

        *timeout* is how many seconds `Barrier.wait` waits unless it is told.
        """
        over, name = self._driver, check_name(name)
        core = core_barrier.Barrier(over.session, name, over.session.key(name), parties)
        return Barrier(over, core, timeout=timeout)

    @told
    def election(
        self,
        name: str,
        candidate: str | None = None,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Election:
        """Return the election *name*, of one leader among many candidates.

        Args:
            name: all candidates use the same one.
            candidate: what the leader calls itself; ``"<host>:<pid>"`` unless given.
            timeout: seconds that a ``with`` statement waits.
            lease: seconds after which a term ends by itself, whether the leader lives or not; None
                for a term that is renewed until the leader resigns. How soon a dead leader is
                followed is the client's `Options.lease`.
        """
        over, name = self._driver, check_name(name)
        base = over.session.key(name)
        core = core_election.Election(over.session, name, base, candidate, this_process)
        return Election(over, core, timeout=timeout, lease=lease)
