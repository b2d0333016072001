"""Releases by force of what an operator knows by its kind and name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import ReadLock
from interlock._core.locks.release import break_holds, break_one
from interlock._core.model.effects import Eval
from interlock._core.model.names import limited_permits, lock_channel
from interlock._core.objects.election import Election
from interlock._core.objects.number import LeasedNumber
from interlock._core.objects.permits import LeasedPermits, LimitedPermits
from interlock._core.scripts.group_lock import GROUP_RELEASE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session

    Break: TypeAlias = Callable[[Session, str, str, str], Op[bool]]
    """Break the hold of a holder on a name, for a reason; return whether the holder had one."""


def _by_its_class(kind: Callable[[Session, str, str], Lock]) -> Break:
    def break_hold(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
        lock = kind(session, name, session.key(name)).owning(holder.encode())
        return break_holds(lock, holder, reason)

    return break_hold


def _election(session: Session, name: str, key: str) -> Election:
    return Election(session, name, key, None, lambda: ("", 0))  # an operator is no candidate


lock = _by_its_class(Lock)
fair_lock = _by_its_class(FairLock)
fenced_lock = _by_its_class(FencedLock)
read_write_lock = _by_its_class(ReadLock)
election = _by_its_class(_election)


def _by_call(
    kind: str, call: Callable[[Session, str, str], Eval[Any]], held_at: Callable[[str], str] = str
) -> Break:
    """Return what breaks a hold by one *call*; its note is for the key *held_at*."""

    def break_hold(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
        key = session.key(name)
        breaks = call(session, key, holder)
        freed = yield from break_one(session, held_at(key), holder, reason, breaks)
        if freed:
            session.events.force_released(name, kind, holder, reason)
        return freed

    return break_hold


def _group(session: Session, key: str, holder: str) -> Eval[Any]:
    return Eval(GROUP_RELEASE[session.publish], (key,), (holder, 0, lock_channel(key), "-"))


def _leased(session: Session, key: str, holder: str) -> Eval[Any]:
    number = LeasedNumber(session, key, key)
    return LeasedPermits(session, key, key, number=number).forced(holder)


def _limited(session: Session, key: str, holder: str) -> Eval[Any]:
    return LimitedPermits(session, key, key, 1).forced(holder)


group_lock = _by_call("group lock", _group)
leased_semaphore = _by_call("leased semaphore", _leased)
limited = _by_call("limit", _limited, limited_permits)
