"""The scripts of the election; those of the fenced lock acquire and renew it."""

from __future__ import annotations

from typing import NamedTuple

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    ReplyShapeError,
    done,
    load,
    load_variants,
    many,
    milliseconds,
    number,
    pair,
    released,
    seconds,
    text,
)


class Look(NamedTuple):
    """What a candidate sees.

    Attributes:
        remaining: seconds that are left of the present term; None if nobody leads.
        candidates: how many clients want the next term.
    """

    remaining: float | None
    candidates: int


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


_NOBODY = -2
"""What PTTL returns for a key that does not exist."""


def _look(reply: object) -> Look:
    remaining, candidates = pair(reply)
    return Look(None if remaining == _NOBODY else seconds(remaining), number(candidates))


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


_ELECTION_LOOK = load("election_look", _look)
_ELECTION_QUERY = load("election_query", _leader)
_ELECTION_ANNOUNCE = load_variants("election_announce", done)
_ELECTION_RELEASE = load_variants("election_release", released)


def election_look(
    election: str, candidates: str, client: str, stay: float, *, deadline: float = NEVER
) -> Eval[Look]:
    """Tell how long the present term still lasts; count *client* for *stay* seconds."""
    return Eval(_ELECTION_LOOK, (election, candidates), (client, milliseconds(stay)), deadline)


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


def election_release(
    election: str, holder: str, publish: str, channel: str, news: str
) -> Eval[int]:
    """End the term; 0 if *holder* does not lead, else 1."""
    return Eval(_ELECTION_RELEASE[publish], (election,), (holder, channel, news))
