"""What replicas must have of a grant before it counts.

Theory. Replication is asynchronous: a primary that dies takes with it what it has granted and not
handed on, and the replica that is promoted grants it again. WAIT tells how many replicas have
what was written. That narrows the window and does not close it: a replica without the grant may
be promoted all the same, unless all of them had to have it.

Rules:

* Only what is granted is confirmed: a lock, a permit. WAIT goes out behind the script in one
  write, because a script cannot call it; the reply to a try that was refused is not kept waiting
  for it.
* Too few under ``required`` is an error of a command that was executed (``sent``), so that
  whoever acquires undoes it as anything else whose outcome does not suit.
* Re-entries, renewals and releases are not waited for. They reach the replicas as soon as they
  can, with WAIT or without it, and a replica that lacks them has the lock a little shorter, or
  longer, than the primary: until then nobody else gets it there.
* Its time comes on top of the caller's and is at most a third of the lease, which runs meanwhile.

Source: RedissonBaseLock.syncedEval, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import InterlockError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.options import ReplicaPolicy

SHARE = 3
"""Replicas are given this fraction of the lease at most."""


class Replication:
    """The wish to hear from replicas about one grant, and what was heard.

    Args:
        policy: the client's.
        what: the object, for messages.
        granted: tells from a decoded answer whether there is anything to be confirmed.
        lease: seconds for which it is granted.

    Attributes:
        timeout: seconds that the replicas are given.
        acknowledged: how many have it; None as long as they were not asked, or nothing was granted.
    """

    __slots__ = ("_granted", "_what", "acknowledged", "policy", "timeout")

    def __init__(
        self,
        policy: ReplicaPolicy,
        what: str,
        granted: Callable[[object], bool],
        lease: float,
    ) -> None:
        self.policy = policy
        self.timeout = min(policy.timeout, lease / SHARE)
        self.acknowledged: int | None = None
        self._what = what
        self._granted = granted

    def concerns(self, decode: Callable[[object], object], reply: object) -> bool:
        """Return whether a *reply* that *decode* reads, or an error, is a grant for replicas."""
        return not isinstance(reply, InterlockError) and self._granted(decode(reply))

    def conclude(self, acknowledged: int, wanted: int, where: str, problem: str = "") -> None:
        """Note that *acknowledged* replicas of *wanted* have it.

        Args:
            acknowledged: how many have it.
            wanted: how many were asked for.
            where: the primary, for messages.
            problem: why they could not be counted, or what else is missing.

        Raises:
            ReplicationError: those are too few, or *problem*.
        """
        self.acknowledged = acknowledged
        if problem or (self.policy.mode == "required" and acknowledged < wanted):
            found = (
                problem or f"{acknowledged} of {wanted} replicas acknowledged in {self.timeout:g} s"
            )
            raise ReplicationError(
                f"{self._what} is given back at {where}: {found}",
                wanted=wanted,
                acknowledged=acknowledged,
            )
