"""What barriers promise: who passes, which index each has, and what breaks a generation."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
import redis
from tests.objects.acts import PROMPT, cancelling, each_face, enter
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor, CancelledHereError
from tests.support.child import Child
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import BrokenBarrierError, ClosedError, ServerUnavailableError


class Parties:
    """Barriers of one name, each of a client of its own, and those who come to them."""

    def __init__(self, scene: Stage, parties: int, clients: int = 2, **options: Any) -> None:
        self.scene = scene
        self.asks = scene.actor()
        self.clients = [scene.client(**options) for _ in range(clients)]
        self.barriers = [client.barrier(NAME, parties) for client in self.clients]

    def waiting(self) -> int:
        barrier = self.barriers[-1]
        return int(self.asks.do(lambda: barrier.n_waiting))

    def broken(self) -> bool:
        barrier = self.barriers[-1]
        return bool(self.asks.do(lambda: barrier.broken))

    def arrives(self, number: int = 0, **options: Any) -> tuple[Actor, Future[Any]]:
        """Let another one wait at the barrier *number*, and return it when it has arrived."""
        before, actor = self.waiting(), self.scene.actor()
        future = actor.start(self.barriers[number].wait, **options)
        wait_until(lambda: self.waiting() == before + 1, 10, "it has arrived")
        return actor, future


@pytest.mark.sample
def test_all_pass_together(scene: Stage) -> None:
    """Nobody passes before the last party comes; then all do, with different indexes."""
    parties = Parties(scene, 3)
    for _ in range(2):
        waiting = [parties.arrives(number)[1] for number in (0, 1)]
        assert not any(each.done() for each in waiting)
        last = scene.actor().do(parties.barriers[0].wait)
        assert sorted([last, *(each.result(PROMPT) for each in waiting)]) == [0, 1, 2]
        assert parties.waiting() == 0
    assert not parties.broken()


@pytest.mark.sample
def test_generations_do_not_mix(scene: Stage) -> None:
    """Parties that come again and again each have one index of each generation."""
    parties, actors = Parties(scene, 3, 3), [scene.actor() for _ in range(3)]
    passed = [
        [actor.start(barrier.wait) for _ in range(15)]
        for actor, barrier in zip(actors, parties.barriers, strict=True)
    ]
    for generation in zip(*passed, strict=True):
        assert sorted(each.result(GIVE_UP) for each in generation) == [0, 1, 2]


def test_one_whose_time_is_up_breaks_it(scene: Stage) -> None:
    """A timeout breaks the barrier for all who wait or come, until it is reset."""
    parties = Parties(scene, 3)
    _, waiting = parties.arrives(1)
    owner, barrier = scene.actor(), parties.barriers[0]
    with pytest.raises(BrokenBarrierError) as caught:
        owner.do(barrier.wait, timeout=0.2)
    assert isinstance(caught.value, threading.BrokenBarrierError)
    awaited = scene.world.face is not interlock
    assert isinstance(caught.value, asyncio.BrokenBarrierError) is awaited
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.name) == (type(caught.value), NAME)
    with pytest.raises(BrokenBarrierError, match="timeout"):
        waiting.result(PROMPT)
    assert parties.broken()
    with pytest.raises(BrokenBarrierError, match="reset"):
        owner.do(barrier.wait)
    owner.do(barrier.reset)
    assert not parties.broken()
    others = [parties.arrives(number)[1] for number in (0, 1)]
    last = owner.do(barrier.wait, timeout=GIVE_UP)
    assert sorted([last, *(each.result(PROMPT) for each in others)]) == [0, 1, 2]


def test_its_own_timeout_is_the_default(scene: Stage) -> None:
    """What the barrier was given as ``timeout=`` limits each wait that has none, and blocks."""
    barrier, owner = scene.client().barrier(NAME, 2, timeout=0.2), scene.actor()
    with pytest.raises(BrokenBarrierError):
        owner.do(barrier.wait)
    owner.do(barrier.reset)
    with pytest.raises(BrokenBarrierError):
        owner.enter(barrier)
    alone = scene.client().barrier("alone", 1)
    owner.do(enter(scene, owner, alone))
    assert owner.enter(alone) == 0


@pytest.mark.parametrize("how", ["abort", "reset"])
def test_who_waits_is_told(scene: Stage, how: str) -> None:
    """An abort and a reset reach each party at once; only an abort leaves the barrier broken."""
    parties = Parties(scene, 4)
    waiting = [parties.arrives(number)[1] for number in (0, 1, 1)]
    scene.actor().do(getattr(parties.barriers[0], how))
    for each in waiting:
        with pytest.raises(BrokenBarrierError):
            each.result(PROMPT)
    assert parties.broken() is (how == "abort")
    assert parties.waiting() == 0


@cancelling
def test_a_cancelled_party_takes_its_arrival_back(scene: Stage) -> None:
    """It does not count and breaks nothing; those that stay or come later have all the indexes."""
    parties = Parties(scene, 4)
    leaving = [parties.arrives(0), parties.arrives(1), parties.arrives(0)]
    _, second = leaving.pop(1)
    for actor, future in leaving:
        actor.cancel()
        with pytest.raises(CancelledHereError):
            future.result(PROMPT)
    wait_until(lambda: parties.waiting() == 1, 10, "both have left")
    assert not parties.broken()
    others = [
        scene.actor().start(barrier.wait) for barrier in (*parties.barriers, parties.barriers[0])
    ]
    assert sorted(each.result(PROMPT) for each in (second, *others)) == [0, 1, 2, 3]


def test_closing_a_client_takes_its_arrivals_back(scene: Stage) -> None:
    """A party whose client is closed gets ClosedError, and the others wait on."""
    parties = Parties(scene, 2)
    _, ended = parties.arrives(0)
    scene.close(parties.clients[0])
    with pytest.raises(ClosedError):
        ended.result(PROMPT)
    wait_until(lambda: parties.waiting() == 0, 10, "its arrival is taken back")
    assert not parties.broken()
    _, waiting = parties.arrives(1)
    last = scene.actor().do(parties.barriers[1].wait)
    assert {last, waiting.result(PROMPT)} == {0, 1}


@each_face
def test_a_dead_party_breaks_it(scene: Stage) -> None:
    """A party that is killed breaks the barrier within its lease; while it lives it is renewed."""
    parties = Parties(scene, 3, lease=3)
    code = """
        client = interlock.connect(url, lease=3)
        client.barrier("the name", 3).wait()
    """
    with Child(code, scene.place.urls[0]) as child:
        wait_until(lambda: parties.waiting() == 1, 30, "the process has arrived")
        _, waiting = parties.arrives()
        time.sleep(3.5)  # longer than its lease
        assert not waiting.done()
        child.kill()
        with pytest.raises(BrokenBarrierError):
            waiting.result(3 + PROMPT)
    assert parties.broken()


def test_each_party_says_how_many_pass(scene: Stage) -> None:
    """The number of parties is that of the one who comes: as soon as so many are there, all pass."""
    parties, owner = Parties(scene, 3), scene.actor()
    _, waiting = parties.arrives()
    assert {owner.do(parties.clients[1].barrier(NAME, 2).wait), waiting.result(PROMPT)} == {0, 1}


@each_face
def test_an_arrival_ends_in_time(troubled_scene: Stage) -> None:
    """A party that gets no answer to its arrival gives up when its time is up."""
    scene = troubled_scene
    barrier, owner = scene.client(command_timeout=1).barrier(NAME, 2), scene.actor()
    assert owner.do(lambda: barrier.n_waiting) == 0
    with scene.place.paused():
        began = time.monotonic()
        with pytest.raises(ServerUnavailableError):
            owner.do(barrier.wait, timeout=0.5)
        assert time.monotonic() - began < 0.5 + PROMPT


@each_face
def test_every_key_expires(scene: Stage, seen: redis.Redis) -> None:
    """Keys of parties that wait, of a broken barrier and of those who find it broken expire."""
    parties, owner, key = Parties(scene, 3), scene.actor(), f"interlock_barrier:{{{NAME}}}"

    def all_expire() -> bool:
        keys = [each for each in seen.scan_iter() if not each.startswith(b"interlock_client")]
        ours = all(each.startswith(b"interlock_") for each in keys)
        return bool(keys) and ours and all(0 < seen.ttl(each) <= 3700 for each in keys)

    _, waiting = parties.arrives()
    assert all_expire()
    seen.expire(key, 30)
    wait_until(lambda: seen.ttl(key) > 30, 20, "a look keeps it")
    owner.do(parties.barriers[0].abort)
    with pytest.raises(BrokenBarrierError):
        waiting.result(PROMPT)
    assert all_expire()
    seen.expire(key, 30)
    with pytest.raises(BrokenBarrierError):
        owner.do(parties.barriers[0].wait)
    assert all_expire()
    assert seen.ttl(key) > 3500, "an hour after its last use it is whole again"
