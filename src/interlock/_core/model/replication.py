"""How replicas confirm a grant before it counts (docs/explanation/replicas.md).

* Only the grant of a lock or a permit is confirmed. A script cannot call WAIT, so WAIT is sent
  behind the script, in the same write. The reply to a refused try does not wait for WAIT.
* Under ``required``, too few replicas count as an error of a command that was executed (``sent``).
  So the acquire is undone, as after any other unwanted outcome.
* The time for WAIT is added to the caller's time. It is at most a third of the lease, which runs
  meanwhile.

Source: RedissonBaseLock.syncedEval, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import InterlockError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.options import ReplicaPolicy


class Replication:
    """The confirmation of one grant by replicas: what is wanted, and what they answered.

    Args:
        policy: the client's policy for replicas.
        what: the object, for messages.
        granted: returns whether a decoded reply is a grant.
        lease: seconds for which it is granted.

    Attributes:
        timeout: seconds that the replicas have to answer.
        acknowledged: how many have the grant; None if they were not asked, or nothing was granted.
    """

    __slots__ = ("_granted", "_what", "acknowledged", "policy", "timeout")

    def __init__(
        self, policy: ReplicaPolicy, what: str, granted: Callable[[object], bool], lease: float
    ) -> None:
        self.policy = policy
        self.timeout = min(policy.timeout, lease / 3)
        self.acknowledged: int | None = None
        self._what = what
        self._granted = granted

    def concerns(self, decode: Callable[[object], object], reply: object) -> bool:
        """Return whether *reply* is a grant, which replicas must confirm.

        *reply* is an error, which is not a grant, or a reply that *decode* reads.
        """
        return not isinstance(reply, InterlockError) and self._granted(decode(reply))

    def conclude(self, acknowledged: int, wanted: int, where: str, problem: str = "") -> None:
        """Note that *acknowledged* of the *wanted* replicas have the grant.

        Args:
            acknowledged: how many have the grant.
            wanted: how many were asked for.
            where: the primary, for messages.
            problem: why they could not be counted, or what else is missing.

        Raises:
            ReplicationError: there is a *problem*, or too few have it and they are required.
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
