"""The scripts of the election; that of all locks renews it."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.replies import Refusal, freed, held_or_refused
from interlock._core.scripts.script import Grant, ReplyShapeError, many, seconds, text

Leader: TypeAlias = tuple[float, str, int, str, str, int, int]
"""Seconds that are left of the lease, holder, token, candidate, host, pid, and since when."""


def _held_or_left(reply: Any) -> Grant | float:
    """Read the answer to a try without the queue."""
    answer = held_or_refused(reply)
    return answer.left if isinstance(answer, Refusal) else answer


def _whole(reply: object) -> int:
    digits = text(reply)
    if not digits.isascii() or not digits.isdigit():
        raise ReplyShapeError(f"expected a number in the record of the leader, got {reply!r}")
    return int(digits)


def _leader(reply: object) -> Leader | None:
    if reply is None:
        return None
    match many(reply):
        case [remaining, holder, token, candidate, host, pid, since]:
            known = seconds(remaining), text(holder), _whole(token), text(candidate)
            return *known, text(host), _whole(pid), _whole(since)
        case _:
            raise ReplyShapeError(f"expected the record of the leader, got {reply!r}")


FIRST_ASK: Final = Variants("election_ask", _held_or_left)
ASK: Final = Variants("election_ask", held_or_refused, patient=True)
RELEASE: Final = Variants("election_release", freed)
QUERY: Final = load("election_query", _leader)
