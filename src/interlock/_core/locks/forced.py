"""Releases by force of what an operator knows by its kind and name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.release import break_holds, break_one
from interlock._core.model.names import WRITES, limited_permits, lock_channel
from interlock._core.objects.election import Election
from interlock._core.scripts.group_lock import group_break
from interlock._core.scripts.permits import leased_break, limited_break

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from interlock._core.model.effects import Eval, Op
    from interlock._core.upkeep.session import Session

    Break: TypeAlias = Callable[[Session, str, str, str], Op[bool]]
    """Break the hold of a holder on a name, for a reason; return whether the holder had one."""


def _by_its_class(kind: Callable[[Session, str, str], Lock]) -> Break:
    def break_hold(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
        return break_holds(kind(session, name, session.key(name)), holder, reason)

    return break_hold


def _election(session: Session, name: str, key: str) -> Election:
    return Election(session, name, key, None, _no_process)


def _no_process() -> tuple[str, int]:
    return "", 0  # an operator is no candidate


lock = _by_its_class(Lock)
fair_lock = _by_its_class(FairLock)
fenced_lock = _by_its_class(FencedLock)
election = _by_its_class(_election)


def read_write_lock(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of a reader, or of the writer."""
    side = WriteLock if holder.endswith(WRITES) else ReadLock
    return break_holds(side(session, name, session.key(name)), holder, reason)


def group_lock(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold on all values of *holder*."""
    key = session.key(name)
    call = group_break(key, holder, session.publish, lock_channel(key))
    return _break(session, "group lock", name, (key, holder, reason), call)


def leased_semaphore(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Take the permit with the id *holder* back."""
    key = session.key(name)
    call = leased_break(key, holder, session.publish)
    return _break(session, "leased semaphore", name, (key, holder, reason), call)


def limited(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Take the permit of *holder* back."""
    key = session.key(name)
    call = limited_break(key, holder, session.publish)
    return _break(session, "limit", name, (limited_permits(key), holder, reason), call)


def _break(
    session: Session, kind: str, name: str, told: tuple[str, str, str], call: Eval[bool] | Eval[int]
) -> Op[bool]:
    """Break a hold by *call*; *told* has the key, the holder and the reason for the note."""
    key, holder, reason = told
    freed = yield from break_one(session, key, holder, reason, call)
    if freed:
        session.events.force_released(name, kind, holder, reason)
    return freed
