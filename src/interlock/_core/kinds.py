"""The catalogue of kinds: one row for each kind of object, with all that depends on its kind.

Theory. Each row is named after the factory on the client. It has the classes, scripts, keys,
channels and the page of a kind. It tells how operators recognize and break such an object. All else
asks the catalogue: the reader of locks, the forced release, tickets, rights, commands and tests. So
to all of them a new kind is a row here, a module and its scripts. Section 8 of the architecture has
what it needs besides: a factory, pages, and what tests must know of it.

Only operators need the catalogue: a client that only locks does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from interlock._core.locks import forced
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.red_lock import RedLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.model import names
from interlock._core.objects.barrier import Barrier
from interlock._core.objects.condition import Condition
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock._core.objects.election import Election
from interlock._core.objects.event import Event
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.limited import LimitedSemaphore
from interlock._core.objects.semaphore import Semaphore
from interlock.backoff import ExponentialBackoff
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session

Named: TypeAlias = Callable[[str], str]
"""From the name of an object to a key or channel of it."""


class KeyPattern(NamedTuple):
    """Keys or channels that belong to an object.

    Attributes:
        of: from the object's name to what they begin with.
        varied: whether something follows that is different each time.
        fixed: what an ACL calls them if their names have nothing to do with the object's.
        plain: of a channel: whether it is a plain one where others are sharded.
    """

    of: Named
    varied: bool = False
    fixed: str = ""
    plain: bool = False

    def example(self, name: str) -> str:
        """Return one that belongs to the object *name*."""
        return self.of(name) + ("interlock-check" if self.varied else "")

    def pattern(self, name_pattern: str) -> str:
        """Return what an ACL calls those of the objects *name_pattern*.

        Args:
            name_pattern: a name, or the beginning of names and ``*``.
        """
        if self.fixed:
            return self.fixed
        text = self.of(name_pattern) + ("*" if self.varied else "")
        if not name_pattern.endswith("*"):
            return text
        # Whatever follows the name is covered by the star in it.
        return text[: text.index(name_pattern) + len(name_pattern)]


@dataclass(frozen=True, slots=True)
class Uses:
    """What the clients of an object use on a server: its rights follow from this.

    Attributes:
        scripts: the names of its Lua files.
        keys: besides the one that is called like the object.
        channels: where it announces and hears, its own one first; none if it sends no messages.
        named: whether it uses the key that is called like the object.
        others: commands that no script calls.
        queue: where waiting clients stand in a queue; None if they do not.
    """

    scripts: tuple[str, ...]
    keys: tuple[KeyPattern, ...] = ()
    channels: tuple[KeyPattern, ...] = ()
    named: bool = True
    others: tuple[str, ...] = ()
    queue: KeyPattern | None = None


def _itself(name: str) -> str:
    return name


@dataclass(frozen=True, slots=True)
class Sight:
    """How the reader recognizes an object on a server, and what operators call its parts.

    Attributes:
        answers: what the script `inspection/lua/lock_info.lua` may say of it.
        type: of the key that is looked at, in the words of the command TYPE.
        key: from the name to that key.
        queue: from the name to the list of its waiters; only with a queue is it of this kind.
        token: from the name to its fencing token; only with one is it of this kind.
        total: from the name to the key with all its permits, or its first count, if a number that
            has it is of this kind.
        heard: whether only a listener on its channel tells it from another number.
        alone: whether no owner awaits what it holds.
        permits: whether its holders are permits, which cards know by their ids.
        by_thread: whether a holder id may name a thread, and so a later hold of it.
        short: what tables call it; its name if None.
        number: what its number is called, if it has one.
    """

    answers: tuple[str, ...] = ("lock",)
    type: str = "hash"
    key: Named = _itself
    queue: Named | None = None
    token: Named | None = None
    total: Named | None = None
    heard: bool = False
    alone: bool = False
    permits: bool = False
    by_thread: bool = False
    short: str | None = None
    number: str = "free"

    @property
    def apart(self) -> bool:
        """Return whether the key has another name than the object."""
        return self.key is not _itself

    def name_of(self, key: str) -> str:
        """Return the name of the object with *key*."""
        return name_in(key, self.key)

    def fits(self, key: str, answer: str, *, queued: bool, counted: bool) -> bool:
        """Return whether `lock_info` has told of such an object.

        Args:
            key: what was looked at.
            answer: what the script calls it.
            queued: whether somebody stands in a list of waiters.
            counted: whether it has a fencing token.
        """
        if self.heard or answer not in self.answers:
            return False
        if self.apart:
            return self.name_of(key) != key
        if queued or self.queue is not None:
            return queued and self.queue is not None
        return (self.token is not None) == counted


@cache
def around(of: Named) -> tuple[str, str]:
    """Return what *of* puts before and after a name."""
    before, _, after = of("{}").partition("{}")
    return before, after


def name_in(key: str, of: Named) -> str:
    """Return the name that *of* has made *key* from; *key* itself if that cannot be."""
    before, after = around(of)
    if not (before or after) or not (key.startswith(before) and key.endswith(after)):
        return key
    name = key.removeprefix(before).removesuffix(after)
    return name[1:-1] if names.shares_channels(name) else name


class Core(Protocol):
    """What each class of a kind has."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A row of the catalogue.

    Attributes:
        cores: its classes. A read/write lock has two.
        uses: on a server; None for one that is made of others and needs their rights.
        page: of the documentation, below ``docs``.
        key: from the name to the key by which cards and notes know it.
        sight: how the reader recognizes it; None if it does not.
        breaks: how an operator ends one hold; None if nobody holds such an object, or if the
            reader takes it for another kind.
        by_ticket: makes the lock that a ticket stands for; None if it has no tickets.
    """

    cores: tuple[type[Core], ...]
    page: str
    uses: Uses | None = None
    key: Named = _itself
    sight: Sight | None = None
    breaks: forced.Break | None = None
    by_ticket: Callable[[Session, str], Lock] | None = None

    @property
    def shared(self) -> bool:
        """Return whether several owners may hold all that it has at a time.

        Then a waiter can go on although most holders stay. A read/write lock is not shared: a
        writer waits for each reader.
        """
        return all(getattr(core, "shared", False) for core in self.cores)


def _of_election(of: Named) -> Named:
    """Return how *of* names what belongs to the lock of an election."""
    return lambda name: of(names.election_key(name))


def _condition_turn(name: str) -> str:
    return names.waiter_channel(names.condition_channel(name), "")


def _turn(name: str) -> str:
    return names.waiter_channel(names.lock_channel(name), "")


def _room(channel: Named) -> tuple[KeyPattern, tuple[KeyPattern, ...]]:
    """Return the queue of those who wait for what *channel* announces, and what they hear."""

    def queue(name: str) -> str:
        return names.waiting_queue(channel(name))

    def waiting(name: str) -> str:
        return names.waiting_channel(channel(name))

    def wake(name: str) -> str:
        return names.wake_channel(channel(name), "")

    return KeyPattern(queue), (
        KeyPattern(channel),
        KeyPattern(waiting),
        KeyPattern(wake, varied=True),
    )


_PLAIN = (
    *("lock_acquire", "lock_release", "lock_renew", "lock_pass_locally"),
    *("lock_force_release", "lock_query", "lock_set_lease", "lock_give"),
    *("locks_acquire", "locks_release"),
)
_QUEUE, _HEARD = _room(names.lock_channel)
PERMITS_QUEUE, _PERMITS_HEARD = _room(names.semaphore_channel)
_REQUESTS = KeyPattern(partial(names.request_latch, request=""), varied=True)
_OWN_REQUESTS = KeyPattern(partial(names.own_request, request=""), varied=True)
_ELECTION_QUEUE, _ELECTION_HEARD = _room(_of_election(names.lock_channel))
_ELECTION_TOKEN = _of_election(names.fence_token)


def _spin_lock(session: Session, name: str) -> Lock:
    return SpinLock(session, name, backoff=ExponentialBackoff())


def _election(session: Session, name: str) -> Election:
    """Return an election for an operator, who is no candidate."""
    return Election(session, name, None, lambda: ("", 0))


KINDS = {
    "lock": Kind(
        cores=(Lock,),
        page="reference/lock.md",
        uses=Uses(_PLAIN, keys=(_OWN_REQUESTS,), channels=_HEARD, queue=_QUEUE),
        sight=Sight(alone=True, by_thread=True),
        breaks=forced.by_its_class(Lock),
        by_ticket=Lock,
    ),
    "fair_lock": Kind(
        cores=(FairLock,),
        page="reference/fair_lock.md",
        uses=Uses(
            (
                *("fair_lock_acquire", "fair_lock_release", "fair_lock_force_release"),
                *("lock_renew", "lock_query"),
            ),
            keys=(KeyPattern(names.fair_queue), KeyPattern(names.fair_timeouts), _OWN_REQUESTS),
            channels=(KeyPattern(_turn, varied=True),),
        ),
        sight=Sight(queue=names.fair_queue, by_thread=True, short="fair"),
        breaks=forced.by_its_class(FairLock),
        by_ticket=FairLock,
    ),
    "fenced_lock": Kind(
        cores=(FencedLock,),
        page="reference/fenced_lock.md",
        uses=Uses(
            (*_PLAIN, "fenced_lock_acquire", "fenced_lock_release"),
            keys=(KeyPattern(names.fence_token), _OWN_REQUESTS),
            channels=_HEARD,
            queue=_QUEUE,
        ),
        sight=Sight(token=names.fence_token, alone=True, by_thread=True, short="fenced"),
        breaks=forced.by_its_class(FencedLock),
        by_ticket=FencedLock,
    ),
    "read_write_lock": Kind(
        cores=(ReadLock, WriteLock),
        page="reference/read_write_lock.md",
        uses=Uses(
            (
                *("read_lock_acquire", "read_lock_release", "read_lock_renew"),
                *("write_lock_acquire", "write_lock_release", "lock_renew"),
                *("read_write_lock_query", "read_write_lock_force_release"),
            ),
            keys=(KeyPattern(names.read_entries, varied=True), _OWN_REQUESTS),
            channels=(KeyPattern(names.read_write_channel), *_HEARD[1:]),
            queue=_QUEUE,
        ),
        # Its mode, read or write, tells the kind too.
        sight=Sight(("read", "write"), alone=True, by_thread=True, short=""),
        breaks=forced.read_write_lock,
    ),
    "group_lock": Kind(
        cores=(GroupLock,),
        page="reference/group_lock.md",
        uses=Uses(
            (
                *("group_lock_acquire", "group_lock_release", "group_lock_renew"),
                *("group_lock_force_release", "group_lock_query"),
            ),
            keys=(_OWN_REQUESTS,),
            channels=(KeyPattern(names.lock_channel),),
        ),
        sight=Sight(("group",), short="group"),
        breaks=forced.group_lock,
    ),
    # The reader takes it for a plain lock: on a server it is one.
    "spin_lock": Kind(
        cores=(SpinLock,),
        page="reference/spin_lock.md",
        uses=Uses(_PLAIN, keys=(_OWN_REQUESTS,)),
        by_ticket=_spin_lock,
    ),
    "multi_lock": Kind(cores=(MultiLock,), page="reference/multi_lock.md"),
    "red_lock": Kind(cores=(RedLock,), page="reference/red_lock.md"),
    "leased_semaphore": Kind(
        cores=(LeasedSemaphore,),
        page="reference/leased_semaphore.md",
        uses=Uses(
            (
                *("leased_semaphore_acquire", "leased_semaphore_release"),
                *("leased_semaphore_renew", "leased_semaphore_update"),
                *("leased_semaphore_query", "leased_semaphore_add"),
                *("leased_semaphore_set", "leased_semaphore_leave", "semaphore_delete"),
                *("leased_semaphore_try_set", "semaphore_expire"),
            ),
            keys=(KeyPattern(names.permit_leases), _REQUESTS, _OWN_REQUESTS),
            channels=_PERMITS_HEARD,
            queue=PERMITS_QUEUE,
        ),
        sight=Sight(("leased",), "zset", names.permit_leases, permits=True, short="permits"),
        breaks=forced.leased_semaphore,
    ),
    # It is the leased semaphore of its name.
    "limited": Kind(cores=(LimitedSemaphore,), page="how-to/limit.md"),
    "semaphore": Kind(
        cores=(Semaphore,),
        page="reference/semaphore.md",
        uses=Uses(
            (
                *("semaphore_acquire", "semaphore_release", "semaphore_drain"),
                *("semaphore_undo", "semaphore_try_set", "semaphore_query"),
                *("semaphore_leave", "semaphore_delete", "semaphore_add", "semaphore_set"),
                *("semaphore_total", "semaphore_expire"),
            ),
            keys=(_REQUESTS, KeyPattern(names.semaphore_total)),
            channels=_PERMITS_HEARD,
            queue=PERMITS_QUEUE,
        ),
        sight=Sight(("number",), "string", total=names.semaphore_total),
    ),
    "count_down_latch": Kind(
        cores=(CountDownLatch,),
        page="reference/count_down_latch.md",
        uses=Uses(
            (
                *("latch_try_set", "latch_set_up", "latch_count_down"),
                *("latch_query", "latch_delete", "semaphore_expire"),
            ),
            keys=(_REQUESTS, KeyPattern(names.latch_ending), KeyPattern(names.latch_total)),
            channels=(KeyPattern(names.latch_channel),),
        ),
        sight=Sight(
            *(("number",), "string"),
            total=names.latch_total,
            heard=True,
            short="latch",
            number="count",
        ),
    ),
    "event": Kind(
        cores=(Event,),
        page="reference/event.md",
        uses=Uses(
            ("event_set", "event_clear", "event_query"),
            keys=(KeyPattern(names.event_key), _OWN_REQUESTS),
            channels=(KeyPattern(names.event_channel),),
            named=False,
        ),
    ),
    "condition": Kind(
        cores=(Condition,),
        page="reference/condition.md",
        # This is for a condition of a plain lock.
        uses=Uses(
            (
                *_PLAIN,
                *("condition_enlist", "condition_look", "condition_notify"),
                *("condition_end", "condition_leave", "waiting_renew"),
            ),
            keys=(
                KeyPattern(names.condition_waiting),
                KeyPattern(names.condition_leases),
                _OWN_REQUESTS,
            ),
            channels=(*_HEARD, KeyPattern(_condition_turn, varied=True)),
            queue=_QUEUE,
        ),
    ),
    "barrier": Kind(
        cores=(Barrier,),
        page="reference/barrier.md",
        uses=Uses(
            (
                *("barrier_arrive", "barrier_look", "barrier_end", "barrier_pass"),
                *("barrier_query", "barrier_leave", "waiting_renew"),
            ),
            keys=(
                *(KeyPattern(names.barrier_key), KeyPattern(names.barrier_parties)),
                *(KeyPattern(names.barrier_passed), _OWN_REQUESTS),
            ),
            channels=(KeyPattern(names.barrier_channel),),
            named=False,
        ),
    ),
    "election": Kind(
        cores=(Election,),
        page="reference/election.md",
        uses=Uses(
            (
                *("fenced_lock_acquire", "fenced_lock_release", "lock_renew", "lock_query"),
                *("lock_force_release", "election_announce", "election_query"),
            ),
            keys=(
                *(KeyPattern(names.election_key), KeyPattern(_ELECTION_TOKEN)),
                KeyPattern(names.election_leader),
                KeyPattern(_of_election(_OWN_REQUESTS.of), varied=True),
            ),
            channels=(*_ELECTION_HEARD, KeyPattern(names.election_news)),
            named=False,
            queue=_ELECTION_QUEUE,
        ),
        key=names.election_key,
        sight=Sight(key=names.election_key, token=_ELECTION_TOKEN, alone=True),
        breaks=forced.by_its_class(_election),
    ),
}
"""Name of the factory on the client -> the kind."""


@cache
def seen() -> Mapping[str, Sight]:
    """Return how the reader recognizes each kind that it can."""
    return {name: kind.sight for name, kind in KINDS.items() if kind.sight is not None}


@cache
def _by_answer(answer: str) -> tuple[tuple[str, Sight], ...]:
    """Return the kinds of which `lock_info` says *answer*, in the order of recognition."""
    told = [(kind, sight) for kind, sight in seen().items() if answer in sight.answers]
    # The key of one that is apart could be the name of another.
    return tuple(sorted(told, key=lambda each: not each[1].apart))


def sight_of(kind: str) -> Sight:
    """Return how the reader recognizes *kind*, which it has told of."""
    sight = KINDS[kind].sight
    assert sight is not None
    return sight


def recognize(key: str, answer: str, *, queued: bool, counted: bool) -> tuple[str, Sight]:
    """Return the kind that `lock_info` has told of; arguments as of `Sight.fits`.

    Raises:
        TypeError: there is none: something else has answered.
    """
    for kind, sight in _by_answer(answer):
        if sight.fits(key, answer, queued=queued, counted=counted):
            return kind, sight
    raise TypeError(f"wanted a kind of lock, found {answer[:100]!r}")


def channel_of(kind: str, name: str) -> str:
    """Return the channel of the releases of the object *name*."""
    uses = KINDS[kind].uses
    assert uses is not None  # whatever the reader recognizes
    return uses.channels[0].of(name)


def queues_permits(kind: str) -> bool:
    """Return whether the server has a queue of the clients that wait for permits of *kind*."""
    uses = KINDS[kind].uses
    return uses is not None and uses.queue is PERMITS_QUEUE


def force_release(session: Session, kind: str, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of *holder* on *name*.

    Args:
        session: the client's state.
        kind: the name of the factory of such a lock.
        name: what the user calls it.
        holder: the holder id as the server has it, or the id of a permit.
        reason: what the holder is told.

    Returns:
        Whether *holder* held the lock until now, or may have, because a reply was lost.

    Raises:
        ConfigError: an object of this kind has no holders.

    Cost:
        Three round trips at most, and one more if the hold ended meanwhile.
    """
    breaks = KINDS[kind].breaks
    if breaks is None:
        raise ConfigError(f"{name!r} is a {kind}: nobody holds it, so no hold can be broken")
    return (yield from breaks(session, name, holder, reason))


def lock_by_ticket(session: Session, word: str, name: str) -> Lock | None:
    """Return the lock *name* of the kind that its class calls *word*; None without tickets."""
    for kind in KINDS.values():
        if kind.by_ticket is not None and kind.cores[0].kind == word:
            return kind.by_ticket(session, name)
    return None
