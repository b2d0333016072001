"""The scripts of the group lock; *fields* stand for its values (`highway_hash.field`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.lock import status
from interlock._core.scripts.script import (
    Grant,
    Variants,
    done,
    grant_or_left,
    kept,
    load,
    milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.scripts.lock import LockStatus

_GROUP_LOCK_ACQUIRE = load("group_lock_acquire", grant_or_left)
_GROUP_LOCK_RELEASE = Variants("group_lock_release", done)
_GROUP_LOCK_RENEW = load("group_lock_renew", kept)
_GROUP_LOCK_FORCE_RELEASE = Variants("group_lock_force_release", done)
_GROUP_LOCK_QUERY = load("group_lock_query", status)


def group_lock_acquire(
    group: str,
    lease: float,
    holder: str,
    depth: int,
    fields: Sequence[str],
    *,
    deadline: float = NEVER,
) -> Eval[Grant | float]:
    """Reach *depth* on all of *fields*; a grant, or the seconds until the others' leases end."""
    args: tuple[str | int, ...] = (milliseconds(lease), holder, depth, *fields)
    return Eval(_GROUP_LOCK_ACQUIRE, (group,), args, deadline)


def group_lock_release(
    group: str, holder: str, depth: int, publish: str, channel: str, fields: Sequence[str]
) -> Eval[bool]:
    """Go down to *depth*; False when *holder* does not hold all of *fields*."""
    args: tuple[str | int, ...] = (holder, depth, channel, *fields)
    return Eval(_GROUP_LOCK_RELEASE[publish], (group,), args)


def group_lock_renew(
    group: str,
    lease: float,
    holders: Sequence[str],
    fields: Sequence[str],
    *,
    deadline: float = NEVER,
) -> Eval[list[bool]]:
    """Keep all of *fields* for another *lease*.

    Return for each of *holders* whether it still holds all of them.
    """
    args: tuple[str | int, ...] = (milliseconds(lease), len(holders), *holders, *fields)
    return Eval(_GROUP_LOCK_RENEW, (group,), args, deadline)


def group_lock_force_release(
    group: str, publish: str, channel: str, fields: Sequence[str]
) -> Eval[bool]:
    """Free all of *fields*, no matter who holds them; True when one was locked."""
    return Eval(_GROUP_LOCK_FORCE_RELEASE[publish], (group,), (channel, *fields))


def group_lock_query(
    group: str, fields: Sequence[str], *, deadline: float = NEVER
) -> Eval[LockStatus]:
    """Tell who holds some of *fields*, how deep (0: not all of them), and for how long."""
    return Eval(_GROUP_LOCK_QUERY, (group,), tuple(fields), deadline)
