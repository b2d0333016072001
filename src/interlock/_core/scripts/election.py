"""The scripts of the election; those of the fenced lock acquire, renew and release it."""

from __future__ import annotations

from typing import NamedTuple

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    ReplyShapeError,
    Variants,
    done,
    load,
    many,
    seconds,
    text,
)


class Leader(NamedTuple):
    """Who leads, according to the server.

    Attributes:
        remaining: seconds that are left of the lease.
        holder: the hash field, ``"<client id>:<number>"``.
        details: token, candidate, host, pid, and epoch seconds of the start; None until announced.
    """

    remaining: float
    holder: str
    details: tuple[int, str, str, int, int] | None


def _whole(reply: object) -> int:
    digits = text(reply)
    if not digits.isascii() or not digits.isdigit():
        raise ReplyShapeError(f"expected a number in the record of the leader, got {reply!r}")
    return int(digits)


def _leader(reply: object) -> Leader | None:
    if reply is None:
        return None
    match many(reply):
        case [remaining, holder]:
            return Leader(seconds(remaining), text(holder), None)
        case [remaining, holder, token, candidate, host, pid, since]:
            details = (_whole(token), text(candidate), text(host), _whole(pid), _whole(since))
            return Leader(seconds(remaining), text(holder), details)
        case _:
            raise ReplyShapeError(f"expected a PTTL and a holder, got {reply!r}")


_ELECTION_QUERY = load("election_query", _leader)
_ELECTION_ANNOUNCE = Variants("election_announce", done)


def election_query(election: str, leader: str, *, deadline: float = NEVER) -> Eval[Leader | None]:
    """Tell who leads."""
    return Eval(_ELECTION_QUERY, (election, leader), (), deadline)


def election_announce(
    election: str,
    leader: str,
    holder: str,
    token: int,
    candidate: str,
    host: str,
    pid: int,
    publish: str,
    news: str,
    *,
    deadline: float = NEVER,
) -> Eval[bool]:
    """Record who leads; False if the term is over."""
    args = (holder, token, candidate, host, pid, news)
    return Eval(_ELECTION_ANNOUNCE[publish], (election, leader), args, deadline)
