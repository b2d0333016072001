"""The scripts of the barrier."""

from __future__ import annotations

from typing import NamedTuple

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    ReplyShapeError,
    Request,
    Variants,
    done,
    load,
    many,
    milliseconds,
    number,
    pair,
    seconds,
    text,
)


class Barrier(NamedTuple):
    """Where a barrier is: its keys and its channel.

    Attributes:
        key: the hash.
        waiting: the sorted set of parties.
        passed: the sorted set of generations that have passed.
        publish: the command for messages, empty for none.
        channel: where parties listen.
    """

    key: str
    waiting: str
    passed: str
    publish: str
    channel: str


class Arrival(NamedTuple):
    """What became of an arrival.

    Attributes:
        generation: the generation of the party.
        place: the party's index in it. -1: the barrier is broken. -2: it has another
            number of parties, in *generation*.
    """

    generation: str
    place: int


def _arrival(reply: object) -> Arrival:
    generation, index = pair(reply)
    return Arrival(text(generation), number(index))


def _stand(reply: object) -> float | bool:
    match many(reply):
        case [0, remaining]:
            return seconds(remaining)
        case [1]:
            return True
        case [2]:
            return False
        case _:
            raise ReplyShapeError(f"expected {{0, milliseconds}}, {{1}} or {{2}}, got {reply!r}")


def _counts(reply: object) -> tuple[int, bool]:
    waiting, broken = pair(reply)
    return number(waiting), number(broken) == 1


_BARRIER_ARRIVE = Variants("barrier_arrive", _arrival)
_BARRIER_LOOK = Variants("barrier_look", _stand)
_BARRIER_END = Variants("barrier_end", done)
_BARRIER_QUERY = load("barrier_query", _counts)
_BARRIER_LEAVE = load("barrier_leave", number)


def barrier_arrive(
    barrier: Barrier,
    request: Request,
    party: str,
    parties: int,
    lease: float,
    kept_for: float,
    *,
    deadline: float = NEVER,
) -> Eval[Arrival]:
    """Count *party* as arrived; the last one of *parties* ends the generation."""
    keys = (barrier.key, barrier.waiting, barrier.passed, request.key, request.old_latch)
    times = (milliseconds(lease), milliseconds(request.ttl), milliseconds(kept_for))
    args = (party, parties, *times, barrier.channel)
    return Eval(_BARRIER_ARRIVE[barrier.publish], keys, args, deadline)


def barrier_look(
    barrier: Barrier, generation: str, kept_for: float, party: str = "", *, deadline: float = NEVER
) -> Eval[float | bool]:
    """Return True if *generation* passed, False if broken, else the seconds until a lease ends.

    If *party* is given, that party gives up, which breaks the barrier.
    """
    keys = (barrier.key, barrier.waiting, barrier.passed)
    args = (generation, party, milliseconds(kept_for), barrier.channel)
    return Eval(_BARRIER_LOOK[barrier.publish], keys, args, deadline)


def barrier_end(barrier: Barrier, request: Request, how: str, kept_for: float) -> Eval[bool]:
    """Break the present generation (*how*: "abort"), or begin a new one ("reset")."""
    keys = (barrier.key, barrier.waiting, request.key, request.old_latch)
    args = (how, milliseconds(request.ttl), milliseconds(kept_for), barrier.channel)
    return Eval(_BARRIER_END[barrier.publish], keys, args)


def barrier_query(barrier: Barrier) -> Eval[tuple[int, bool]]:
    """Tell how many parties wait, and whether the barrier is broken."""
    return Eval(_BARRIER_QUERY, (barrier.key, barrier.waiting), ())


def barrier_leave(waiting: str, request: str, party: str, ttl: float) -> Eval[int]:
    """Take back the arrival of *party*, whose latch is *request*; 0 if it was not waiting."""
    return Eval(_BARRIER_LEAVE, (waiting, request), (party, milliseconds(ttl)))
