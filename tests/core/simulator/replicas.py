"""The replicas of a simulated server.

How long each takes to have what the primary wrote, and what WAIT makes of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import ReplicationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.replication import Replication


def patience(calls: Sequence[Eval[object]]) -> float:
    """Return how many seconds the sender of *calls* waits for replicas besides."""
    return max(
        (call.replication.timeout for call in calls if call.replication is not None), default=0.0
    )


def confirm(
    lags: Sequence[float], calls: Sequence[Eval[object]], replies: list[object], where: str
) -> float:
    """Have confirmed what was granted; return the seconds that the slowest of it takes.

    Args:
        lags: seconds after which each replica acknowledges; infinite for one that does not.
        calls: what was executed.
        replies: to each; in the place of what too few replicas have comes the error.
        where: the primary.
    """
    longest = 0.0
    for place, call in enumerate(calls):
        if call.replication is not None and call.replication.concerns(
            call.script.decode, replies[place]
        ):
            seconds, acknowledged, wanted = _outcome(lags, call.replication)
            longest = max(longest, seconds)
            try:
                call.replication.conclude(acknowledged, wanted, where)
            except ReplicationError as error:
                replies[place] = error
    return longest


def _outcome(lags: Sequence[float], asked: Replication) -> tuple[float, int, int]:
    """Return how long a WAIT takes, how many replicas it counts, and how many were wanted."""
    policy = asked.policy
    least = 1 if policy.mode == "required" else 0
    wanted = max(len(lags), least) if policy.count == "all" else policy.count
    ordered = sorted(lags)
    enough = wanted <= len(ordered)
    seconds = min(asked.timeout, max(ordered[:wanted], default=0.0) if enough else asked.timeout)
    return seconds, sum(lag <= seconds for lag in ordered), wanted
