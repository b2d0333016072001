"""The scripts of the group lock; *fields* stand for its values (`highway_hash.field`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from interlock._core.model.effects import Eval
from interlock._core.model.names import lock_channel
from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.locks import status
from interlock._core.scripts.replies import freed
from interlock._core.scripts.script import grant_or_left, kept, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.scripts.locks import LockStatus


GROUP_ACQUIRE: Final = load("group_acquire", grant_or_left)
GROUP_RELEASE: Final = Variants("group_release", freed)

_RENEW: Final = load("group_renew", kept)
_QUERY: Final = load("group_query", status)


def group_lock_renew(
    group: str, lease: float, holders: Sequence[str], fields: Sequence[str]
) -> Eval[list[bool]]:
    """Keep all of *fields* for another *lease*.

    Return for each of *holders* whether it still holds all of them.
    """
    args: tuple[str | int, ...] = (milliseconds(lease), len(holders), *holders, *fields)
    return Eval(_RENEW, (group,), args)


def group_lock_query(group: str, fields: Sequence[str]) -> Eval[LockStatus]:
    """Tell who holds some of *fields*, how deep (0: not all of them), and for how long."""
    return Eval(_QUERY, (group,), tuple(fields))


def group_break(group: str, holder: str, publish: str) -> Eval[Any]:
    """Release all values that *holder* has, for another client."""
    return Eval(GROUP_RELEASE[publish], (group,), (holder, 0, lock_channel(group), "-"))
