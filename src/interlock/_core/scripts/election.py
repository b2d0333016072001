"""The scripts of the election; that of all locks renews it."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from interlock._core.scripts import replies
from interlock._core.scripts.replies import Grant, Refusal
from interlock._core.scripts.source import Variants, load

Leader: TypeAlias = tuple[float, str, int, str, str, int, int]
"""Seconds that are left of the lease, holder, token, candidate, host, pid, and since when."""


def _held_or_left(reply: Any) -> Grant | float:
    """Read the answer to a try without the queue."""
    answer = replies.held_or_refused(reply)
    return answer.left if isinstance(answer, Refusal) else answer


def _leader(reply: object) -> Leader | None:
    if reply is None:
        return None
    try:
        left, *told = replies.many(reply)
        holder, token, candidate, host, pid, since = map(replies.text, told)
        return replies.seconds(left), holder, int(token), candidate, host, int(pid), int(since)
    except ValueError:
        raise replies.ReplyShapeError(f"expected the record of the leader, got {reply!r}") from None


FIRST_ASK: Final = Variants("election_ask", _held_or_left)
ASK: Final = Variants("election_ask", replies.held_or_refused)
RELEASE: Final = Variants("election_release", replies.freed)
QUERY: Final = load("election_query", _leader)
