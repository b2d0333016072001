"""The reentrant lock: RLock of Redisson. A hash holds one field, the holder, with its depth; its TTL is the lease.

The other kinds copy this file's shape: the scripts and names of one kind of lock, and nothing else.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import names
from interlock._core.effects import NEVER, Eval
from interlock._core.lock_like import LockLike
from interlock._core.scripts import lock as scripts
from interlock._core.scripts.script import GRANTED

if TYPE_CHECKING:
    from interlock._core.holds import Hold
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.scripts.script import Grant
    from interlock._core.session import Session


class Lock(LockLike):
    """A lock that one owner at a time holds."""

    kind = "lock"
    renewal = staticmethod(scripts.lock_renew)
    hands_over = True
    repeats = True

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self.channel = self.queue = names.lock_channel(self.key)

    @property
    def _publish(self) -> str:
        return self._session.publish

    def attempt(self, hold: Hold, lease: float, depth: int, deadline: float) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*."""
        return scripts.lock_acquire(self.key, lease, hold.holder, depth, deadline=deadline)

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*."""
        return scripts.lock_release(self.key, hold.holder, depth, self._publish, self.channel)

    def hand_over_script(self, hold: Hold, heir: Hold) -> Eval[int]:
        """Return the script that makes *heir* the holder instead of *hold*."""
        return scripts.lock_hand_over(self.key, hold.holder, heir.holder, heir.lease)

    def given(self, hold: Hold, sent_at: float) -> bool:
        """Take *hold* as granted by what somebody sent at *sent_at*; tell whether it is held now."""
        return self.accept(hold, sent_at, GRANTED)

    def _force_release_script(self) -> Eval[bool]:
        return scripts.lock_force_release(self.key, self._publish, self.channel)

    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        return scripts.lock_query(self.key, deadline=deadline)
