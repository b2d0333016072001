"""The question to replicas that is sent after scripts, and the meaning of the answers.

WAIT counts the replicas that have the writes of its connection. It takes a number, not "all". So
INFO is sent with it in the same write, and tells how many replicas are connected. The next WAIT
asks for that number. If a WAIT has asked for too few, it is sent once more.

Prior art: syncedEval of Redisson 4.7.0, which learns the number beforehand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from interlock._links.resp import ReplyError, pack
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.replication import Replication
    from interlock._links.connection import Connection
    from interlock.options import ReplicaPolicy

_DEMOTED = re.compile("^UNBLOCKED|cannot be used with replica")
_CONNECTED = re.compile(rb"connected_slaves:(\d+)")
_INFO = pack(("INFO", "replication"))
REFUSED_WAIT = 0.01
"""Seconds that a refused caller waits for what replicas say, to keep the connection."""


def questions(link: Connection, calls: Sequence[Eval[object]]) -> list[bytes]:
    """Return what asks about the grants of *calls*, which share a policy, if that is wanted."""
    wishes = [call.replication for call in calls if call.replication is not None]
    if not wishes:
        return []
    policy = wishes[0].policy
    name = ("WAITAOF", 1) if policy.fsync else ("WAIT",)
    wait = pack((*name, _number(link, policy), max(1, round(patience(calls) * 1000))))
    return [wait, _INFO] if policy.count == "all" else [wait]


def patience(calls: Sequence[Eval[object]]) -> float:
    """Return the seconds that the replicas are given."""
    return max(call.replication.timeout for call in calls if call.replication is not None)


def _number(link: Connection, policy: ReplicaPolicy) -> int:
    """Return how many replicas must have the grants, as far as is known."""
    if policy.count != "all":
        return policy.count
    # A primary that is cut off from all of its replicas counts 0 of them. That must not be enough.
    return max(link.replicas, 1 if policy.mode == "required" else 0)


def confirm(
    link: Connection, calls: Sequence[Eval[object]], replies: list[object], timeout: float
) -> None:
    """Wait for the replicas; put an error in place of each grant that they do not confirm.

    Args:
        link: has sent the `questions`.
        calls: the scripts.
        replies: the final replies to them, or errors.
        timeout: seconds for a reply, beside those that the replicas have.
    """
    asked, seconds = questions(link, calls), patience(calls)
    grants: list[tuple[int, Eval[object], Replication]] = [
        (place, call, call.replication)
        for place, (call, reply) in enumerate(zip(calls, replies, strict=True))
        if call.replication is not None and call.replication.concerns(call.script.decode, reply)
    ]
    if not grants:
        # The answer comes at once unless replicas lag behind what others wrote.
        link.skip(len(asked), REFUSED_WAIT)
        return
    policy = grants[0][2].policy
    told: Any = link.replies(len(asked), seconds + timeout)
    before, acknowledged, here = _number(link, policy), 0, 1
    while not (wrong := [str(each) for each in told if isinstance(each, ReplyError)]):
        here, acknowledged = told[0] if policy.fsync else (1, told[0])
        if policy.count == "all":
            found = _CONNECTED.search(told[1])
            link.replicas = int(found[1]) if found else 0
        wanted = _number(link, policy)
        if acknowledged >= wanted or before >= wanted:
            break
        told, before = link.exchange(questions(link, calls), seconds + timeout), wanted
    problem = f"its server cannot tell what replicas have ({wrong[0]})" if wrong else ""
    if not here and policy.mode == "required":
        problem = f"its server did not have it on disk in {seconds:g} s"
    for place, call, replication in grants:
        try:
            if _DEMOTED.search("".join(wrong)):  # before others had it
                error = link.refusal(f"READONLY {wrong[0]}", call)
                if isinstance(error, ServerUnavailableError):
                    error.sent = True
                raise error
            replication.conclude(acknowledged, _number(link, policy), link.where, problem)
        except InterlockError as error:
            replies[place] = error
