"""Our locks behind redis-py's interface.

The tests use them beside redis-py's own locks, in django-redis, and with features that redis-py
lacks.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError
from tests.hosts.pages import write_programs
from tests.support.renewal import grown, renews_soon
from tests.support.servers import RedisServer, wait_until

import interlock
import interlock.asyncio.redis_py
import interlock.redis_py
from interlock.redis_py import Lock, client_of


@pytest.fixture
def r(redis_url: str) -> Iterator[redis.Redis]:
    """Give redis-py's client, whose locks are ours only when asked for."""
    with redis.Redis.from_url(redis_url) as client:
        yield client
        client_of(client).close()


def ours(client: Any, name: str = "name", **options: Any) -> Lock:
    lock = client.lock(name, lock_class=Lock, **options)
    assert isinstance(lock, Lock)
    return lock


def test_the_two_kinds_exclude_each_other(r: redis.Redis) -> None:
    """redis-py's lock and ours exclude each other under one name, whichever waits for the other."""
    theirs, mine = r.lock("name", timeout=20), ours(r, timeout=20, sleep=0.01)
    assert theirs.acquire()
    assert mine.locked()
    assert not mine.owned()
    assert not mine.acquire(blocking=False)
    assert not mine.acquire(blocking_timeout=0.05)
    theirs.release()
    assert mine.acquire()
    assert not theirs.acquire(blocking=False)
    mine.release()
    assert theirs.acquire(blocking=False)
    theirs.release()


def test_a_lock_without_timeout_is_renewed_as_long_as_its_object_lives(redis_url: str) -> None:
    """A lock without a timeout is renewed; it ends a lease after its object is dropped."""

    class Short(Lock):
        options = interlock.Options(lease=6)

    with redis.Redis.from_url(redis_url) as client:
        renews_soon(client_of(client, Short.options))
        lock = client.lock("name", lock_class=Short)
        assert lock.acquire()
        for _ in range(3):
            wait_until(grown(lock.hold), 10, "it is renewed")
        assert lock.owned()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", interlock.MisuseWarning)
            del lock
            gc.collect()
            wait_until(lambda: warned, 10, "a thread of its own warns")
        wait_until(lambda: not client.exists("name"), 10, "the lock ended")
        client_of(client, Short.options).close()


def test_another_process_releases_by_the_token(r: redis.Redis, redis_url: str) -> None:
    """A process with ``local.token`` owns, extends and releases the lock, once."""
    lock = ours(r, timeout=20)
    assert lock.acquire()
    token = lock.local.token
    program = f"""if 1:
        import redis
        from interlock.redis_py import Lock
        r = redis.Redis.from_url({redis_url!r})
        lock = r.lock("name", lock_class=Lock, timeout=30, thread_local=False)
        lock.local.token = {token!r}
        assert lock.owned()
        assert lock.reacquire()
        assert r.pttl("name") > 25_000
        lock.release()
        assert lock.local.token is None
        """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert not r.exists("name")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    lock.local.token = token
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_a_server_that_is_gone_raises_the_error_of_redis_py() -> None:
    """Programs that catch redis-py's ConnectionError catch what a server causes that is gone."""
    with RedisServer() as server, redis.Redis.from_url(server.url()) as client:
        lock = ours(client, timeout=0.5)
        assert lock.acquire()
        server.stop()
        with pytest.raises(RedisConnectionError):
            lock.acquire(blocking=False)
        with pytest.raises(RedisConnectionError):
            lock.locked()
        with pytest.raises((RedisConnectionError, LockNotOwnedError)):
            lock.release()
        client_of(client).close()


def test_a_waiter_whose_client_is_closed_gets_the_error_of_redis_py(
    r: redis.Redis, redis_url: str
) -> None:
    """A waiter gets redis-py's ConnectionError if the client behind its lock is closed."""
    with interlock.connect(redis_url) as other, other.lock("name"), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ours(r, timeout=20, blocking_timeout=20).acquire)

        def waits() -> bool:
            info = other.describe("name")
            return info is not None and info.waiting_at_least > 0

        wait_until(waits, 10, "it waits")
        client_of(r).close()
        error = waiting.exception(10)
    assert isinstance(error, RedisConnectionError)
    assert isinstance(error.__cause__, interlock.ClosedError)


def test_options_that_are_not_met_raise_the_error_of_redis_py(redis_url: str) -> None:
    """An error that only our options cause is a LockError; a wrong call is told as such."""

    class Replicated(Lock):
        options = interlock.Options(replicas=interlock.required(1, 0.1))

    with redis.Redis.from_url(redis_url) as client:
        with pytest.raises(LockError) as caught:
            client.lock("name", lock_class=Replicated, timeout=20).acquire()
        assert isinstance(caught.value.__cause__, interlock.ReplicationError)
        wait_until(lambda: not client.exists("name"), 5, "what was granted is given back")
        with pytest.raises(interlock.ConfigError, match="lease must be"):
            client.lock("name", lock_class=Replicated, timeout=0.001).acquire()
        client_of(client, Replicated.options).close()


def test_clients_of_one_pool_share_a_client_that_goes_with_the_pool(redis_url: str) -> None:
    """All share one client of ours, which ends with the pool; a closed one is replaced."""
    pool = redis.ConnectionPool.from_url(redis_url)
    one, other = redis.Redis(connection_pool=pool), redis.Redis(connection_pool=pool)
    shared = client_of(one)
    assert client_of(other) is shared
    shared.close()
    assert client_of(one) is not shared
    client_of(one).close()
    before = len(interlock.sync.redis_py._clients)
    pool.disconnect()
    del one, other, pool
    gc.collect()
    assert len(interlock.sync.redis_py._clients) < before


async def test_asyncio_locks(redis_url: str, r: redis.Redis) -> None:
    """The object that acquired holds it, in any task; redis-py's lock and it exclude each other."""
    client = redis.asyncio.Redis.from_url(redis_url)
    kind = interlock.asyncio.redis_py.Lock
    lock: Any = client.lock("name", lock_class=kind, timeout=20, sleep=0.01)
    async with lock:
        assert await lock.owned()
        assert not r.lock("name").acquire(blocking=False)
        assert not await client.lock("name", lock_class=kind, blocking=False).acquire()
    theirs = client.lock("name", timeout=20)
    assert await theirs.acquire()
    assert not await lock.acquire(blocking_timeout=0.05)
    assert await lock.locked()
    await theirs.release()
    await interlock.asyncio.redis_py.client_of(client).close()
    await client.aclose()


def test_django_redis_locks(redis_url: str, tmp_path: Path) -> None:
    """``cache.lock`` of django-redis makes locks of ours with the settings that the page shows."""
    write_programs("../coming/redis-py.md", tmp_path)
    settings = tmp_path / "settings.py"
    settings.write_text(settings.read_text().replace("redis://localhost:6379/0", redis_url))
    program = tmp_path / "program.py"
    program.write_text("""if 1:
        import django
        django.setup()
        from django.core.cache import cache
        from django_redis import get_redis_connection
        import interlock.redis_py
        cache.set("key", 1)
        with cache.lock("name", timeout=20) as lock:
            assert isinstance(lock, interlock.redis_py.Lock)
            assert get_redis_connection().type(":1:name") == b"hash"
            assert not cache.lock("name", blocking=False).acquire()
        assert not cache.lock("name").locked()
        assert cache.get("key") == 1
        """)
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, str(program)], check=True, timeout=60, env=environ)


@pytest.mark.parametrize("name", ["with_gevent.py", "with_trio.py"])
def test_the_program_of_a_page_runs(name: str, redis_url: str, tmp_path: Path) -> None:
    """The page on asyncio shows programs for gevent and trio that run as they stand."""
    write_programs("asyncio.md", tmp_path)
    program = tmp_path / name
    program.write_text(program.read_text().replace("redis://localhost:6379/0", redis_url))
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
