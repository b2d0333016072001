"""Processes that are killed, stopped, forked and ended while they hold and while they wait."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.support.cards import own_keys, waited_channels
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

CHANNEL = "redisson_lock__channel:{name}"
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
    with (
        Child(code, redis_url) as holder,
        interlock.connect(redis_url) as client,
    ):
        lock = client.lock("name")
        assert holder.hear() == "held"
        assert not lock.acquire(timeout=3.5)
        holder.kill()
        assert lock.acquire(timeout=3 + 3)


def test_a_process_that_slept_through_its_lease_knows(redis_url: str) -> None:
    """A holder that was stopped past its lease finds its hold lost before it asks.

    The hold is not valid, and its release frees nothing.
    """
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
    """After a fork beside a waiting thread, the child waits on its own.

    The child and the parent's waiter both get the lock in their turn.
    """
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
        wait_until(lambda: redis_client.pubsub_numsub(CHANNEL)[0][1] == 2, 10, "both wait")
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
}


@pytest.mark.promise("ending")
@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_exit_while_holding_releases(redis_client: redis.Redis, redis_url: str, code: str) -> None:
    """An interpreter that exits while it holds frees the lock, at once and without a word."""
    code = f"client = interlock.connect(url)\nlock = client.lock('name')\n{code}"
    with Child(code, redis_url) as child:
        status, told = child.end()
        # A thread that ends with a hold is told of at once.
        assert (status, told if "Thread" not in code else "") == (0, "")
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
    """An interpreter that exits while it holds ends within seconds, even if the server hangs."""
    code = HOLD
    with Child(code, fresh_server.url()) as child:
        assert child.hear() == "held"
        fresh_server.pause()
        started = time.monotonic()
        child.tell()
        status, _ = child.end()
        fresh_server.resume()
        assert status == 0
        assert time.monotonic() - started < 5


def test_asyncio_run_that_ends_while_holding(redis_client: redis.Redis, redis_url: str) -> None:
    """If asyncio.run ends with a held lock and no close, the lock is free when the process ends."""
    code = """
    async def main():
        await interlock.asyncio.connect(url).lock("name").acquire()
    asyncio.run(main())
    say("over")
    """
    with Child(code, redis_url) as child:
        assert child.hear() == "over"
        assert child.end()[0] == 0
        assert not own_keys(redis_client)
