"""Watching a lock: what others do with it is told, in order, and why a hold ended."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import threading
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.cli_process import ENVIRON
from tests.lock.lock_like import until
from tests.support.patience import GIVE_UP, wait_until
from tests.support.servers import RedisServer

import interlock
import interlock.asyncio
from interlock.errors import ClosedError, ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.lock.lock_like import Face

    from interlock import Change, Client

EVERY = 0.05


class Seen:
    """Iterates over a watch in a thread, and keeps what it tells."""

    def __init__(self, watch: interlock.Watch) -> None:
        self._changes: queue.Queue[Change] = queue.Queue()
        self._watch = watch
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for change in self._watch:
                self._changes.put(change)
        except interlock.InterlockError as error:
            self.error = error

    def next(self, *wanted: str) -> Change:
        """Return the next change that is no news of waiters, unless these are *wanted*."""
        while True:
            change = self._changes.get(timeout=GIVE_UP)
            if change.what != "waiters" or "waiters" in wanted:
                return change

    def knows(self) -> bool:
        """Tell whether the watch knows the process of a holder."""
        return any(each.client.pid for each in self._watch._watcher._holders.values())

    def join(self) -> None:
        """Wait for the end of the iteration."""
        self._thread.join(GIVE_UP)
        assert not self._thread.is_alive()


@pytest.fixture
def seen(redis_url: str) -> Iterator[Callable[..., Seen]]:
    """Give what watches a lock, by a client that ends with the test."""
    with interlock.connect(redis_url) as watching:
        threads: list[Seen] = []

        def watch(name: str) -> Seen:
            threads.append(Seen(watching.watch(name, every=EVERY)))
            return threads[-1]

        yield watch
    for thread in threads:
        thread.join()
        assert isinstance(thread.error, ClosedError)


def test_holders_and_waiters_are_told(client: Client, seen: Callable[..., Seen]) -> None:
    """A watch tells who holds now, each release, who comes next, and how many wait."""
    lock, told = client.lock("job"), threading.Event()
    first = client.try_lock("job")
    watch = seen("job")
    change = watch.next()
    assert (change.name, change.what, change.why) == ("job", "acquired", "")
    assert change.holder is not None
    assert change.holder.holder == first.holder
    assert change.holders == (change.holder,)

    def wait() -> None:
        with lock:
            assert told.wait(GIVE_UP)

    waiting = threading.Thread(target=wait)
    waiting.start()
    change = watch.next("waiters")
    assert (change.what, change.holder, change.waiting) == ("waiters", None, 1)
    first.release()
    change = watch.next()
    assert (change.what, change.holder and change.holder.holder) == ("released", first.holder)
    change = watch.next()
    assert change.what == "acquired"
    assert change.holder is not None
    assert change.holder.holder != first.holder
    told.set()
    waiting.join(GIVE_UP)
    change = watch.next()
    assert (change.what, change.holders) == ("released", ())


@pytest.mark.parametrize(
    "kind", ["fair_lock", "fenced_lock", "read", "write", "permit", "election", "java"]
)
def test_every_kind_is_watched(
    client: Client, redis_client: redis.Redis, seen: Callable[..., Seen], kind: str
) -> None:
    """Locks of all kinds, permits, elections and Java's locks are seen."""
    watch = seen("job")
    if kind == "java":
        redis_client.hset("job", "00000000-0000-0000-0000-00000000cafe:1", 1)
        assert watch.next().what == "acquired"
        redis_client.delete("job")
    else:
        held: Any = {
            "read": lambda: client.read_write_lock("job").read,
            "write": lambda: client.read_write_lock("job").write,
            "permit": lambda: client.leased_semaphore("job", 2).acquire(),
            "election": lambda: client.election("job"),
        }.get(kind, lambda: getattr(client, kind)("job"))()
        with held:
            assert watch.next().what == "acquired"
    assert watch.next().what == "released"


def test_a_loss_is_told_with_its_reason(
    client: Client, redis_client: redis.Redis, seen: Callable[..., Seen]
) -> None:
    """A lease that runs out, a forced release and a flush are losses."""
    watch = seen("job")
    assert client.lock("job", lease=0.5).acquire()
    assert watch.next().what == "acquired"
    change = watch.next()
    assert (change.what, change.why) == ("lost", "expired")

    hold = client.try_lock("job", lease=60)
    assert watch.next().what == "acquired"
    with interlock.connect(client_url(redis_client)) as operator:
        assert operator.force_release("job", holder=hold.holder or "", reason="it hangs")
    change = watch.next()
    assert (change.what, change.why) == ("lost", "force-released: it hangs")

    assert client.lock("job", owner="another").acquire()
    assert watch.next().what == "acquired"
    redis_client.flushdb()
    change = watch.next()
    assert change.what == "lost"
    assert "FLUSHDB" in change.why
    client.lock("job", owner="another")


def client_url(redis_client: redis.Redis) -> str:
    """Return the URL of the shared server."""
    given = redis_client.connection_pool.connection_kwargs
    return (
        f"unix://{given['path']}" if "path" in given else f"redis://{given['host']}:{given['port']}"
    )


def test_who_held_it_is_told(client: Client, seen: Callable[..., Seen]) -> None:
    """Of a hold that lasted, machine, process and thread are told at its end."""
    watch = seen("job")
    with client.lock("job"):
        wait_until(lambda: known(client), GIVE_UP, "its card is written")
        change = watch.next()
        wait_until(watch.knows, GIVE_UP, "the watch has read the card")
    change = watch.next()
    assert change.holder is not None
    assert change.holder.client.pid
    assert change.holder.thread == "thread 'MainThread'"


def known(client: Client) -> bool:
    """Tell whether the lock's holder has a card."""
    info = client.describe("job")
    return info is not None and bool(info.holders[0].client.pid)


async def test_a_callback_is_called(face: Face, redis_url: str) -> None:
    """An observation calls back with each change, outlives an error in it, and ends when closed."""
    told: list[str] = []
    reported: list[str] = []
    client = face.module.connect(redis_url)
    async with interlock.asyncio.connect(redis_url) as other:

        def callback(change: Change) -> None:
            told.append(change.what)
            if len(told) == 1:
                raise LookupError("a callback that fails stops nothing")

        with pytest.MonkeyPatch.context() as patch:
            module = "background.aio_change_watchers" if face.is_async else "process.lifecycle"
            patch.setattr(
                f"interlock._drivers.{module}.report",
                lambda what, error: reported.append(f"{what}: {type(error).__name__}"),
            )
            observation = client.watch("job", every=EVERY).observe(callback)
            async with other.lock("job"):
                await until(lambda: told == ["acquired"], GIVE_UP, "it is told")
            await until(lambda: told == ["acquired", "released"], GIVE_UP, "it is told of the end")
            assert reported == ["a callback of the lock 'job': LookupError"]
        if face.is_async:
            await observation.close()
            await client.close()
        else:
            await asyncio.to_thread(observation.close)
            await asyncio.to_thread(client.close)


async def test_asyncio(redis_url: str) -> None:
    """A watch is an async iterator; a time-out of one wait loses no change."""
    async with interlock.asyncio.connect(redis_url) as client:
        async with client.watch("job", every=EVERY) as watch:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watch), 3 * EVERY)
            async with client.lock("job"):
                assert (await asyncio.wait_for(anext(watch), GIVE_UP)).what == "acquired"
            async for change in watch:
                assert change.what == "released"
                break
        lock = client.lock("job")
        assert await lock.acquire()
        assert (await anext(watch)).what == "acquired"
        await lock.release()
        await watch.close()


def test_an_outage_is_an_error_and_the_next_look_goes_on() -> None:
    """Without a server, iterating raises; later it tells what has changed since the last look."""
    with RedisServer() as server:
        url = server.url()
        with interlock.connect(url, outage_timeout=0.5) as client:
            watch = client.watch("job", every=EVERY)
            hold = client.try_lock("job", lease=500)
            assert next(watch).what == "acquired"
            server.kill()
            with pytest.raises(ServerUnavailableError):
                next(watch)
            server.start()
            change = next(watch)
            assert change.what == "lost"
            assert "restarted" in change.why
            watch.close()
            del hold


def test_rights_and_mistakes(
    client: Client, narrow: Callable[..., str], redis_client: redis.Redis
) -> None:
    """A lock that may not be read, a name and a duration that cannot be are errors."""
    with (
        interlock.connect(narrow("~other")) as stranger,
        pytest.raises(ServerUnavailableError, match="no right to read 'job'"),
    ):
        next(stranger.watch("job"))
    for wrong in ({"name": ""}, {"name": "job", "every": 0}, {"name": "job", "every": "soon"}):
        with pytest.raises(ConfigError):
            client.watch(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.watch("job").observe("no callback")  # type: ignore[arg-type]


def test_a_forked_child_has_connections_of_its_own(redis_url: str) -> None:
    """A watch that a child inherits goes on there, and in its parent."""
    code = dedent("""
        import os, sys, warnings
        import interlock
        warnings.simplefilter("ignore", DeprecationWarning)
        with interlock.connect(sys.argv[1]) as client:
            watch, lock = client.watch("job", every=0.01), client.lock("job")
            with lock:
                assert next(watch).what == "acquired"
            if (child := os.fork()) == 0:
                assert next(watch).what == "released"
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            assert next(watch).what == "released"
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, redis_url],
        env=ENVIRON,
        timeout=GIVE_UP,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
