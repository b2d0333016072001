"""The fenced lock: tokens that grow over failovers, of which only the epoch is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.bench import Play

from interlock._core.locks.fenced_lock import EPOCH_BITS, FencedLock

if TYPE_CHECKING:
    from tests.core.bench import Bench


class Failovers:
    """How many there were."""

    count = 0


@pytest.fixture
def failovers(bench: Bench) -> Failovers:
    """Give the failovers that the bench's client has heard of."""
    heard = Failovers()
    bench.session.epoch = lambda: heard.count
    return heard


def acquire(bench: Bench) -> Play:
    """Play an acquire of a fenced lock."""
    return Play(FencedLock(bench.session, "x").acquire(bench.owner, bench.now + 10, None))


def floor(play: Play) -> Any:
    """Return above what the present request wants its token."""
    assert play.effect.script.name == "fenced_lock_acquire"
    return play.effect.args[3]


def test_a_failover_lifts_the_counter(bench: Bench, failovers: Failovers) -> None:
    """The counter is left alone until a failover, and then goes on above all earlier tokens."""
    first = acquire(bench)
    assert floor(first) == 0
    assert first.answer([1, 7, b"counter"]).result.token == 7
    bench.session.holds.end(first.result)
    failovers.count = 3
    second = acquire(bench)
    assert floor(second) == 3 << EPOCH_BITS
    assert second.answer([1, (3 << EPOCH_BITS) + 1, b"counter"]).result.token > 7


def test_a_grant_asked_for_before_the_failover_is_given_back(
    bench: Bench, failovers: Failovers
) -> None:
    """A grant by the next primary with an old token is released and asked for again.

    A token from before the failover may be another hold's.
    """
    play = acquire(bench)
    failovers.count = 1
    play.answer([1, 7, b"counter"])
    assert play.effect.script.name == "fenced_lock_release"
    play.answer(1)
    play.answer(bench.waiters.join("x", lambda: None))
    bench.now = play.effect.until
    play.answer(None)
    assert floor(play) == 1 << EPOCH_BITS
    hold = play.answer([1, (1 << EPOCH_BITS) + 1, b"counter"]).result
    assert (hold.token, hold.depth, hold.state) == ((1 << EPOCH_BITS) + 1, 1, "held")
