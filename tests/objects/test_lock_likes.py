"""What every lock-like promises of its owner: who is inside, for how long, and who is not."""

from __future__ import annotations

import time

import pytest
from tests.objects.acts import (
    PROMPT,
    Inside,
    each_face,
    exclusive,
    freed,
    held,
    of_kinds,
    one_or_several,
    reentrant,
    two,
)
from tests.objects.stage import Stage
from tests.support.patience import wait_until

from interlock import HoldLostError, NotHeldError, ReentryError


@pytest.mark.sample
def test_the_owner_knows_that_it_holds(stage: Stage) -> None:
    """A held lock is locked, owned at depth 1, and ends within its lease; then nothing is left."""
    lock, owner = stage.lock(), stage.actor()
    assert owner.do(lock.acquire) is True
    assert owner.do(lock.locked)
    assert owner.do(lock.owned)
    assert owner.do(lock.hold_count) == 1
    assert 15 < owner.do(lock.remaining) <= 30
    owner.do(lock.release)
    assert not owner.do(lock.locked)
    assert not owner.do(lock.owned)
    assert owner.do(lock.hold_count) == 0
    assert owner.do(lock.remaining) is None
    assert not stage.left()


@pytest.mark.promise("exclusion")
@exclusive
@one_or_several
def test_no_other_owner_gets_it(stage: Stage, *, same_client: bool) -> None:
    """A second owner cannot take it, from the same client or another, until it is released."""
    ours, theirs = two(stage, same_client=same_client)
    owner, other = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    assert other.do(theirs.acquire, timeout=0) is False
    assert other.do(theirs.acquire, blocking=False) is False
    assert other.do(theirs.locked)
    assert not other.do(theirs.owned)
    assert other.do(theirs.hold_count) == 0
    assert owner.do(ours.owned)
    owner.do(ours.release)
    assert other.do(theirs.acquire, timeout=10)
    assert not owner.do(ours.owned)
    other.do(theirs.release)
    assert not stage.left()


def test_only_the_owner_releases(stage: Stage) -> None:
    """A release or extension by anyone else, or one too many, raises and changes nothing."""
    ours, theirs = two(stage)
    owner, neighbour, other = stage.actor(), stage.actor(), stage.actor()
    with pytest.raises(NotHeldError, match="nothing was changed"):
        owner.do(ours.release)
    assert owner.do(ours.acquire)
    for stranger, lock in ((neighbour, ours), (other, theirs)):
        with pytest.raises(NotHeldError):
            stranger.do(lock.release)
        with pytest.raises(NotHeldError):
            stranger.do(lock.extend, 60)
    assert owner.do(ours.hold_count) == 1
    assert owner.do(ours.remaining) <= 30
    owner.do(ours.release)
    with pytest.raises(NotHeldError):
        owner.do(ours.release)


@pytest.mark.usefixtures("by_message")
@exclusive
@one_or_several
def test_a_timeout_is_kept(stage: Stage, *, same_client: bool) -> None:
    """Who waits in vain is refused after the time that it gave, and not much later."""
    ours, theirs = two(stage, same_client=same_client)
    owner, other = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    for timeout in (0.01, 0.4):
        began = time.monotonic()
        assert other.do(theirs.acquire, timeout=timeout) is False
        assert timeout <= time.monotonic() - began < timeout + PROMPT
    owner.do(ours.release)
    assert not stage.left()


@pytest.mark.promise("waking")
@pytest.mark.usefixtures("by_message")
@exclusive
@one_or_several
def test_who_waits_has_it_on_release(stage: Stage, *, same_client: bool) -> None:
    """A waiter is woken by the release, and need not look by itself."""
    ours, theirs = two(stage, same_client=same_client)
    owner, waiter = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    got = waiter.start(theirs.acquire, timeout=30)
    if stage.kind.waits:
        stage.waits()
    assert not got.done()
    owner.do(ours.release)
    assert got.result(20)
    assert 0 < waiter.do(theirs.remaining) <= 30
    waiter.do(theirs.release)
    assert not stage.left()


def test_the_owner_enters_again(stage: Stage) -> None:
    """Each acquire goes one deeper and each release one up; the last one frees it."""
    ours, theirs = two(stage)
    owner, other = stage.actor(), stage.actor()
    depths = range(1, 4) if stage.kind.reentrant else [1]
    for depth in depths:
        assert owner.do(ours.acquire, timeout=5)
        assert owner.do(ours.hold_count) == depth
    if not stage.kind.reentrant:
        with pytest.raises(ReentryError):
            owner.do(ours.acquire)
        with pytest.raises(ReentryError):
            owner.do(ours.acquire, timeout=0)
    for depth in reversed(depths):
        assert owner.do(ours.hold_count) == depth
        if not stage.kind.shared:
            assert not other.do(theirs.acquire, timeout=0)
        owner.do(ours.release)
    with pytest.raises(NotHeldError):
        owner.do(ours.release)
    assert not stage.left()


@pytest.mark.promise("exclusion")
@pytest.mark.sample
@exclusive
def test_nobody_enters_beside_another(stage: Stage) -> None:
    """Two clients of two actors each that take it again and again are never inside together."""
    inside = Inside()
    actors = [stage.actor() for _ in range(4)]
    locks = [lock for _ in range(2) for lock in two(stage, same_client=True)]
    last = []
    for _ in range(8):
        for actor, lock in zip(actors, locks, strict=True):
            actor.start(lock.acquire)
            actor.start(inside.enter)
            actor.start(inside.leave)
            last.append(actor.start(lock.release))
    for done in last:
        done.result(60)
    assert (inside.most, inside.entries) == (1, 32)
    # Of a red lock that was refused a member may be given back in the background.
    wait_until(lambda: not stage.left(), 5, "nothing is left")


def test_a_lease_ends_by_itself(stage: Stage) -> None:
    """A hold ends with its own lease, at any depth; a late release ends nobody else's."""
    ours, theirs = two(stage)
    owner, other = stage.actor(), stage.actor()
    began = time.monotonic()  # before: a busy machine may hear late of the grant
    hold = held(owner, ours, lease=1)
    assert hold.remaining <= 1
    if stage.kind.reentrant:
        assert owner.do(ours.acquire, lease=1)
        assert hold.depth == 2
    assert other.do(theirs.acquire, timeout=30)
    if not stage.kind.shared:
        assert 0.7 < time.monotonic() - began < 1 + PROMPT
    wait_until(hold.lost.is_set, 5, "the owner is told")
    assert not hold.valid
    for release in (ours.release, hold.release):
        with pytest.raises(HoldLostError):
            owner.do(release)
    assert other.do(theirs.owned)
    other.do(theirs.release)


def test_who_lost_it_takes_it_anew(stage: Stage) -> None:
    """A hold that follows a lost one stays: neither the lost handle nor anything late ends it."""
    lock, owner = stage.lock(), stage.actor()
    first = held(owner, lock, lease=0.3)
    wait_until(first.lost.is_set, 5, "the lease has ended")
    with pytest.raises(HoldLostError):
        owner.do(lock.release)
    second = held(owner, lock, timeout=5)
    with pytest.raises(HoldLostError):
        owner.do(first.release)
    time.sleep(0.4)  # a late undoing would come within the lost lease
    assert owner.do(lock.owned)
    assert second.valid
    assert not first
    owner.do(lock.release)


def test_it_may_be_left_to_its_lease(stage: Stage) -> None:
    """Who lets a lease of its own choice run out acquires anew without a release, as in a limit."""
    lock, owner = stage.lock(), stage.actor()
    for _ in range(2):
        hold = held(owner, lock, timeout=5, lease=0.2)
        wait_until(hold.lost.is_set, 5, "the lease has ended")
    assert owner.do(lock.acquire, timeout=5)
    owner.do(lock.release)
    freed(stage)


def test_extend_lengthens_and_never_shortens(stage: Stage) -> None:
    """After it at least that time is left, here and on the server; anybody may extend a hold."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    hold = held(owner, lock, lease=30)
    for actor, extend, most in ((owner, lock.extend, 100), (other, hold.extend, 200)):
        for seconds in (most, 2):
            actor.do(extend, seconds)
            assert most - 40 < owner.do(lock.remaining) <= most
            assert most - 40 < hold.remaining <= most
    owner.do(lock.release)
    for _ in range(2):
        with pytest.raises(NotHeldError):
            other.do(hold.extend, 60)
    assert not stage.left()
    hold = held(owner, lock, lease=30)
    other.do(lock.force_release)
    with pytest.raises(HoldLostError):
        other.do(hold.extend, 60)
    with pytest.raises((HoldLostError, NotHeldError)):
        owner.do(lock.release)
    assert not other.do(lock.locked)


@reentrant
def test_an_entry_never_shortens(stage: Stage) -> None:
    """An entry with a shorter lease leaves the hold its time, and a longer one lengthens it."""
    lock, owner = stage.lock(), stage.actor()
    hold = held(owner, lock, lease=40)
    assert owner.do(lock.acquire, lease=5)
    assert 20 < hold.remaining <= 40
    assert 20 < owner.do(lock.remaining) <= 40
    assert owner.do(lock.acquire, lease=100)
    assert 60 < hold.remaining <= 100
    for _ in range(3):
        owner.do(lock.release)
    assert not stage.left()


@pytest.mark.usefixtures("by_message")
@each_face
@pytest.mark.parametrize(
    "name",
    [pytest.param("{b}:1", marks=pytest.mark.sample), "x{c}y", "ü\n ☃", " ", "{b}", "a" * 2000],
)
def test_a_name_is_any_text(stage: Stage, name: str) -> None:
    """A lock of any name is taken, refused, waited for, and leaves nothing."""
    ours, theirs = (stage.lock(name=name) for _ in range(2))
    elsewhere = stage.lock(name=f"{name}.")
    owner, other = stage.actor(), stage.actor()
    assert owner.do(ours.acquire)
    assert other.do(elsewhere.acquire, timeout=0)
    other.do(elsewhere.release)
    if stage.kind.shared:
        assert other.do(theirs.acquire, timeout=0)
        owner.do(ours.release)
    else:
        assert not other.do(theirs.acquire, timeout=0)
        got = other.start(theirs.acquire, timeout=30)
        if stage.kind.waits:
            stage.waits(name)
        owner.do(ours.release)
        assert got.result(20)
    other.do(theirs.release)
    assert not stage.left()


@each_face
@of_kinds(lambda kind: kind.name in ("lock", "fenced", "spin"))
def test_many_come_at_once(stage: Stage) -> None:
    """Of a hundred actors that come at once each gets it, one after the other."""
    lock, inside = stage.lock(), Inside()
    done = []
    for actor in [stage.actor() for _ in range(100)]:
        for call in (lock.acquire, inside.enter, inside.leave):
            actor.start(call)
        done.append(actor.start(lock.release))
    for each in done:
        each.result(60)
    assert (inside.most, inside.entries) == (1, 100)
    assert not stage.left()
