"""Breaking one hold: an operator names the holder, and nobody else loses anything.

The holder's own release script does it. The script compares and releases in one step: it changes
nothing if another owner holds the lock by now. Before that, a note is left that tells the holder
why.

The catalogue of kinds names the way of each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.insight.forced_note import leave_note, take_note_back
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.model import names
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.scripts import forced as scripts
from interlock._core.upkeep.idempotency import break_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Eval, Op
    from interlock._core.upkeep.session import Session

    Break: TypeAlias = Callable[[Session, str, str, str], Op[bool]]
    """Break the hold of a holder on a name, for a reason; return whether the holder had one."""


def by_its_class(core: Callable[[Session, str], LockBase]) -> Break:
    """Return the way for a lock that is known by its name alone."""

    def breaks(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
        return (yield from core(session, name).force_release_of(holder, reason))

    return breaks


def read_write_lock(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold of a reader, or of the writer."""
    side = WriteLock if holder.endswith(":write") else ReadLock
    return (yield from side(session, name).force_release_of(holder, reason))


def group_lock(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Break the hold on all values of *holder*."""
    key = session.key(name)
    call = scripts.group_lock_break(key, holder, session.publish, names.lock_channel(key))
    call = break_once(session, key, call)
    return (yield from _break(session, "group_lock", name, (key, holder, reason), call))


def leased_semaphore(session: Session, name: str, holder: str, reason: str) -> Op[bool]:
    """Take the permit with the id *holder* back."""
    call = LeasedSemaphore(session, name).release_ids(holder)
    told = session.key(name), holder, reason
    return (yield from _break(session, "leased_semaphore", name, told, call))


def _break(
    session: Session, kind: str, name: str, told: tuple[str, str, str], call: Eval[bool] | Eval[int]
) -> Op[bool]:
    """Break a hold by *call*; *told* has the key, the holder and the reason for the note."""
    yield from leave_note(session, *told)
    released = bool((yield from session.persist(call))) or call.unknown > 0
    if released:
        session.events.force_released(name, kind, *told[1:])
    else:
        yield from take_note_back(session, *told)
    return released
