"""Clients that end, normally or not: what is left of them, and of what was under way."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from typing import Any

import pytest
import redis
from tests.objects.acts import each_face
from tests.objects.awaited import Face, until
from tests.objects.worlds import World
from tests.support.cards import own_keys
from tests.support.child import FORKS, Child
from tests.support.patience import forever
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio


@each_face
@pytest.mark.usefixtures("patient")
def test_nothing_is_left_after_close(
    quiescent: None, redis_url: str, redis_client: redis.Redis, world: World
) -> None:
    """After close no key, subscription, connection, thread, task or open file is left."""
    actors = owner, waiter, third = [world.actor() for _ in range(3)]
    client, other = [owner.do(world.face.connect, redis_url) for _ in range(2)]
    lock, theirs = client.lock("name"), other.lock("name")
    assert owner.do(lock.acquire)
    waiting = waiter.start(theirs.acquire)
    assert not third.do(theirs.acquire, timeout=0.2)
    owner.do(lock.release)
    assert waiting.result(20)
    waiter.do(theirs.release)
    assert owner.do(client.lock("held at the end").acquire)
    assert owner.do(client.lock("this too", lease=50).acquire)
    for each in (client, other):
        owner.do(each.close)
    if world.cancels:
        assert owner.do(lambda: len(asyncio.all_tasks())) == len(actors)
    for actor in actors:
        actor.end()
    world.end()
    assert not own_keys(redis_client)
    assert redis_client.pubsub_channels() == []


CYCLES = WARM = 10_000
"""Cycles; every bounded cache is full after the first ones."""
FLAT = CYCLES // 4
"""Blocks of memory: a single object kept of each cycle would be four times as many."""


def _memory() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.rest
async def test_memory_stays_flat_in_tasks(redis_url: str) -> None:
    """Ten thousand cycles in as many tasks leave no memory behind."""
    async with interlock.asyncio.connect(redis_url) as client:

        async def visit(number: int) -> None:
            async with client.lock(f"name {number}"):
                pass

        async def cycle(numbers: range) -> None:
            for start in numbers[::100]:
                await asyncio.gather(*map(visit, range(start, start + 100)))

        await cycle(range(WARM))
        before = _memory()
        await cycle(range(WARM, WARM + CYCLES))
        assert _memory() - before < FLAT


async def test_a_cancelled_close_can_be_repeated(
    redis_url: str, redis_client: redis.Redis, quiescent: None
) -> None:
    """A close that is cancelled at any time releases and ends everything when called again."""
    over = False
    for turns in range(200):
        client = interlock.asyncio.connect(redis_url)
        await client.lock("name").acquire()
        closing = asyncio.create_task(client.close())
        for turn in range(turns):
            # Later turns wait for replies of the server.
            await asyncio.sleep(0 if turn < 6 else 0.0005)
        over = closing.done()
        closing.cancel()
        await asyncio.wait({closing})
        await client.close()
        assert not own_keys(redis_client)
        if over and turns > 5:
            break
    assert over, "some close came to its end before it was cancelled"


async def test_dropped_clients_end(
    redis_url: str, redis_client: redis.Redis, quiescent: None, face: Face
) -> None:
    """Clients that are collected unclosed are named, release their locks and end all they began."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(5):
            await face.call(face.module.connect(redis_url).lock(f"name {number}").acquire)

        def told() -> list[str]:
            gc.collect()
            return [str(each.message) for each in caught if "unclosed" in str(each.message)]

        await until(lambda: len(told()) == 5, 20, "all are collected")
    assert all("Client localhost" in each or "Client 127.0.0.1" in each for each in told())
    await until(lambda: not own_keys(redis_client), 10, "what they held is released")


def test_what_a_closed_loop_held_ends(redis_url: str, quiescent: None) -> None:
    """The locks of tasks that a closed loop left unfinished are renewed no more.

    Nor are their permits, unless something refers to them. A warning names each of them.
    """
    loop, kept = asyncio.new_event_loop(), []

    async def hold() -> None:
        client = renews_soon(interlock.asyncio.connect(redis_url, lease=4))
        semaphore = client.leased_semaphore("permits")
        await semaphore.try_set_permits(1)
        await semaphore.acquire()
        await client.lock("name").acquire()
        kept.append(client)
        await forever()

    task = loop.create_task(hold())
    loop.run_until_complete(until(lambda: kept, 10, "it holds"))
    loop.close()
    with warnings.catch_warnings(record=True) as caught, interlock.connect(redis_url) as client:
        warnings.simplefilter("always")
        assert client.lock("name").acquire(timeout=10)
        assert client.leased_semaphore("permits").try_acquire(timeout=10)
        words = " ".join(str(each.message) for each in caught)
    assert all(f"hold of {name!r}" in words for name in ("name", "permits"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a task and a connection that never end by themselves
        asyncio.run(kept[0].close())
        task._log_destroy_pending = False
        del task
        kept.clear()
        gc.collect()


CHILD_OF = """
import multiprocessing

def work(url, ready):
    global client
    client = interlock.connect(url)
    client.lock("name").acquire()
    def late():
        time.sleep(0.3)  # until the main thread has ended
        assert client.lock("name").locked()
    threading.Thread(target=late).start()
    ready.set()

if __name__ == "__main__":
    used = interlock.connect(url)
    used.lock("before").locked()
    context = multiprocessing.get_context(method)
    ready = context.Event()
    child = context.Process(target=work, args=(url, ready))
    child.start()
    child.join()
    say(child.exitcode, ready.is_set(), used.lock("name").locked())
    used.close()
"""


@pytest.mark.parametrize(
    "method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.rest)]
)
def test_a_child_of_multiprocessing_releases(redis_url: str, tmp_path: Any, method: str) -> None:
    """A child that ends while it holds frees the lock, once its own threads have ended."""
    program = tmp_path / "program.py"
    imports = "import sys, threading, time\nimport interlock\n"
    say = "def say(*words):\n    print(*words, flush=True)\n"
    program.write_text(f"{imports}{say}url, method = sys.argv[1:]\n{CHILD_OF}")
    code = f"""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-W", "error", "-W", {FORKS!r}, {str(program)!r}, url, {method!r}])
    """
    with Child(code, redis_url) as child:
        assert child.hear() == "0 True False"
        assert child.end() == (0, "")
