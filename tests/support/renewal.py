"""Renewal soon, of long leases: a busy machine has time for it, and no test waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SOON = 0.3
"""Seconds between two renewals."""


def renews_soon(client: T) -> T:
    """Make *client* renew at intervals of `SOON`. Its leases last much longer.

    Call it before anything is held. With a short lease instead, a busy machine renews too late.
    """
    known: Any = client
    known._driver.session.watchdog.period = SOON
    return client


def grown(hold: Any) -> Callable[[], bool]:
    """Return a question: was *hold* renewed since it was asked last? Only then more is left."""
    left: float = hold.remaining

    def ask() -> bool:
        nonlocal left
        before, left = left, hold.remaining
        return left > before

    return ask
