"""Of lock-likes without an order of turns: who goes away takes no turn along.

For those with an order, test_queues.py has the same and more.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.objects.acts import cancelling, each_face, freed, of_kinds, one_or_several, two
from tests.objects.stage import Stage
from tests.objects.worlds import CancelledHereError
from tests.support.patience import wait_until

from interlock import ClosedError

without_turns = of_kinds(lambda kind: not (kind.in_turn or kind.shared))
queued = of_kinds(lambda kind: kind.waits and not (kind.in_turn or kind.shared))


def _begin(stage: Stage, next_lock: Any, waits: Any, *, clients: int) -> tuple[Any, ...]:
    """Let one hold the lock and two others wait; return the two, and what comes of their calls."""
    first, second = stage.actor(), stage.actor()
    gone = first.start(waits.acquire)
    if stage.kind.waits:
        stage.waits()
    got = second.start(next_lock.acquire, timeout=60)
    if stage.kind.waits and clients:
        stage.waits(clients=clients)
    wait_until(lambda: gone.running() and got.running(), 10, "both ask")
    return first, second, gone, got


@pytest.mark.promise("once")
@pytest.mark.usefixtures("by_message")
@pytest.mark.sample
@cancelling
@without_turns
@one_or_several
def test_a_cancelled_wait_leaves_nothing(stage: Stage, *, same_client: bool) -> None:
    """Who is cancelled holds nothing, and the next one has its turn on the release."""
    ours, theirs = two(stage)
    owner, next_lock = stage.actor(), theirs if same_client else stage.lock()
    assert owner.do(ours.acquire)
    clients = 1 if same_client else 2
    first, second, gone, got = _begin(stage, next_lock, theirs, clients=clients)
    first.cancel()
    with pytest.raises(CancelledHereError):
        gone.result(20)
    assert first.do(lambda: theirs.hold) is None
    assert not got.done()
    owner.do(ours.release)
    assert got.result(20)
    second.do(next_lock.release)
    freed(stage)
    assert first.do(theirs.acquire, timeout=5), "it may come again"
    first.do(theirs.release)


@cancelling
@without_turns
@one_or_several
def test_who_is_cancelled_as_its_turn_comes(stage: Stage, *, same_client: bool) -> None:
    """It has the lock or has left nothing of it, and the next one is not kept waiting."""
    ours, theirs = two(stage)
    owner, next_lock = stage.actor(), theirs if same_client else stage.lock()
    for round_ in range(8):
        assert owner.do(ours.acquire, timeout=20)
        first, second, gone, got = _begin(stage, next_lock, theirs, clients=0)
        released = owner.start(ours.release)
        time.sleep(round_ * 0.0005)  # somewhere in the hand-over
        first.cancel()
        released.result(20)
        if gone.exception(20) is None:
            first.do(theirs.release)
        else:
            assert first.do(lambda: theirs.hold) is None
        assert got.result(20)
        second.do(next_lock.release)
    freed(stage)


@pytest.mark.sample
@pytest.mark.usefixtures("by_message")
@queued
def test_who_closes_takes_no_turn_along(stage: Stage) -> None:
    """If the first waiter's client is closed, the next client's has the lock on its release."""
    ours, next_lock, closing, owner = stage.lock(), stage.lock(), stage.clients(), stage.actor()
    assert owner.do(ours.acquire)
    _, second, gone, got = _begin(stage, next_lock, stage.lock(*closing), clients=2)
    stage.close(*closing)
    with pytest.raises(ClosedError):
        gone.result(20)
    owner.do(ours.release)
    assert got.result(20)
    second.do(next_lock.release)
    assert not stage.left()


@pytest.mark.usefixtures("by_message")
@each_face
@queued
def test_a_lost_subscription_loses_no_release(stage: Stage) -> None:
    """Who waits looks when its subscription is back, and hears of later releases."""
    ours, theirs = two(stage)
    owner, waiter = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    got = waiter.start(theirs.acquire, timeout=60)
    stage.waits()
    stage.place.deafen()
    owner.do(ours.release)
    assert got.result(20)
    waiter.do(theirs.release)
    assert not stage.left()
