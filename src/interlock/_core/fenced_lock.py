"""The fenced lock: a plain lock whose holds carry a number that only grows.

Theory. A lease cannot stop a holder that was paused beyond it. But a resource that remembers the largest token it has seen
can refuse the writes of an older hold. The token is drawn when a free lock is taken, belongs to the hold, is never read again
(after a loss the counter would give the successor's), and does not change on re-entry.

Source: RFencedLock, Redisson 4.7.0 (redisson-wire 5); Kleppmann 2016; hazards R-30, I-04.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import names
from interlock._core.lock import Lock
from interlock._core.scripts import fenced_lock as scripts

if TYPE_CHECKING:
    from interlock._core.effects import Eval
    from interlock._core.holds import Hold
    from interlock._core.scripts.script import Grant
    from interlock._core.session import Session


class FencedLock(Lock):
    """A plain lock whose holds have tokens."""

    kind = "fenced lock"

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._token_key = names.fence_token(self.key)

    def attempt(self, hold: Hold, lease: float, depth: int, deadline: float) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*."""
        return scripts.fenced_lock_acquire(
            self.key, self._token_key, lease, hold.holder, depth, deadline=deadline
        )
