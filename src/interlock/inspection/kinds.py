"""The catalogue of kinds: one row for each kind of object, with all that operators need to know.

Each row is named after the factory on the client. The reader of locks, the forced release, the
rights and the tests ask the catalogue. A new kind is one more row, and a place in `Reader.describe`
if its holders do not stand in a hash of its name. A client that only locks does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import ReadLock
from interlock._core.locks.release import break_holds
from interlock._core.model import names
from interlock._core.model.effects import Eval
from interlock._core.model.names import barrier_key, limited_channel, limited_permits
from interlock._core.objects.election import Election
from interlock._core.objects.number import LeasedNumber
from interlock._core.objects.permits import LeasedPermits, LimitedPermits
from interlock._core.scripts.group_lock import GROUP_RELEASE
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session

Named: TypeAlias = Callable[[str], str]
"""From the name of an object to a key or channel of it."""


def itself(name: str) -> str:
    """Return *name*: most objects have a key that is called like them."""
    return name


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the catalogue.

    Its rights follow from its *scripts*; a kind that is made of others has none. Its *core* makes
    what an operator breaks holds of, unless nobody has any. Cards and notes know it by its *key*.
    The reader looks at the key *seen_at*, which is of *type* in the words of the command TYPE; it
    does not tell of a kind without one.
    """

    scripts: tuple[str, ...] = ()
    channel: Named | None = None
    core: Callable[[Session, str, str], Lock] | None = None
    key: Named = itself
    type: str = ""
    seen_at: Named = itself
    token: Named | None = None


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


class _Group(Lock):
    """All values of a group."""

    kind = "group lock"
    waiters_apart = True

    def forced(self, holder: str) -> Eval[Any]:
        args = holder, 0, names.lock_channel(self.key), "-"
        return Eval(GROUP_RELEASE[self.publish], (self.key,), args)


def _leased(session: Session, name: str, key: str) -> LeasedPermits:
    return LeasedPermits(session, name, key, number=LeasedNumber(session, name, key))


def _limited(session: Session, name: str, key: str) -> LimitedPermits:
    return LimitedPermits(session, name, key, 1)


def _election(session: Session, name: str, key: str) -> Election:
    return Election(session, name, key, None, lambda: ("", 0))  # an operator is no candidate


_LOCK = (
    *_scripts("lock", "acquire ask release give renew query"),
    *_scripts("locks", "acquire release"),
)
_RENEWED = _scripts("lock", "renew query")

KINDS = {
    "lock": Kind(_LOCK, names.lock_channel, Lock, type="hash"),
    "fair_lock": Kind(
        _scripts("fair", "ask release") + _RENEWED,
        names.lock_channel,
        FairLock,
        type="hash",
    ),
    "fenced_lock": Kind(
        _LOCK + _scripts("fenced", "acquire ask release"),
        names.lock_channel,
        FencedLock,
        type="hash",
        token=names.fence_token,
    ),
    "read_write_lock": Kind(
        _scripts("read", "acquire ask release renew")
        + _scripts("write", "acquire ask release")
        + _RENEWED,
        names.read_write_channel,
        ReadLock,
        type="hash",
    ),
    "group_lock": Kind(
        _scripts("group", "acquire release renew query"),
        names.lock_channel,
        _Group,
        type="hash",
    ),
    # The reader takes it for a plain lock: on a server it is one.
    "spin_lock": Kind(_LOCK),
    "multi_lock": Kind(),
    "red_lock": Kind(),
    "leased_semaphore": Kind(
        _scripts("leased", "ask release query change") + _scripts("permits", "renew"),
        names.semaphore_channel,
        _leased,
        type="zset",
        seen_at=names.permit_leases,
    ),
    "limited": Kind(
        _scripts("limited", "ask release query") + _scripts("permits", "renew"),
        limited_channel,
        _limited,
        limited_permits,
        type="zset",
        seen_at=limited_permits,
    ),
    "semaphore": Kind(
        _scripts("semaphore", "acquire change"),
        names.semaphore_channel,
        type="string",
    ),
    "count_down_latch": Kind(
        _scripts("latch", "change query"),
        names.latch_channel,
        type="string",
    ),
    "event": Kind(_scripts("event", "change query"), names.event_channel),
    "condition": Kind(
        # Of any lock that it may be of.
        _LOCK
        + _scripts("condition", "wait notify look")
        + _scripts("fenced", "condition_wait")
        + _scripts("write", "condition_wait"),
        names.lock_channel,
    ),
    "barrier": Kind(
        _scripts("barrier", "arrive end query"),
        barrier_key,
    ),
    "election": Kind(
        _scripts("election", "ask release query") + _RENEWED,
        lambda name: names.lock_channel(names.election_key(name)),
        _election,
        names.election_key,
        type="hash",
        seen_at=names.election_key,
        token=lambda name: names.fence_token(names.election_key(name)),
    ),
}
"""Name of the factory on the client -> the kind."""


@cache
def seen() -> Mapping[str, Kind]:
    """Return the kinds of which the reader tells."""
    return {name: kind for name, kind in KINDS.items() if kind.type}


def force_release(session: Session, kind: str, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of *holder*, which may be a permit, on *name*; tell it the *reason*.

    Return whether *holder* held the lock until now, or may have, because a reply was lost. Raise
    ConfigError if nobody holds an object of this *kind*.
    """
    core = KINDS[kind].core
    if core is None:
        raise ConfigError(f"{name!r} is a {kind}: nobody holds it, so no hold can be broken")
    lock = core(session, name, session.key(name)).owning(holder.encode())
    return (yield from break_holds(lock, holder, reason))
