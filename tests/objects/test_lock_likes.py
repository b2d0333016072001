"""What every lock-like promises: who is inside, who waits, and who is told of a loss."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.kinds import EXCLUSIVE
from tests.support.patience import wait_until

from interlock import NotHeldError, ReentryError

if TYPE_CHECKING:
    from tests.objects.stage import Stage

exclusive = pytest.mark.parametrize("kind", EXCLUSIVE, ids=lambda kind: kind.name)
several = pytest.mark.parametrize("same_client", [True, False], ids=["one-client", "two-clients"])


def _two(stage: Stage, *, same_client: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return two lock objects of one name, of the same client or of two."""
    ours = stage.clients(**options)
    theirs = ours if same_client else stage.clients(**options)
    return stage.lock(*ours), stage.lock(*theirs)


def test_the_owner_knows_that_it_holds(stage: Stage) -> None:
    """A held lock is locked, owned at depth 1, and ends within its lease; then nothing is left."""
    lock, owner = stage.lock(), stage.actor()
    assert owner.do(lock.acquire)
    assert owner.do(lock.locked)
    assert owner.do(lock.owned)
    assert owner.do(lock.hold_count) == 1
    assert 0 < owner.do(lock.remaining) <= 30
    owner.do(lock.release)
    assert not owner.do(lock.locked)
    assert not owner.do(lock.owned)
    assert not {key for key in stage.place.keys_left() if "token" not in key}


@exclusive
@several
def test_no_other_owner_gets_it(stage: Stage, *, same_client: bool) -> None:
    """A second owner cannot take it, from the same client or another, until it is released."""
    ours, theirs = _two(stage, same_client=same_client)
    owner, other = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    assert other.do(theirs.acquire, timeout=0) is False
    assert not other.do(theirs.owned)
    with pytest.raises(NotHeldError):
        other.do(theirs.release)
    assert owner.do(ours.owned)
    owner.do(ours.release)
    assert other.do(theirs.acquire, timeout=10)
    other.do(theirs.release)


@exclusive
@several
def test_who_waits_has_it_on_release(stage: Stage, *, same_client: bool) -> None:
    """A waiter is woken by the release, long before it would look by itself."""
    ours, theirs = _two(stage, same_client=same_client)
    owner, waiter = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    got = waiter.start(theirs.acquire, timeout=30)
    if stage.kind.waits:
        stage.waits()
    released = time.monotonic()
    owner.do(ours.release)
    assert got.result(30)
    if stage.kind.waits:
        assert time.monotonic() - released < 1.5
    waiter.do(theirs.release)


def test_the_owner_enters_again(stage: Stage) -> None:
    """Each acquire goes one deeper and each release one up; the last one frees it."""
    lock, owner = stage.lock(), stage.actor()
    assert owner.do(lock.acquire)
    if not stage.kind.reentrant:
        with pytest.raises(ReentryError):
            owner.do(lock.acquire)
        assert owner.do(lock.hold_count) == 1
    else:
        assert owner.do(lock.acquire)
        assert owner.do(lock.hold_count) == 2
        owner.do(lock.release)
    assert owner.do(lock.owned)
    owner.do(lock.release)
    with pytest.raises(NotHeldError):
        owner.do(lock.release)
    assert not owner.do(lock.locked)


@exclusive
def test_nobody_enters_beside_another(stage: Stage) -> None:
    """Four clients that take it again and again are never inside together."""
    inside, most, entries = 0, 0, 0

    def enter() -> None:
        nonlocal inside, most, entries
        inside += 1
        entries += 1
        most = max(most, inside)

    def leave() -> None:
        nonlocal inside
        inside -= 1

    actors = [stage.actor() for _ in range(4)]
    locks = [stage.lock() for _ in actors]
    last = []
    for _ in range(8):
        for actor, lock in zip(actors, locks, strict=True):
            actor.start(lock.acquire)
            actor.start(enter)
            actor.start(leave)
            last.append(actor.start(lock.release))
    for done in last:
        done.result(60)
    assert (most, entries) == (1, 32)


def test_a_lease_ends_by_itself(stage: Stage) -> None:
    """A hold with a lease of its own ends with it, its owner is told, and the next one gets it."""
    ours, theirs = _two(stage)
    owner, other = stage.actor(), stage.actor()
    assert owner.do(ours.acquire, lease=1)
    hold = owner.do(lambda: ours.hold)
    began = time.monotonic()
    assert other.do(theirs.acquire, timeout=30)
    if not stage.kind.shared:
        assert time.monotonic() - began > 0.7
    other.do(theirs.release)
    wait_until(hold.lost.is_set, 5, "the owner is told")
    assert not hold.valid
