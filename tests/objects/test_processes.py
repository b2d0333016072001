"""Processes that are killed, stopped, forked and ended while they hold and while they wait."""

from __future__ import annotations

import signal

import pytest
import redis
from tests.objects.acts import played
from tests.objects.stage import NAME, Stage
from tests.support.cards import own_keys, waited_channels
from tests.support.child import Child
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

import interlock

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
LOST = """
client = interlock.connect(url, lease=1)
lock, both = client.lock("the name"), client.multi_lock(client.lock("other"), client.lock("third"))
lock.acquire()
both.acquire()
for name in ("the name", "other"):
    client.lock(name).force_release()
until(lambda: lock.hold.lost.is_set() and both.hold.lost.is_set())
if (child := os.fork()) == 0:
    try:
        os._exit(0 if lock.acquire(timeout=0) and not both.acquire(timeout=0) else 1)
    except interlock.HoldLostError:
        os._exit(2)
_, code = os.waitpid(child, 0)
client.close()
say("the child's code is", code)
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


@played("threads")
def test_a_forked_child_has_lost_nothing(scene: Stage) -> None:
    """What its parent has lost, alone or as a part of several, keeps no child from it."""
    with Child(LOST, scene.place.urls[0]) as parent:
        assert parent.hear() == "the child's code is 0"
        assert parent.end() == (0, "")


@pytest.mark.promise("death")
@played("threads")
def test_a_forked_child_keeps_nothing_of_its_parent(scene: Stage) -> None:
    """What a killed process held is free within a lease, although its child lives on."""
    lock, actor = scene.client().lock(NAME), scene.actor()
    with Child(OUTLIVED, scene.place.urls[0]) as parent:
        assert parent.hear() == "goes on"
        parent.kill()
        assert actor.do(lock.acquire, timeout=20)
        actor.do(lock.release)
        parent.tell()
        wait_until(lambda: not scene.left(), 10, "the child has ended")


HOLD = """
client = renews_soon(interlock.connect(url, lease=3))
lock = client.lock("name")
lock.acquire()
hold = lock.hold
say("held")
sys.stdin.readline()
"""
HOLD_IN_TASK = """
async def main():
    client = renews_soon(interlock.asyncio.connect(url, lease=3))
    async with client, client.lock("name"):
        say("held")
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.promise("death")
@pytest.mark.parametrize("code", [HOLD, HOLD_IN_TASK], ids=["sync", "asyncio"])
def test_after_kill_another_process_has_it(redis_url: str, code: str) -> None:
    """A lock is kept past its lease; after kill -9 of its holder another gets it in one lease."""
    with Child(code, redis_url) as holder, interlock.connect(redis_url) as client:
        lock = client.lock("name")
        assert holder.hear() == "held"
        assert not lock.acquire(timeout=3.5)
        holder.kill()
        assert lock.acquire(timeout=20)


def test_a_process_that_slept_through_its_lease_knows(redis_url: str) -> None:
    """A holder that was stopped past its lease finds it lost before it asks, and frees nothing."""
    code = (
        HOLD
        + """
say(hold.valid, hold.lost.is_set(), bool(hold), hold.remaining)
try:
    lock.release()
except interlock.HoldLostError:
    say("refused")
client.close()
"""
    )
    with Child(code, redis_url) as sleeper, interlock.connect(redis_url) as client:
        lock = client.lock("name")
        assert sleeper.hear() == "held"
        sleeper.signal(signal.SIGSTOP)
        assert lock.acquire(timeout=20)
        sleeper.tell()
        sleeper.signal(signal.SIGCONT)
        assert sleeper.hear() == "False True False 0.0"
        assert sleeper.hear() == "refused"
        assert sleeper.end() == (0, "")
        assert lock.owned()
        lock.release()


def test_fork_while_waiting(redis_url: str, redis_client: redis.Redis) -> None:
    """After a fork beside a waiting thread, child and waiter both get the lock in their turn."""
    code = """
    client = interlock.connect(url)
    lock, got = client.lock("name"), threading.Event()
    def wait():
        with lock:
            got.set()
    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: waiters(client) == 1)
    if (child := os.fork()) == 0:
        try:
            assert lock.acquire(timeout=20)
            lock.release()
            client.close()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    say("waiting")
    waiter.join(20)
    assert got.is_set()
    assert os.waitpid(child, 0)[1] == 0
    client.close()
    say("done")
    """
    with interlock.connect(redis_url) as client, Child(code, redis_url) as parent:
        lock = client.lock("name")
        lock.acquire()
        assert parent.hear() == "waiting"
        wait_until(
            lambda: redis_client.pubsub_numsub("redisson_lock__channel:{name}")[0][1] == 2,
            10,
            "both wait",
        )
        lock.release()
        assert parent.hear() == "done"
        assert parent.end() == (0, "")
    # Once the client is closed: a hold that lasts long has the client's card beside it.
    assert not own_keys(redis_client)


def test_fork_in_a_running_event_loop(redis_url: str) -> None:
    """A child forked from a task ends, and its parent's loop, connection and hold are unchanged."""
    code = """
    async def main():
        async with renews_soon(interlock.asyncio.connect(url)) as client:
            async with client.lock("name") as hold:
                before = client.client_id
                if (child := os.fork()) == 0:
                    os._exit(0 if not hold and client.client_id != before else 1)
                assert os.waitpid(child, 0)[1] == 0
                renewed(hold)
                assert hold.valid and await client.lock("name").hold_count() == 1
    asyncio.run(main())
    """
    with Child(code, redis_url) as parent:
        assert parent.end() == (0, "")


EXITS = {
    "holding": "lock.acquire()",
    "holding-in-a-thread": """
thread = threading.Thread(target=lock.acquire)
thread.start()
thread.join()
""",
    "in-with": "lock.__enter__(); sys.exit(0)",
    "holding-twice": "lock.acquire(); lock.acquire()",
    "asyncio": """
async def main():
    await interlock.asyncio.connect(url).lock("name").acquire()
asyncio.run(main())
""",
}


@pytest.mark.promise("ending")
@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_exit_while_holding_releases(redis_client: redis.Redis, redis_url: str, code: str) -> None:
    """An interpreter that exits while it holds frees the lock, at once and without a word."""
    code = f"client = interlock.connect(url)\nlock = client.lock('name')\n{code}"
    with Child(code, redis_url) as child:
        status, told = child.end()
        # A thread that ends with a hold is told of at once, and so is a loop.
        ends_before = "Thread" in code or "asyncio.run" in code
        assert (status, "" if ends_before else told) == (0, "")
        assert not own_keys(redis_client)


def test_exit_while_waiting(redis_client: redis.Redis, redis_url: str) -> None:
    """An interpreter exits silently although daemon threads wait for a lock; nothing is left."""
    code = """
    client = interlock.connect(url)
    for _ in range(5):
        threading.Thread(target=client.lock("name").acquire, daemon=True).start()
    until(lambda: waiters(client) == 5)
    say("waiting")
    """
    with interlock.connect(redis_url) as client, Child(code, redis_url) as child:
        client.lock("name").acquire()
        assert child.hear() == "waiting"
        assert child.end() == (0, "")
        client.lock("name").release()
        wait_until(lambda: not waited_channels(redis_client), 5, "the subscription is gone")
        # A client that has held for a second has a card.
        left = [key for key in redis_client.scan_iter() if not key.startswith(b"interlock_client")]
        assert left == []


def test_exit_does_not_wait_for_a_dead_server(fresh_server: RedisServer) -> None:
    """An interpreter that exits while it holds ends soon, even if the server hangs."""
    with Child(HOLD, fresh_server.url()) as child:
        assert child.hear() == "held"
        fresh_server.pause()
        child.tell()
        status, _ = child.end(timeout=30)
        fresh_server.resume()
        assert status == 0
