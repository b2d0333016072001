"""The script that condition and barrier share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import kept, load, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

_WAITING_RENEW = load("waiting_renew", kept)


def waiting_renew(
    leases: Sequence[str], lease: float, ids: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Renew the waiters *ids* for another *lease*, one for each sorted set of *leases*."""
    return Eval(_WAITING_RENEW, tuple(leases), (milliseconds(lease), *ids), deadline)
