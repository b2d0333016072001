"""A hold tells what is held, is kept as long as it is wanted, and tells its loss in time."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.objects.acts import (
    PROMPT,
    SOON,
    each_face,
    freed,
    held,
    in_asyncio,
    loss_of,
    lost,
    of_kinds,
    reentrant,
    renewed,
    two,
)
from tests.objects.kinds import KINDS, named
from tests.objects.stage import Stage
from tests.objects.trouble import TroubledPlace
from tests.support.faults import Action, command, delay, delay_reply
from tests.support.patience import wait_until

from interlock import HoldLostError, InterlockError, NotHeldError, ServerUnavailableError


def test_a_hold_tells_what_is_held(stage: Stage) -> None:
    """A hold is true while it lasts, and answers everything without asking the server."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    assert "not held" in owner.do(repr, lock)
    assert owner.do(lambda: lock.hold) is None
    hold = held(owner, lock)
    assert other.do(lambda: lock.hold) is None
    assert hold
    assert hold.valid
    assert (hold.name, hold.depth) == (lock.name, 1)
    assert (hold.token is not None) == stage.kind.fenced
    assert 15 < hold.remaining <= 30
    assert all(part in repr(hold) for part in (repr(lock.name), "valid", hold.holder))
    assert not hold.lost.is_set()
    hold.ensure()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(hold)
    owner.do(lock.release)
    assert not hold
    assert (hold.depth, hold.remaining) == (0, 0.0)
    assert not hold.lost.is_set(), "released is not lost"
    assert "over" in repr(hold)
    with pytest.raises(NotHeldError):
        hold.ensure()
    assert owner.do(lambda: lock.hold) is None


def test_a_hold_is_released_from_anywhere(stage: Stage) -> None:
    """Whoever was handed the hold may release it, once."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    hold = held(owner, lock)
    other.do(hold.release)
    assert not stage.left()
    with pytest.raises(NotHeldError):
        other.do(hold.release)
    with pytest.raises(NotHeldError):
        owner.do(lock.release)


@reentrant
def test_two_actors_release_one_hold(stage: Stage) -> None:
    """Two threads or tasks release a hold of depth 2 at once, and neither hears of a loss."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    for _ in range(10):
        assert owner.do(lock.acquire)
        hold = held(owner, lock)
        for done in [each.start(hold.release) for each in (owner, other)]:
            done.result(30)
        assert not hold
    assert not stage.left()


@pytest.mark.sample
def test_a_hold_without_lease_is_renewed(stage: Stage) -> None:
    """It outlives the client's lease as long as it is held, and nobody else gets it meanwhile."""
    ours, theirs = stage.lock(*stage.clients(lease=3)), stage.lock()
    owner, other = stage.actor(), stage.actor()
    hold = held(owner, ours)
    if stage.kind.shared:
        time.sleep(4)  # what lasts for longer than a lease is to be seen
    else:
        assert not other.do(theirs.acquire, timeout=4)
    assert hold.valid
    assert not hold.lost.is_set()
    assert 0 < hold.remaining <= 3
    assert owner.do(ours.owned)
    owner.do(ours.release)
    freed(stage)


@each_face
@of_kinds(lambda kind: kind.name in ("lock", "multi"))
def test_a_hold_entered_again_outlives_its_first_handle(stage: Stage) -> None:
    """It is renewed though nobody has the `Hold` of its first entry any more."""
    lock, owner = stage.lock(*stage.clients(**SOON)), stage.actor()
    first = held(owner, lock)
    owner.do(lock.acquire)
    owner.do(first.release)
    del first
    gc.collect()
    assert not stage.actor().do(stage.lock().acquire, timeout=3.5)
    assert owner.do(lock.hold_count) == 1
    owner.do(lock.release)


@pytest.mark.promise("loss")
@pytest.mark.usefixtures("by_message")
@pytest.mark.sample
def test_a_forced_release_is_told(stage: Stage) -> None:
    """Anyone may free it: a waiter gets it, and the holder is told by whatever it looks at."""
    ours, theirs = stage.lock(*stage.clients(**SOON)), stage.lock()
    owner, waiter, watcher, operator = (stage.actor() for _ in range(4))
    told: list[str] = []
    hold = held(owner, ours)
    owner.do(hold.on_lost, lambda: told.append("lost"))
    watching = watcher.start(hold.lost.wait)
    got = None if stage.kind.shared else waiter.start(theirs.acquire, timeout=30)
    if got and stage.kind.waits:
        stage.waits()
    assert not watching.done()
    assert operator.do(stage.lock().force_release) is True
    if got:
        assert got.result(20)
    assert watching.result(10) is True
    assert hold.lost.is_set()
    assert (bool(hold), hold.valid, hold.depth, hold.remaining) == (False, False, 0, 0.0)
    assert "lost" in repr(hold)
    wait_until(lambda: "force-released" in loss_of(hold), 10, "the reason is known")
    wait_until(lambda: told == ["lost"], 10, "the listener is called")
    with pytest.raises(HoldLostError, match="force-released") as caught:
        owner.do(ours.release)
    assert (caught.value.name, caught.value.reason) == (ours.name, "force-released")
    assert watcher.do(hold.lost.wait) is True, "at once"
    if got:
        assert waiter.do(theirs.owned)
        waiter.do(theirs.release)
    assert operator.do(stage.lock().force_release) is False
    hold = held(owner, ours, timeout=5)
    owner.do(hold.release)
    freed(stage)


@pytest.mark.promise("loss", "release")
def test_a_release_of_what_is_gone_is_told(stage: Stage) -> None:
    """If the server has lost it, or somebody has freed it, the release that finds out raises.

    The listeners are told, although no renewal was due.
    """
    lock, owner, told = stage.lock(), stage.actor(), list[str]()
    for frees, reason in (
        (stage.place.empty, "server lost it"),
        (lambda: stage.actor().do(stage.lock().force_release), "force-released"),
    ):
        hold = held(owner, lock, timeout=5)
        owner.do(hold.on_lost, partial(told.append, reason))
        frees()
        with pytest.raises(HoldLostError) as caught:
            owner.do(lock.release)
        assert caught.value.reason == reason
        assert hold.lost.is_set()
        wait_until(lambda: told[-1:] == [reason], 10, "the listener is called")  # noqa: B023
        assert owner.do(lambda: lock.hold) is None
    freed(stage)


@pytest.mark.promise("loss")
@reentrant
@each_face
def test_an_entry_of_what_is_gone_is_told(stage: Stage) -> None:
    """If the server has lost it, an acquire by its owner raises, and takes nothing anew.

    That of a lock made of locks asks no server: it raises once a renewal has told.
    """
    asks = stage.kind.name not in ("multi", "together", "red")
    lock, owner = stage.lock(*stage.clients(**({} if asks else SOON))), stage.actor()
    hold = held(owner, lock)
    stage.place.empty()
    if not asks:
        wait_until(hold.lost.is_set, 10, "a renewal tells")
    with pytest.raises(HoldLostError):
        owner.do(lock.acquire)
    assert not hold
    assert not stage.actor().do(lock.locked)


@pytest.mark.sample
@in_asyncio
@pytest.mark.parametrize(
    ("way", "kind"),
    [("lock", named("lock")), *(("hold", kind) for kind in KINDS)],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_loss_cancels_who_asked_for_it(stage: Stage, way: str) -> None:
    """The body is cancelled, its block raises HoldLostError, and the task goes on."""
    clients = stage.clients(**SOON)
    options = {"cancel_on_lost": True} if way == "lock" else {}
    lock, owner = stage.lock(*clients, **options), stage.actor()
    inside: list[Any] = []

    async def body() -> None:
        async with lock as hold:
            if not options:
                hold.cancel_on_lost()
            inside.append(hold)
            await stage.world.sleep(60)

    async def go_on() -> str:
        await stage.world.sleep(0.01)  # a cancellation that is left over strikes here
        return "goes on"

    done = owner.start(body)
    wait_until(lambda: inside, 10, "it is inside")
    lost(stage, inside[0])
    with pytest.raises(HoldLostError):
        done.result(20)
    assert owner.do(go_on) == "goes on"
    assert owner.do(lambda: lock.hold) is None


@pytest.mark.promise("loss")
@each_face
def test_a_lease_that_ends_is_a_loss(stage: Stage) -> None:
    """A hold that outlives its lease is lost by the clock alone, and its listeners are called."""
    lock, owner, told = stage.lock(), stage.actor(), list[float]()
    hold = held(owner, lock, lease=0.5)
    ends = time.monotonic() + hold.remaining
    owner.do(hold.on_lost, lambda: told.append(time.monotonic()))
    wait_until(lambda: told, 5, "the listener was called")
    assert ends - 0.01 <= told[0]
    with pytest.raises(HoldLostError, match="expired"):
        hold.ensure()


@pytest.mark.promise("release")
@each_face
def test_a_release_without_an_answer_ends_with_the_lease(trouble: Stage) -> None:
    """What was done in time is no loss: it returns quietly, and no listener is called."""
    place: TroubledPlace = trouble.place
    lock, owner, told = trouble.lock(*trouble.clients()), trouble.actor(), list[str]()
    for reached in (place.unreachable, place.paused):
        hold = held(owner, lock, lease=1.5, timeout=10)
        owner.do(hold.on_lost, lambda: told.append("lost"))
        ends = time.monotonic() + hold.remaining
        with reached():
            owner.do(lock.release)
            assert ends - 0.1 < time.monotonic() < ends + PROMPT, "an outage may last longer"
            assert not hold.lost.is_set()
        freed(trouble)
    assert not told


@pytest.mark.promise("release")
@each_face
@pytest.mark.parametrize("late", [delay, delay_reply], ids=["late", "answered-late"])
def test_a_release_that_takes_longer_than_the_lease(
    trouble: Stage, late: Callable[[float], Action]
) -> None:
    """It has begun in time: whatever is answered after the lease, nobody hears of a loss."""
    place: TroubledPlace = trouble.place
    lock, owner, told = trouble.lock(*trouble.clients(card=False)), trouble.actor(), list[str]()
    for call in (lock.acquire, lock.release):
        owner.do(call)
    hold = held(owner, lock, lease=0.8)
    owner.do(hold.on_lost, lambda: told.append("lost"))
    place.on_request(command("EVALSHA"), late(1))
    owner.do(lock.release)
    assert not hold.lost.is_set()
    place.clear()
    freed(trouble)
    assert not told


@pytest.mark.promise("release")
@each_face
@of_kinds(lambda kind: kind.name in ("lock", "read", "multi", "together", "red"))
def test_an_outage_ends_a_release_whose_lease_goes_on(trouble: Stage) -> None:
    """It raises after the outage timeout, the hold is never lost, and the background goes on."""
    place: TroubledPlace = trouble.place
    clients = trouble.clients(lease=4, outage_timeout=0.5, command_timeout=0.3)
    lock, owner, told = trouble.lock(*clients), trouble.actor(), list[str]()
    hold = held(owner, lock)
    time.sleep(1)  # it would have been renewed
    owner.do(hold.on_lost, lambda: told.append("lost"))
    with place.paused():
        with pytest.raises(ServerUnavailableError):  # the end of the lease would not raise
            owner.do(lock.release)
        time.sleep(hold.remaining + 0.5)
    freed(trouble)
    assert not told
    assert not hold.lost.is_set()


@each_face
def test_a_full_server_keeps_and_releases(trouble: Stage) -> None:
    """Without memory for anything new, what is held is extended, and released at each depth."""
    place: TroubledPlace = trouble.place
    lock, other, owner = trouble.lock(), trouble.lock(name="other"), trouble.actor()
    depth = 2 if trouble.kind.reentrant else 1
    for _ in range(depth):
        assert owner.do(lock.acquire)
    with place.full():
        with pytest.raises(InterlockError, match="memory"):
            owner.do(other.acquire, timeout=0)
        owner.do(lock.extend, 50)
        for left in reversed(range(depth)):
            owner.do(lock.release)
            assert owner.do(lock.hold_count) == left
    freed(trouble)


def test_listeners_are_called_once_each(stage: Stage) -> None:
    """Each callback runs once; one that is added after the loss runs at once."""
    lock, owner, told = stage.lock(*stage.clients(**SOON)), stage.actor(), list[str]()
    hold = held(owner, lock)
    for name in ("first", "second"):
        owner.do(hold.on_lost, lambda name=name: told.append(name))
    lost(stage, hold)
    wait_until(lambda: len(told) == 2, 5, "both were called")
    owner.do(hold.on_lost, lambda: told.append("late"))
    wait_until(lambda: len(told) == 3, 5, "the late one was called")
    with pytest.raises(HoldLostError):
        owner.do(lock.release)
    assert sorted(told[:2]) == ["first", "second"]
    assert told[2:] == ["late"]


def test_who_released_hears_of_no_loss(stage: Stage) -> None:
    """What becomes of the lock after its release is no loss of its former holder."""
    ours, theirs = two(stage, **SOON)
    owner, other, told = stage.actor(), stage.actor(), list[str]()
    former = held(owner, ours)
    owner.do(former.on_lost, lambda: told.append("former"))
    owner.do(ours.release)
    present = held(other, theirs, timeout=5)
    other.do(present.on_lost, lambda: told.append("present"))
    lost(stage, present)
    wait_until(lambda: told, 5, "the present holder is told")
    assert told == ["present"]
    assert not former.lost.is_set()


@of_kinds(lambda kind: kind.shared)
def test_a_forced_release_ends_a_crowd(stage: Stage) -> None:
    """All who share it are told, and nobody is inside any more."""
    locks = [stage.lock(*stage.clients(**SOON)) for _ in range(3)]
    owners = [stage.actor() for _ in locks for _ in range(2)]
    both = [lock for lock in locks for _ in range(2)]
    holds = [held(owner, lock) for owner, lock in zip(owners, both, strict=True)]
    assert stage.actor().do(stage.lock().force_release)
    for hold in holds:
        wait_until(hold.lost.is_set, 10, "each holder is told")
    for owner, lock in zip(owners, both, strict=True):
        with pytest.raises(HoldLostError):
            owner.do(lock.release)
    assert not stage.actor().do(stage.lock().locked)


@pytest.mark.promise("loss", "outage")
@each_face
@pytest.mark.parametrize("how", ["paused", "unreachable"])
def test_a_loss_is_told_while_the_server_is_away(trouble: Stage, how: str) -> None:
    """It is told as the lease may have ended, while the holder waits for another answer."""
    place: TroubledPlace = trouble.place
    clients = trouble.clients(lease=2, command_timeout=1, outage_timeout=4)
    lock, owner, watcher, told = trouble.lock(*clients), trouble.actor(), trouble.actor(), []
    hold = held(owner, lock)
    owner.do(hold.on_lost, lambda: told.append(time.monotonic()))
    watching = watcher.start(hold.lost.wait)
    with getattr(place, how)():
        ends = time.monotonic() + hold.remaining
        asking = owner.start(lock.locked)
        wait_until(lambda: time.monotonic() > ends, 5, "the lease may have ended")
        assert not hold.valid
        with pytest.raises(HoldLostError):
            hold.ensure()
        wait_until(lambda: told and watching.done(), 5, "it is told")
        assert hold.lost.is_set()
    asking.exception(30)
    with pytest.raises(HoldLostError):
        owner.do(lock.release)


@pytest.mark.promise("outage")
@each_face
@pytest.mark.parametrize("how", ["paused", "unreachable"])
def test_a_hold_outlives_a_short_outage(trouble: Stage, how: str) -> None:
    """If the server comes back within the validity, the hold stays, and is renewed again."""
    place: TroubledPlace = trouble.place
    clients = trouble.clients(lease=4, command_timeout=0.5)
    lock, owner = trouble.lock(*clients), trouble.actor()
    hold = held(owner, lock)
    with getattr(place, how)():
        time.sleep(1.6)  # in this time a renewal fails
    renewed(hold)
    assert hold.valid
    assert owner.do(lock.owned)
    owner.do(lock.release)
    freed(trouble)
