"""The scripts of permits with leases, and of the number of a leased semaphore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interlock._core.model.effects import Eval
from interlock._core.model.names import (
    leased_queue,
    limited_channel,
    limited_permits,
    limited_queue,
    permit_leases,
    semaphore_channel,
    shares_channels,
)
from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.replies import broken, freed, held_or_refused
from interlock._core.scripts.script import done, grant_or_left, kept, milliseconds, number, pair

if TYPE_CHECKING:
    from collections.abc import Sequence


def _counts(reply: object) -> tuple[int, int]:
    free, held = pair(reply)
    return number(free), number(held)


LIMITED_TRY: Final = Variants("limited_ask", grant_or_left)
LIMITED_ASK: Final = Variants("limited_ask", held_or_refused, patient=True)
LIMITED_RELEASE: Final = Variants("limited_release", freed)
LEASED_TRY: Final = Variants("leased_ask", grant_or_left)
LEASED_ASK: Final = Variants("leased_ask", held_or_refused, patient=True)
LEASED_RELEASE: Final = Variants("leased_release", freed)
LEASED_QUERY: Final = Variants("leased_query", _counts)
LEASED_CHANGE: Final = Variants("leased_change", done)
_RENEW: Final = load("permits_renew", kept)
_LIMITED_QUERY: Final = load("limited_query", number)
_LIMITED_BREAK: Final = Variants("limited_release", broken)
_LEASED_BREAK: Final = Variants("leased_release", broken)


def limited_query(name: str) -> Eval[int]:
    """Tell how many permits of the limit at the key *name* are held."""
    return Eval(_LIMITED_QUERY, (limited_permits(name),), ())


def limited_break(name: str, holder: str, publish: str) -> Eval[int]:
    """Give back the permit of *holder* of the limit at the key *name*; see `leased_break`."""
    queue = () if shares_channels(name) else (limited_queue(name),)
    keys, args = (limited_permits(name), *queue), (holder, limited_channel(name), "-")
    return Eval(_LIMITED_BREAK[publish], keys, args, spare_keys=len(queue))


def leased_break(semaphore: str, permit: str, publish: str) -> Eval[int]:
    """Give back the permit with the id *permit*, whoever has it; the next one is served.

    Return 1 if somebody had it, else 0.
    """
    queue = () if shares_channels(semaphore) else (leased_queue(semaphore),)
    keys = (semaphore, permit_leases(semaphore), *queue)
    args = (permit, semaphore_channel(semaphore), "-")
    return Eval(_LEASED_BREAK[publish], keys, args, spare_keys=len(queue))


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
