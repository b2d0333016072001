"""Breaking one hold: an operator names the holder, and nobody else loses anything.

The holder's own release script does it. The script compares and releases in one step: it changes
nothing if another owner holds the lock by now. Before that, a note is left that tells the holder
why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.insight.forced_note import leave_note, take_note_back
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.model import names
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.scripts import forced as scripts
from interlock._core.scripts.election import election_release
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Eval, Op
    from interlock._core.upkeep.session import Session

_PLAIN: dict[str, type[LockBase]] = {"lock": Lock, "fair_lock": FairLock, "fenced_lock": FencedLock}


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
    if kind == "read_write_lock":
        side = WriteLock if holder.endswith(":write") else ReadLock
        return (yield from side(session, name).force_release_of(holder, reason))
    if kind in _PLAIN:
        return (yield from _PLAIN[kind](session, name).force_release_of(holder, reason))
    key = session.key(name)
    call: Eval[bool] | Eval[int]
    if kind == "group_lock":
        channel = names.lock_channel(key)
        call = scripts.group_lock_break(key, holder, session.publish, channel)
    elif kind == "leased_semaphore":
        call = LeasedSemaphore(session, name).release_ids(holder)
    elif kind == "election":
        call = election_release(
            names.election_key(key),
            holder,
            session.publish,
            names.election_channel(key),
            names.election_news(key),
        )
        key = names.election_key(key)
    else:
        raise ConfigError(f"{name!r} is a {kind}: nobody holds it, so no hold can be broken")
    yield from leave_note(session, key, holder, reason)
    released = bool((yield from session.persist(call))) or call.unknown > 0
    if released:
        session.events.force_released(name, kind, holder, reason)
    else:
        yield from take_note_back(session, key, holder, reason)
    return released
