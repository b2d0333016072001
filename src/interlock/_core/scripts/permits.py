"""The scripts of permits with leases, and of the number of a leased semaphore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interlock._core.model.effects import Eval
from interlock._core.scripts import replies
from interlock._core.scripts.replies import milliseconds
from interlock._core.scripts.source import Variants, load

if TYPE_CHECKING:
    from collections.abc import Sequence


LIMITED_TRY: Final = Variants("limited_ask", replies.grant_or_left)
LIMITED_ASK: Final = Variants("limited_ask", replies.held_or_refused)
LIMITED_RELEASE: Final = Variants("limited_release", replies.freed)
LEASED_TRY: Final = Variants("leased_ask", replies.grant_or_left)
LEASED_ASK: Final = Variants("leased_ask", replies.held_or_refused)
LEASED_RELEASE: Final = Variants("leased_release", replies.freed)
LEASED_QUERY: Final = Variants("leased_query", replies.counts)
LEASED_CHANGE: Final = Variants("leased_change", replies.done)
_RENEW: Final = load("permits_renew", replies.kept)
LIMITED_QUERY: Final = load("limited_query", replies.number)


def permits_renew(
    permits: Sequence[str],
    lease: float,
    ids: Sequence[str],
    idle: float = 0.0,
    semaphores: Sequence[str] = (),
) -> Eval[list[bool]]:
    """Keep permits for another *lease*: of each of the keys *permits* those with some *ids*.

    With *idle*, keep the *semaphores* for so many seconds. Return for each of the keys whether its
    permits are still held.
    """
    keys, kept_for = (*permits, *semaphores), milliseconds(idle) if idle else 0
    return Eval(_RENEW, keys, (milliseconds(lease), kept_for, *ids))
