"""Each error that a server may answer has its meaning and changes nothing; clients recover."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.objects.awaited import renewed, until
from tests.support.servers import RedisServer, main_binary, wait_until

from interlock import ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.objects.awaited import Stage

AT_ONCE = 8.0
"""Seconds that a busy machine may take; an outage that is sat out lasts longer."""


@contextmanager
def _between(begin: str, end: str, server: RedisServer) -> Iterator[None]:
    server.execute(*begin.split())
    yield
    server.execute(*end.split())


@contextmanager
def _cannot_persist(server: RedisServer) -> Iterator[None]:
    dump = server.unix_path.parent / "data" / "dump.rdb"
    dump.unlink(missing_ok=True)
    in_the_way = dump / "not-empty"
    in_the_way.mkdir(parents=True)
    server.execute("CONFIG", "SET", "save", "3600 1000000")
    _save(server, "err")
    yield
    in_the_way.rmdir()
    dump.rmdir()
    _save(server, "ok")


def _save(server: RedisServer, outcome: str) -> None:
    def saved() -> bool:
        with server.client() as client:
            return client.info("persistence")["rdb_last_bgsave_status"] == outcome

    server.execute("BGSAVE")
    wait_until(saved, 10, f"the save ended: {outcome}")


@contextmanager
def _busy(server: RedisServer) -> Iterator[None]:
    # The older of its two names; every version knows it.
    server.execute("CONFIG", "SET", "lua-time-limit", 1)

    def run_for_ever() -> None:
        with pytest.raises(redis.ResponseError, match="killed"):
            server.execute("EVAL", "while true do end", 0)

    def isbusy() -> bool:
        try:
            server.execute("GET", "anything")
        except redis.ResponseError as error:
            return str(error).startswith("BUSY")
        return False

    thread = threading.Thread(target=run_for_ever)
    thread.start()
    wait_until(isbusy, 5, "the server is busy")
    yield
    server.execute("SCRIPT", "KILL")
    thread.join()


TROUBLES: dict[str, Callable[[RedisServer], Any]] = {
    "BUSY": _busy,
    "MISCONF": _cannot_persist,
    "NOPERM": partial(_between, "ACL SETUSER default -evalsha -eval", "ACL SETUSER default +@all"),
    "NOREPLICAS": partial(
        _between, "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"
    ),
    "OOM": partial(_between, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "READONLY": partial(_between, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
}
TRANSIENT = {"BUSY", "NOREPLICAS", "LOADING", "READONLY"}
"""Errors that may pass; READONLY from a server that has executed scripts before."""


@pytest.fixture(params=sorted(TROUBLES))
def code(request: pytest.FixtureRequest) -> str:
    return request.param


@contextmanager
def _refused(code: str, *, wait: float = 0.0) -> Iterator[None]:
    started = time.monotonic()
    with pytest.raises(ServerUnavailableError) as caught:
        yield
    assert (caught.value.code, caught.value.transient) == (code, code in TRANSIENT)
    assert not caught.value.sent
    # A lasting trouble is told at once; a passing one is sat out as long as the caller waits.
    assert time.monotonic() - started < AT_ONCE + (wait if code in TRANSIENT else 0)


async def test_a_refused_acquire(stage: Stage, code: str, fresh_server: RedisServer) -> None:
    """A refused acquire or re-entry raises an error with its code, and changes nothing."""
    lock, owner = stage.client(fresh_server.url()).lock("name", timeout=0.3), stage.owner()
    other = stage.client(fresh_server.url()).lock("other")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    assert await owner.do(other.acquire)
    with TROUBLES[code](fresh_server):
        with _refused(code):
            await owner.do(lock.acquire, timeout=0)
        with _refused(code, wait=0.3):
            await owner.do(stage.face.enter, lock)
        with _refused(code):
            await owner.do(other.acquire, timeout=0)
        hold = await owner.do(lambda: other.hold)
        assert (hold.depth, hold.valid) == (1, True)
    assert not fresh_server.execute("EXISTS", "name")
    assert await owner.do(other.hold_count) == 1
    assert await owner.do(lock.acquire, timeout=5)
    await owner.do(lock.release)
    await owner.do(other.release)


async def test_a_refused_inner_release(stage: Stage, code: str, fresh_server: RedisServer) -> None:
    """An inner release succeeds even if the server refuses it, and the hold goes on.

    The server is told of the depth when it takes commands again.
    """
    client, owner = stage.client(fresh_server.url(), outage_timeout=0.2), stage.owner()
    lock = client.lock("name")
    assert await owner.do(lock.acquire)
    assert await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    with TROUBLES[code](fresh_server):
        await owner.do(lock.release)
        assert (hold.depth, hold.valid) == (1, True)
        if code == "OOM":
            assert await owner.do(lock.hold_count) == 1
            await owner.do(lock.extend, 40)
        else:
            with _refused(code, wait=0.2):
                await owner.do(lock.extend, 40)

    async def counted() -> bool:
        return await owner.do(lock.hold_count) == 1

    await until(counted, 10, "the server was told of the new depth")
    await owner.do(lock.release)
    assert not fresh_server.execute("EXISTS", "name")


async def test_a_refused_last_release_is_carried_through(
    stage: Stage, code: str, fresh_server: RedisServer
) -> None:
    """A hold that could not be released is not renewed any more.

    The lock is free soon after the server takes commands again.
    """
    client = stage.client(fresh_server.url(), outage_timeout=0.2)
    lock, owner = client.lock("name"), stage.owner()
    assert await owner.do(lock.acquire)
    with TROUBLES[code](fresh_server):
        if code == "OOM":
            await owner.do(lock.release)
        else:
            with _refused(code, wait=0.2):
                await owner.do(lock.release)
    await until(
        lambda: not fresh_server.execute("EXISTS", "name"), 10, "the release was sent again"
    )
    assert await owner.do(lock.acquire, timeout=10)
    await owner.do(lock.release)


# One thread renews for both faces.
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_refused_renewal(stage: Stage, code: str, fresh_server: RedisServer) -> None:
    """A refused renewal is no loss, and is tried again.

    A hold outlives any trouble that is shorter than its validity.
    """
    lock, owner = stage.client(fresh_server.url(), lease=4.5).lock("name"), stage.owner()
    assert await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    with TROUBLES[code](fresh_server):
        await asyncio.sleep(1.6)  # a renewal is due meanwhile
        assert hold.valid
    await renewed(hold)
    assert await owner.do(lock.owned)
    await owner.do(lock.release)


@pytest.mark.parametrize(("face", "database"), [("sync", 0), ("asyncio", 1)], indirect=["face"])
async def test_a_loading_server_is_sat_out(stage: Stage, database: int) -> None:
    """While a server loads its data, a single try fails with LOADING; one with time waits.

    Holds survive.
    """
    debug: dict[str, str | int] = {
        "enable-debug-command": "yes",
        "loading-process-events-interval-bytes": 1024,
    }
    with RedisServer(main_binary(), config=debug) as server:
        held, owner = stage.client(server.url(database)).lock("held"), stage.owner()
        lock = stage.client(server.url(database)).lock("name")
        assert await owner.do(held.acquire)
        server.execute("DEBUG", "POPULATE", 2000, "key", 64)
        server.execute("CONFIG", "SET", "key-load-delay", 400)
        thread = threading.Thread(target=server.execute, args=("DEBUG", "RELOAD"))
        thread.start()

        def is_loading() -> bool:
            try:
                server.execute("GET", "key")
            except redis.BusyLoadingError:
                return True
            return False

        wait_until(is_loading, 5, "the server loads")
        with _refused("LOADING"):
            await owner.do(lock.acquire, timeout=0)
        assert await owner.do(lock.acquire, timeout=10)
        thread.join()
        assert await owner.do(held.owned)
        await owner.do(lock.release)
        await owner.do(held.release)
        await stage.end()


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("version", ["redis-6.2", "redis-8.2", "valkey-8.1"])
async def test_every_version_is_understood(
    stage: Stage, version: str, server_of_version: Callable[[str], RedisServer]
) -> None:
    """What each server version says in its own words comes to the same codes."""
    server, owner = server_of_version(version), stage.owner()
    server.execute("FLUSHALL")
    lock = stage.client(server.url()).lock("name")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    for code, trouble in TROUBLES.items():
        with trouble(server), _refused(code):
            await owner.do(lock.acquire, timeout=0)
    server.execute("ACL", "SETUSER", "default", "-hset")
    with pytest.raises(ServerUnavailableError) as caught:
        await owner.do(lock.acquire, timeout=0)
    assert caught.value.code == "NOPERM"
    server.execute("ACL", "SETUSER", "default", "+@all")
    await until(lambda: not server.execute("EXISTS", "name"), 10, "what was begun is undone")
    server.execute("SET", "name", "text")
    with pytest.raises(WrongTypeError):
        await owner.do(lock.acquire)
    server.execute("DEL", "name")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
