"""Clients that end without a normal close: interrupted, dropped, in children, with their loop."""

from __future__ import annotations

import _thread
import asyncio
import gc
import random
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import FORKS, Child
from tests.lock.lock_like import until
from tests.support.cards import own_keys
from tests.support.holding import acquires
from tests.support.patience import forever, let_others_run
from tests.support.renewal import renews_soon
from tests.support.servers import RedisServer, wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis


def test_a_close_while_the_server_stands_still(quiescent: None) -> None:
    """A server that stood still during a close, and never ran the script, releases afterwards."""
    with RedisServer() as server, server.client() as redis_client:
        client = interlock.connect(server.url(), command_timeout=5)
        client.lock("name").acquire()
        wait_until(lambda: redis_client.keys("interlock_client*"), 10, "the background has begun")
        server.pause()
        with pytest.raises(interlock.ServerUnavailableError):
            client.close()
        server.resume()
        wait_until(lambda: not redis_client.exists("name"), 10, "it is released")


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


def test_the_exit_carries_on_an_interrupted_close(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """After an interrupted or cancelled close, the interpreter's exit releases what is held."""
    code = """
    client = interlock.connect(url)
    client.lock("name").acquire()
    def interrupted(timeout):
        del client._driver._pool.close
        raise KeyboardInterrupt
    client._driver._pool.close = interrupted
    try:
        client.close()
    except KeyboardInterrupt:
        say("interrupted")

    async def main():
        client = interlock.asyncio.connect(url)
        await client.lock("another").acquire()
        closing = asyncio.create_task(client.close())
        await asyncio.wait({closing}, timeout=0)
        closing.cancel()
        return client
    kept = asyncio.run(main())
    """
    with Child(code, redis_url) as child:
        assert child.hear() == "interrupted"
        status, _ = child.end()
        assert status == 0
        assert not own_keys(redis_client)


@pytest.mark.filterwarnings("ignore:hold of .* was never released")
@pytest.mark.parametrize("known", [True, False], ids=["known-scripts", "new-scripts"])
async def test_close_during_the_first_connection(
    redis_url: str, redis_client: redis.Redis, known: bool
) -> None:
    """Whenever close comes during the first acquires, nothing stays on the server."""
    for turns in range(60):
        if not known:
            redis_client.script_flush()
        client = interlock.asyncio.connect(redis_url)
        acquiring = [
            asyncio.create_task(acquires(client.lock(f"name {number}"))) for number in range(5)
        ]
        await let_others_run(turns)
        await client.close()
        results = await asyncio.gather(*acquiring, return_exceptions=True)
        assert all(
            result is True or isinstance(result, interlock.ClosedError) for result in results
        )
        assert redis_client.keys() == []


async def _dropped(module: Any, url: str) -> list[str]:
    """Make 20 clients that hold, drop them, and return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(20):
            acquired = module.connect(url).lock(f"name {number}").acquire()
            if module is interlock.asyncio:
                await acquired
        del acquired

        def told() -> list[str]:
            gc.collect()
            return [str(each.message) for each in caught if "unclosed" in str(each.message)]

        await until(lambda: len(told()) == 20, 20, "all are collected")
        return told()


@pytest.mark.parametrize("face", ["sync", "asyncio"])
async def test_dropped_clients_end(
    redis_url: str, redis_client: redis.Redis, quiescent: None, face: str
) -> None:
    """Clients that are collected unclosed release their locks, and end threads and connections.

    A warning names each of them.
    """
    module: Any = interlock.asyncio if face == "asyncio" else interlock
    told = await _dropped(module, redis_url)
    assert all("Client localhost" in each or "Client 127.0.0.1" in each for each in told)
    await until(lambda: not own_keys(redis_client), 10, "what they held is released")


def test_a_dropped_client_that_was_not_used_is_no_matter(redis_url: str) -> None:
    """A client that never connected, or was closed, is collected without a word."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unused, closed = interlock.connect(redis_url), interlock.connect(redis_url)
        closed.lock("name").locked()
        closed.close()
        del unused, closed
        gc.collect()
    assert caught == []


LATE = """
sys.first = interlock.connect(url)  # sys is the last module that is taken apart
sys.first.lock("a").locked()
sys.second = interlock.connect(url)
sys.second.lock("b").acquire()
say("used")
"""


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
    with (
        warnings.catch_warnings(record=True) as caught,
        interlock.connect(redis_url) as client,
    ):
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


def test_nothing_is_printed_at_exit(redis_url: str) -> None:
    """A client that outlives the modules of the interpreter ends without a word."""
    with Child(LATE, redis_url) as child:
        assert child.hear() == "used"
        assert child.end() == (0, "")


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


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_releases(redis_url: str, tmp_path: Any, method: str) -> None:
    """A multiprocessing child that ends while it holds frees the lock.

    It does so once its own threads have ended.
    """
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


def test_a_listener_of_threads_that_cannot_start(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback whose thread cannot start is called when one can."""
    real, refused, called = threading.Thread.start, [], threading.Event()

    def start(thread: threading.Thread) -> None:
        if thread.name == "interlock-callback" and len(refused) < 2:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with (
        renews_soon(interlock.connect(redis_url)) as client,
        interlock.connect(redis_url) as other,
    ):
        lock = client.lock("name")
        lock.acquire()
        hold = lock.hold
        assert hold is not None
        hold.on_lost(called.set)
        other.lock("name").force_release()
        wait_until(called.is_set, 10, "it is called")
    assert len(refused) == 2


def test_no_thread_can_start(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An acquire that cannot start the renewal thread raises our error, and takes nothing."""

    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    client = interlock.connect(redis_url)
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", start)
        with pytest.raises(interlock.ServerUnavailableError, match="cannot be started: can't"):
            client.lock("name").acquire()
    with client, client.lock("name") as hold:
        assert hold.valid


def test_the_users_random_numbers_stay(redis_url: str) -> None:
    """A program that has seeded `random` gets its numbers, whatever a client draws."""
    random.seed(31)
    expected = random.random()
    random.seed(31)
    with interlock.connect(redis_url) as client:
        client.semaphore("name", permits=1).acquire()
        assert not client.semaphore("name").acquire(timeout=0.2)
    assert random.random() == expected


DYING_SERVER = """
client = interlock.connect(url)
client.lock("name").acquire()
say("holds")
sys.stdin.readline()
"""


def test_a_dead_server_is_told_in_few_lines_at_exit(fresh_server: RedisServer) -> None:
    """An exit while holding says that the server cannot be reached, without a traceback."""
    with Child(DYING_SERVER, fresh_server.url()) as child:
        assert child.hear() == "holds"
        fresh_server.kill()
        code, told = child.end()
    assert code == 0
    assert "Traceback" not in told
    assert len(told.splitlines()) < 5
    assert "what was held ends with its lease" in told
