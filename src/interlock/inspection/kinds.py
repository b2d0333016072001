"""The catalogue of kinds: one row for each kind of object, with all that operators need to know.

Each row is named after the factory on the client. The reader of locks, the forced release, the
rights and the tests ask the catalogue, so to all of them a new kind is one more row. A client that
only locks does not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias

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


class Core(Protocol):
    """What each class of a kind has."""

    kind: str


def itself(name: str) -> str:
    """Return *name*: most objects have a key that is called like them."""
    return name


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the catalogue.

    Its rights follow from its scripts; a kind that is made of others has none. Cards and notes know
    it by its key. The reader looks at *seen_at*, or else at that key, which is of *type* in the
    words of the command TYPE; it does not tell of a kind without one.

    Attributes:
        breaks: how an operator ends one hold; None if nobody holds such an object, or if the
            reader takes it for another kind.
    """

    cores: tuple[type[Core], ...]
    scripts: tuple[str, ...] = ()
    channel: Named | None = None
    breaks: forced.Break | None = None
    key: Named = itself
    type: str = ""
    seen_at: Named | None = None
    token: Named | None = None

    @property
    def shared(self) -> bool:
        """Return whether a waiter can go on although most holders stay.

        A read/write lock is not shared: a writer waits for each reader.
        """
        return all(getattr(core, "shared", False) for core in self.cores)

    @property
    def looked_at(self) -> Named:
        """Return what leads from the name to the key that the reader looks at."""
        return self.seen_at or self.key

    @property
    def apart(self) -> bool:
        """Return whether that key has another name than the object."""
        return self.looked_at is not itself


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


def _scripts(prefix: str, words: str) -> tuple[str, ...]:
    return tuple([f"{prefix}_{word}" for word in words.split()])


def _election(session: Session, name: str) -> Election:
    """Return an election for an operator, who is no candidate."""
    return Election(session, name, None, lambda: ("", 0))


def _channel_of_election(name: str) -> str:
    return names.lock_channel(names.election_key(name))


def _token_of_election(name: str) -> str:
    return names.fence_token(names.election_key(name))


_LOCK = (
    *_scripts("lock", "acquire release renew pass_locally force_release query set_lease give"),
    *_scripts("locks", "acquire release"),
)

KINDS = {
    "lock": Kind((Lock,), _LOCK, names.lock_channel, forced.by_its_class(Lock), type="hash"),
    "fair_lock": Kind(
        (FairLock,),
        (*_scripts("fair_lock", "acquire release force_release"), "lock_renew", "lock_query"),
        names.lock_channel,
        forced.by_its_class(FairLock),
        type="hash",
    ),
    "fenced_lock": Kind(
        (FencedLock,),
        _LOCK + _scripts("fenced_lock", "acquire release"),
        names.lock_channel,
        forced.by_its_class(FencedLock),
        type="hash",
        token=names.fence_token,
    ),
    "read_write_lock": Kind(
        (ReadLock, WriteLock),
        _scripts("read_lock", "acquire release renew")
        + _scripts("write_lock", "acquire release")
        + _scripts("read_write_lock", "query force_release")
        + ("lock_renew",),
        names.read_write_channel,
        forced.read_write_lock,
        type="hash",
    ),
    "group_lock": Kind(
        (GroupLock,),
        _scripts("group_lock", "acquire release renew force_release query"),
        names.lock_channel,
        forced.group_lock,
        type="hash",
    ),
    # The reader takes it for a plain lock: on a server it is one.
    "spin_lock": Kind((SpinLock,), _LOCK),
    "multi_lock": Kind((MultiLock,)),
    "red_lock": Kind((RedLock,)),
    "leased_semaphore": Kind(
        (LeasedSemaphore,),
        _scripts("leased_semaphore", "acquire release renew update query add set leave try_set")
        + _scripts("semaphore", "delete expire"),
        names.semaphore_channel,
        forced.leased_semaphore,
        type="zset",
        seen_at=names.permit_leases,
    ),
    # It is the leased semaphore of its name.
    "limited": Kind((LimitedSemaphore,)),
    "semaphore": Kind(
        (Semaphore,),
        _scripts("semaphore", "acquire release drain undo try_set query leave")
        + _scripts("semaphore", "delete add set total expire"),
        names.semaphore_channel,
        type="string",
    ),
    "count_down_latch": Kind(
        (CountDownLatch,),
        (*_scripts("latch", "try_set set_up count_down query delete"), "semaphore_expire"),
        names.latch_channel,
        type="string",
    ),
    "event": Kind((Event,), _scripts("event", "set clear query"), names.event_channel),
    "condition": Kind(
        (Condition,),
        # This is for a condition of a plain lock.
        (*_LOCK, *_scripts("condition", "enlist look notify end leave"), "waiting_renew"),
        names.condition_channel,
    ),
    "barrier": Kind(
        (Barrier,),
        (*_scripts("barrier", "arrive look end pass query leave"), "waiting_renew"),
        names.barrier_channel,
    ),
    "election": Kind(
        (Election,),
        _scripts("fenced_lock", "acquire release")
        + _scripts("lock", "renew query force_release")
        + _scripts("election", "announce query"),
        _channel_of_election,
        forced.by_its_class(_election),
        names.election_key,
        type="hash",
        token=_token_of_election,
    ),
}
"""Name of the factory on the client -> the kind."""


def seen() -> dict[str, Kind]:
    """Return the kinds of which the reader tells."""
    return {name: kind for name, kind in KINDS.items() if kind.type}


def force_release(session: Session, kind: str, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of *holder*, which may be a permit, on *name*; tell it the *reason*.

    Return whether *holder* held the lock until now, or may have, because a reply was lost. Raise
    ConfigError if nobody holds an object of this *kind*.
    """
    breaks = KINDS[kind].breaks
    if breaks is None:
        raise ConfigError(f"{name!r} is a {kind}: nobody holds it, so no hold can be broken")
    return (yield from breaks(session, name, holder, reason))
