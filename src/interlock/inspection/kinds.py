"""The catalogue of kinds: one row for each kind of object, with all that operators need to know.

Each row is named after the factory on the client. The reader of locks, the forced release, the
rights and the tests ask the catalogue, so to all of them a new kind is one more row. A client that
only locks does not import it.
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
    """

    of: Named
    varied: bool = False
    fixed: str = ""

    def pattern(self, name_pattern: str) -> str:
        """Return what an ACL calls those of the objects *name_pattern*, which may end with ``*``."""
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
    """How the reader finds an object on a server.

    Attributes:
        key: from the name to the key that is looked at.
        token: from the name to its fencing token.
        total: from the name to the key with all its permits, or its first count, if it is a number.
        permits: whether its holders are permits, which cards know by their ids.
    """

    key: Named = _itself
    token: Named | None = None
    total: Named | None = None
    permits: bool = False

    @property
    def type(self) -> str:
        """Return the type of the key that is looked at, in the words of the command TYPE."""
        return "zset" if self.permits else "hash" if self.total is None else "string"

    @property
    def apart(self) -> bool:
        """Return whether the key has another name than the object."""
        return self.key is not _itself

    def name_of(self, key: str) -> str:
        """Return the name of the object with *key*; *key* itself if it belongs to none."""
        return name_in(key, self.key)


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


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the catalogue.

    Attributes:
        cores: its classes. A read/write lock has two.
        uses: on a server; None for one that is made of others and needs their rights.
        sight: how the reader recognizes it; None if it does not.
        breaks: how an operator ends one hold; None if nobody holds such an object, or if the
            reader takes it for another kind.
        key: from the name to the key by which cards and notes know it.
    """

    cores: tuple[type[Core], ...]
    uses: Uses | None = None
    sight: Sight | None = None
    breaks: forced.Break | None = None
    key: Named = _itself

    @property
    def shared(self) -> bool:
        """Return whether several owners may hold all that it has at a time.

        Then a waiter can go on although most holders stay. A read/write lock is not shared: a
        writer waits for each reader.
        """
        return all(getattr(core, "shared", False) for core in self.cores)


def _scripts(prefix: str, words: str) -> tuple[str, ...]:
    return tuple([f"{prefix}_{word}" for word in words.split()])


def _keys(*of: Named) -> tuple[KeyPattern, ...]:
    return tuple(map(KeyPattern, of))


def _after(first: Named, then: Named) -> Named:
    """Return how *then* names what belongs to that which *first* names."""

    def named(name: str) -> str:
        return then(first(name))

    return named


def _turn(channel: Named) -> KeyPattern:
    """Return the channels that tell each waiter of *channel* its turn."""
    return KeyPattern(_after(channel, partial(names.waiter_channel, holder="")), varied=True)


def _room(channel: Named) -> tuple[KeyPattern, tuple[KeyPattern, ...]]:
    """Return the queue of those who wait for what *channel* announces, and what they hear."""
    wake = _after(channel, partial(names.wake_channel, client=""))
    heard = *_keys(channel, _after(channel, names.waiting_channel)), KeyPattern(wake, varied=True)
    return KeyPattern(_after(channel, names.waiting_queue)), heard


def _election(session: Session, name: str) -> Election:
    """Return an election for an operator, who is no candidate."""
    return Election(session, name, None, lambda: ("", 0))


_LOCK = (
    *_scripts("lock", "acquire release renew pass_locally force_release query set_lease give"),
    *_scripts("locks", "acquire release"),
)
_QUEUE, _HEARD = _room(names.lock_channel)
_PERMITS_QUEUE, _PERMITS_HEARD = _room(names.semaphore_channel)
_REQUESTS = KeyPattern(partial(names.request_latch, request=""), varied=True)
_OWN_REQUESTS = KeyPattern(partial(names.own_request, request=""), varied=True)
_OF_ELECTION = partial(_after, names.election_key)
_ELECTION_QUEUE, _ELECTION_HEARD = _room(_OF_ELECTION(names.lock_channel))
_ELECTION_TOKEN = _OF_ELECTION(names.fence_token)

KINDS = {
    "lock": Kind(
        (Lock,),
        Uses(_LOCK, (_OWN_REQUESTS,), _HEARD, queue=_QUEUE),
        Sight(),
        forced.by_its_class(Lock),
    ),
    "fair_lock": Kind(
        (FairLock,),
        Uses(
            (*_scripts("fair_lock", "acquire release force_release"), "lock_renew", "lock_query"),
            (*_keys(names.fair_queue, names.fair_timeouts), _OWN_REQUESTS),
            (_turn(names.lock_channel),),
        ),
        Sight(),
        forced.by_its_class(FairLock),
    ),
    "fenced_lock": Kind(
        (FencedLock,),
        Uses(
            _LOCK + _scripts("fenced_lock", "acquire release"),
            (*_keys(names.fence_token), _OWN_REQUESTS),
            _HEARD,
            queue=_QUEUE,
        ),
        Sight(token=names.fence_token),
        forced.by_its_class(FencedLock),
    ),
    "read_write_lock": Kind(
        (ReadLock, WriteLock),
        Uses(
            _scripts("read_lock", "acquire release renew")
            + _scripts("write_lock", "acquire release")
            + _scripts("read_write_lock", "query force_release")
            + ("lock_renew",),
            (KeyPattern(names.read_entries, varied=True), _OWN_REQUESTS),
            (KeyPattern(names.read_write_channel), *_HEARD[1:]),
            queue=_QUEUE,
        ),
        Sight(),
        forced.read_write_lock,
    ),
    "group_lock": Kind(
        (GroupLock,),
        Uses(
            _scripts("group_lock", "acquire release renew force_release query"),
            (_OWN_REQUESTS,),
            _keys(names.lock_channel),
        ),
        Sight(),
        forced.group_lock,
    ),
    # The reader takes it for a plain lock: on a server it is one.
    "spin_lock": Kind((SpinLock,), Uses(_LOCK, (_OWN_REQUESTS,))),
    "multi_lock": Kind((MultiLock,)),
    "red_lock": Kind((RedLock,)),
    "leased_semaphore": Kind(
        (LeasedSemaphore,),
        Uses(
            _scripts("leased_semaphore", "acquire release renew update query add set leave try_set")
            + _scripts("semaphore", "delete expire"),
            (*_keys(names.permit_leases), _REQUESTS, _OWN_REQUESTS),
            _PERMITS_HEARD,
            queue=_PERMITS_QUEUE,
        ),
        Sight(names.permit_leases, permits=True),
        forced.leased_semaphore,
    ),
    # It is the leased semaphore of its name.
    "limited": Kind((LimitedSemaphore,)),
    "semaphore": Kind(
        (Semaphore,),
        Uses(
            _scripts("semaphore", "acquire release drain undo try_set query leave")
            + _scripts("semaphore", "delete add set total expire"),
            (_REQUESTS, *_keys(names.semaphore_total)),
            _PERMITS_HEARD,
            queue=_PERMITS_QUEUE,
        ),
        Sight(total=names.semaphore_total),
    ),
    "count_down_latch": Kind(
        (CountDownLatch,),
        Uses(
            (*_scripts("latch", "try_set set_up count_down query delete"), "semaphore_expire"),
            (_REQUESTS, *_keys(names.latch_ending, names.latch_total)),
            _keys(names.latch_channel),
        ),
        Sight(total=names.latch_total),
    ),
    "event": Kind(
        (Event,),
        Uses(
            _scripts("event", "set clear query"),
            (*_keys(names.event_key), _OWN_REQUESTS),
            _keys(names.event_channel),
            named=False,
        ),
    ),
    "condition": Kind(
        (Condition,),
        # This is for a condition of a plain lock.
        Uses(
            (*_LOCK, *_scripts("condition", "enlist look notify end leave"), "waiting_renew"),
            (*_keys(names.condition_waiting, names.condition_leases), _OWN_REQUESTS),
            (*_HEARD, _turn(names.condition_channel)),
            queue=_QUEUE,
        ),
    ),
    "barrier": Kind(
        (Barrier,),
        Uses(
            (*_scripts("barrier", "arrive look end pass query leave"), "waiting_renew"),
            (
                *_keys(names.barrier_key, names.barrier_parties, names.barrier_passed),
                _OWN_REQUESTS,
            ),
            _keys(names.barrier_channel),
            named=False,
        ),
    ),
    "election": Kind(
        (Election,),
        Uses(
            _scripts("fenced_lock", "acquire release")
            + _scripts("lock", "renew query force_release")
            + _scripts("election", "announce query"),
            (
                *_keys(names.election_key, _ELECTION_TOKEN, names.election_leader),
                KeyPattern(_OF_ELECTION(_OWN_REQUESTS.of), varied=True),
            ),
            (*_ELECTION_HEARD, KeyPattern(names.election_news)),
            named=False,
            queue=_ELECTION_QUEUE,
        ),
        Sight(names.election_key, _ELECTION_TOKEN),
        forced.by_its_class(_election),
        names.election_key,
    ),
}
"""Name of the factory on the client -> the kind."""


def seen() -> Mapping[str, Sight]:
    """Return how the reader recognizes each kind that it can."""
    return {name: kind.sight for name, kind in KINDS.items() if kind.sight is not None}


def sight_of(kind: str) -> Sight:
    """Return how the reader recognizes *kind*, which it has told of."""
    sight = KINDS[kind].sight
    assert sight is not None
    return sight


def channel_of(kind: str, name: str) -> str:
    """Return the channel of the releases of the object *name*."""
    uses = KINDS[kind].uses
    assert uses is not None  # whatever the reader recognizes
    return uses.channels[0].of(name)


def force_release(session: Session, kind: str, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of *holder*, which may be a permit, on *name*; tell it the *reason*.

    Returns:
        Whether *holder* held the lock until now, or may have, because a reply was lost.

    Raises:
        ConfigError: nobody holds an object of this *kind*.

    Cost:
        Three round trips at most, and one more if the hold ended meanwhile.
    """
    breaks = KINDS[kind].breaks
    if breaks is None:
        raise ConfigError(f"{name!r} is a {kind}: nobody holds it, so no hold can be broken")
    return (yield from breaks(session, name, holder, reason))
