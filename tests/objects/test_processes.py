"""Processes that fork while they hold, and calls that outlive their program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.objects.common import each_face, played
from tests.objects.stage import NAME
from tests.support.patience import wait_until

if TYPE_CHECKING:
    from tests.objects.stage import Stage
    from tests.objects.worlds import World

FORKS = """
client = interlock.connect(url, lease=3)
lock = client.lock("the name")
lock.acquire()
hold = lock.hold
def take_often(name):
    for _ in range(100):
        with client.lock(name):
            pass
if (child := os.fork()) == 0:
    try:
        assert lock.hold is None and not hold and not lock.owned()
        for release in (lock.release, hold.release):
            try:
                release()
            except interlock.NotHeldError:
                pass
            else:
                raise AssertionError("released what the parent holds")
        assert not lock.acquire(timeout=0.2)
        with client.lock("child's own") as own:
            until(lambda: own.remaining < 2.5)
            renewed(own)
            assert own.valid
        take_often("child's own")
        client.close()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)
while not any(ended := os.waitpid(child, os.WNOHANG)):
    take_often("parent's own")
assert ended == (child, 0)
renewed(hold)
assert hold.valid and lock.hold_count() == 1
lock.release()
with lock:
    pass
client.close()
say("done")
"""
COUNTS = """
client = interlock.connect(url)
semaphore, latch = client.semaphore("the name"), client.count_down_latch("the name's latch")
assert semaphore.try_set_permits(3) and latch.try_set_count(3)
semaphore.acquire()
latch.count_down()
if (child := os.fork()) == 0:
    took = semaphore.acquire(blocking=False)
    latch.count_down()
    os._exit(0 if took else 1)
assert os.waitpid(child, 0) == (child, 0)
assert semaphore.acquire(blocking=False)
latch.count_down()
say(f"{semaphore.available_permits()} permits, {latch.count()} to count")
client.close()
"""
OUTLIVED = """
client = interlock.connect(url, lease=3)
lock = client.lock("the name")
lock.acquire()
if os.fork() == 0:
    with client.lock("child's own"):
        say("goes on")
        sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""


@played("threads")
def test_a_forked_child_has_nothing_of_its_parent(scene: Stage) -> None:
    """It neither holds nor releases what its parent does, and uses the client as another one."""
    with Child(FORKS, scene.place.urls[0]) as parent:
        assert parent.hear() == "done"
        assert parent.end() == (0, "")
    assert not scene.left()


@played("threads")
def test_a_forked_child_counts_apart_from_its_parent(scene: Stage) -> None:
    """What both take of a semaphore, and count down, counts for each, by the objects from before."""
    with Child(COUNTS, scene.place.urls[0]) as parent:
        assert parent.hear() == "0 permits, 0 to count"
        assert parent.end() == (0, "")


@pytest.mark.promise("death")
@played("threads")
def test_a_forked_child_keeps_nothing_of_its_parent(scene: Stage) -> None:
    """What a killed process held is free within a lease, although its child lives on."""
    lock, actor = scene.client().lock(NAME), scene.actor()
    with Child(OUTLIVED, scene.place.urls[0]) as parent:
        assert parent.hear() == "goes on"
        parent.kill()
        assert actor.do(lock.acquire, timeout=3 + 2)
        actor.do(lock.release)
        parent.tell()
        wait_until(lambda: not scene.left(), 10, "the child has ended")


def _function(world: World, ran: list[int]) -> Any:
    """Return what a decorator of the world's face takes, and a call appends to *ran*."""

    def plain() -> None:
        ran.append(1)

    async def awaited() -> None:
        ran.append(1)

    return awaited if world.face.__name__ != "interlock" else plain


@each_face
def test_a_single_call_keeps_its_lock(scene: Stage) -> None:
    """It stays for `min_hold` and no longer, even if the function and its client ended before."""
    ran: list[int] = []
    client, other, actor = scene.client(), scene.client(), scene.actor()
    once = client.single(NAME, min_hold=1)(_function(scene.world, ran))
    twice = other.single(NAME)(_function(scene.world, ran))
    began = time.monotonic()
    actor.do(once)
    actor.do(twice)
    assert len(ran) == 1
    scene.close(client)
    lock = other.lock(NAME)
    assert actor.do(lock.acquire, timeout=10)
    assert 1 <= time.monotonic() - began < 5
    actor.do(lock.release)
    actor.do(twice)
    assert len(ran) == 2
