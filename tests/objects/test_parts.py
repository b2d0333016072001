"""Locks of several parts are held whole or not at all: multi, red and group locks."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from tests.objects.acts import SOON, each_face, freed, held, joins, of_kinds, renewed
from tests.objects.stage import NAME, Stage
from tests.objects.trouble import TroubledPlace
from tests.support.patience import wait_until

from interlock import HoldLostError, ReentryError

all_or_none = of_kinds(lambda kind: kind.name in ("multi", "together", "red", "group"))
red = of_kinds(lambda kind: kind.name == "red")
multi = of_kinds(lambda kind: kind.name == "multi")
A = "qwvAS12pR0CgRitaypEjUw"
"""What Redisson calls the value "a" (tests/interop/fixtures/highwayhash.jsonl)."""
JAVA = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"


def _parts(stage: Stage) -> list[Any]:
    """Return locks of another client, each of one part of the lock of the kind under test."""
    clients = stage.clients()
    if stage.kind.name == "group":
        return [clients[0].group_lock(NAME, [value]) for value in ("one", "two")]
    if stage.kind.name == "together":
        return [clients[0].lock(name) for name in (NAME, f"{NAME} too")]
    return [client.lock(NAME) for client in clients]


@pytest.mark.sample
@all_or_none
def test_a_part_that_is_taken_bars_all(stage: Stage) -> None:
    """A try that is refused a part gives back the others; a wait gets all once it is free.

    A red lock is refused by a majority.
    """
    lock, parts = stage.lock(), _parts(stage)
    rival, owner, third = (stage.actor() for _ in range(3))
    for taken, free in ((parts[1:], parts[0]), (parts[:-1], parts[-1])):
        for part in taken:
            assert rival.do(part.acquire)
        assert owner.do(lock.acquire, timeout=0) is False
        assert owner.do(lock.acquire, timeout=0.3) is False
        assert owner.do(lambda: lock.hold) is None
        wait_until(lambda: third.do(free.acquire, timeout=0), 5, "the other is free again")  # noqa: B023
        third.do(free.release)
        got = owner.start(lock.acquire, timeout=60)
        for part in taken:
            rival.do(part.release)
        assert got.result(20)
        others = [part for part in parts if third.do(part.acquire, timeout=0)]
        # A red lock may have a majority before the last server's part is free.
        assert len(others) <= (stage.kind.name == "red")
        for part in others:
            third.do(part.release)
        owner.do(lock.release)
        freed(stage)


@pytest.mark.sample
@all_or_none
def test_a_part_that_is_lost_ends_the_whole(stage: Stage) -> None:
    """The holder is told once, and its release frees the rest; a red lock outlives a minority."""
    lock, parts = stage.lock(*stage.clients(**SOON)), _parts(stage)
    owner, operator, told = stage.actor(), stage.actor(), list[str]()
    hold = held(owner, lock)
    owner.do(hold.on_lost, lambda: told.append("lost"))
    if stage.kind.name == "red":
        assert operator.do(parts[0].force_release)
        renewed(hold)
        assert hold.valid
    assert operator.do(parts[1].force_release)
    wait_until(hold.lost.is_set, 10, "the holder is told")
    wait_until(lambda: told, 5, "the listener is called")
    with pytest.raises(HoldLostError):
        owner.do(lock.release)
    freed(stage)
    assert told == ["lost"]
    assert owner.do(lock.acquire, timeout=5)
    owner.do(lock.release)


@each_face
@red
def test_a_majority_is_enough(trouble: Stage) -> None:
    """A red lock is taken, renewed and released while one of its three servers is away."""
    place: TroubledPlace = trouble.place
    clients = trouble.clients(lease=3, command_timeout=0.5)
    lock, owner, other = trouble.lock(*clients), trouble.actor(), trouble.actor()
    with place.paused(1):
        hold = held(owner, lock, timeout=10)
        assert not other.do(lock.acquire, timeout=0)
        renewed(hold)
        assert hold.valid
        owner.do(lock.release)
        assert other.do(lock.acquire, timeout=10)
        other.do(lock.release)
    wait_until(lambda: not trouble.left(), 10, "nothing is left")


@multi
def test_parts_go_back_to_their_depths(stage: Stage) -> None:
    """What its owner held of the parts before is still held after a try in vain, and afterwards."""
    ours, theirs = stage.clients(), _parts(stage)
    lock, members = stage.lock(*ours), [client.lock(NAME) for client in ours]
    owner, rival = stage.actor(), stage.actor()
    assert owner.do(members[0].acquire)
    assert rival.do(theirs[1].acquire)
    assert not owner.do(lock.acquire, timeout=0.1)
    assert owner.do(members[0].hold_count) == 1
    rival.do(theirs[1].release)
    assert owner.do(lock.acquire, timeout=10)
    assert owner.do(members[0].hold_count) == 2
    owner.do(lock.release)
    assert owner.do(members[0].hold_count) == 1
    assert not rival.do(theirs[0].acquire, timeout=0)
    owner.do(members[0].release)
    assert not stage.left()


def test_values_exclude_who_shares_one(scene: Stage) -> None:
    """Group locks of one name exclude each other if they share a value, and only then."""
    clients = [scene.client() for _ in range(3)]
    one, two, three = (
        client.group_lock(NAME, values)
        for client, values in zip(clients, (["a", "b"], ["b", "c"], ["c", "d"]), strict=True)
    )
    a, b, c = (scene.actor() for _ in range(3))
    assert a.do(one.acquire)
    assert c.do(three.acquire, timeout=0)
    assert not b.do(two.acquire, timeout=0)
    c.do(three.release)
    got = b.start(two.acquire, timeout=60)
    scene.waits()
    a.do(one.release)
    assert got.result(20)
    assert not c.do(three.acquire, timeout=0)
    b.do(two.release)
    assert not scene.left()


def test_the_order_of_values_does_not_matter(scene: Stage) -> None:
    """The same values in another order, or twice, are the same lock: its owner enters again."""
    client, owner = scene.client(), scene.actor()
    assert owner.do(client.group_lock(NAME, ["a", "b"]).acquire)
    assert owner.do(client.group_lock(NAME, iter("bab")).acquire, timeout=0)
    assert owner.do(client.group_lock(NAME, ("b", "a")).hold_count) == 2
    assert owner.do(client.group_lock(NAME, [""]).acquire, timeout=0), "that is a value too"


def test_an_owner_does_not_wait_for_its_own_values(scene: Stage, seen: redis.Redis) -> None:
    """A value that the owner's other group lock holds is an error at once; nothing changes."""
    client, owner = scene.client(), scene.actor()
    owner.do(client.group_lock(NAME, ["a", "b"]).acquire)
    before = seen.hgetall(NAME)
    for options in ({"timeout": 0}, {"timeout": 5}, {}):
        with pytest.raises(ReentryError, match="one group lock"):
            owner.do(client.group_lock(NAME, ["b", "c"]).acquire, **options)
    assert seen.hgetall(NAME) == before
    assert owner.do(client.group_lock(NAME, ["c"]).acquire, timeout=0)


def test_a_waiter_waits_for_its_values_only(scene: Stage) -> None:
    """It gets one that is free, however long others of the group are held or waited for."""
    client, owners = scene.client(), [scene.actor() for _ in range(4)]
    first, second = (client.group_lock(NAME, [value]) for value in "ab")
    owners[0].do(first.acquire)
    owners[1].do(second.acquire)
    waiting = joins(scene, owners[2], client.group_lock(NAME, ["a"]).acquire)
    behind = joins(scene, owners[3], client.group_lock(NAME, ["b"]).acquire)
    owners[1].do(second.release)
    assert behind.result(20)
    assert not waiting.done()
    owners[0].do(first.release)
    assert waiting.result(20)


@each_face
def test_what_a_dead_holder_left_goes_when_it_is_taken(scene: Stage, seen: redis.Redis) -> None:
    """An expired value is free although its hash lives on; taking it removes the old fields."""
    lock, owner = scene.client().group_lock(NAME, ["a"]), scene.actor()
    expires = round((time.time() + 1.5) * 1000)
    times = {f"{A}:{JAVA}:expire_time": expires, f"{A}:{JAVA}:lock_count": 1}
    seen.hset(NAME, mapping={A: JAVA, **times})
    seen.pexpire(NAME, 60_000)
    assert not owner.do(lock.acquire, timeout=0)
    holder = held(owner, lock, timeout=20).holder
    found = {field.decode(): value.decode() for field, value in seen.hgetall(NAME).items()}
    ends = int(found.pop(f"{A}:{holder}:expire_time")) / 1000 - time.time()
    assert 10 < ends <= 30
    assert found == {A: holder, f"{A}:{holder}:lock_count": "1"}
