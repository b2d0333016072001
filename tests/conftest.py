"""Fixtures for every test: real servers, a proxy that makes faults, both faces, leak checks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlock._core.locks import red_lock, together
from interlock._drivers import aio
from interlock._embedded import EmbeddedServer
from tests.needs import VERSIONS
from tests.objects.awaited import Face
from tests.support.proxy import FaultProxy
from tests.support.scripts import EVERY_TEXT
from tests.support.servers import RedisServer, binaries, default_binary, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    import redis


PATIENCE = 2.0
"""Seconds that a single try has in tests that ask for `patient`."""
_QUIET_TIMEOUT = 10.0


def pytest_collectstart() -> None:
    """Collect no garbage while the tests are collected: thousands of objects stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of every collection of garbage.

    A full collection holds the interpreter lock. With them it lasts longer than some leases.
    """
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Give the collector its objects back: plugins look for them."""
    gc.enable()
    gc.unfreeze()


@pytest.fixture(autouse=True)
def lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give red locks time to wait for all of their servers, which may lack the processor."""
    monkeypatch.setattr(together, "LINGER", PATIENCE)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a healthy server seconds to answer a single try.

    It is luck whether a server gets the processor in time.
    """
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", PATIENCE)
    monkeypatch.setattr(red_lock, "MOST_PATIENCE", PATIENCE)
    monkeypatch.setattr(aio.AsyncDriver._seconds, "__defaults__", (PATIENCE,))


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    """Give the one server that most tests share; do not harm it."""
    with RedisServer() as shared:
        yield shared


@pytest.fixture
def redis_url(server: RedisServer) -> str:
    """Give the URL of the shared server, whose data is gone."""
    server.execute("FLUSHALL")
    return server.url()


@pytest.fixture
def redis_client(server: RedisServer, redis_url: str) -> Iterator[redis.Redis]:
    with server.client() as client:
        # At once, so that `quiescent` finds its connection there before the test as after it.
        client.ping()
        yield client


@pytest.fixture
def loaded(redis_client: redis.Redis) -> redis.Redis:
    """Give a client of a server that knows every script, so that each call is one EVALSHA."""
    for text in EVERY_TEXT:
        redis_client.script_load(text)
    return redis_client


@pytest.fixture
def proxy(server: RedisServer, redis_url: str) -> Iterator[FaultProxy]:
    with FaultProxy(("127.0.0.1", server.port)) as between:
        yield between


@pytest.fixture
def fresh_server() -> Iterator[RedisServer]:
    """Give a server of the test's own, to be paused, killed and restarted."""
    with RedisServer() as own:
        yield own


@pytest.fixture(scope="session")
def server_of_version() -> Iterator[Callable[[str], RedisServer]]:
    """Give a function from a version to its server, started on first use and shared."""
    found = binaries()
    started: dict[str, RedisServer] = {}
    with contextlib.ExitStack() as stack:

        def of_version(version: str) -> RedisServer:
            if version not in found:
                pytest.fail(f"{version} is not installed, only {sorted(found)}")
            if version not in started:
                started[version] = stack.enter_context(RedisServer(found[version]))
            return started[version]

        yield of_version


@pytest.fixture(params=VERSIONS)
def any_server(
    request: pytest.FixtureRequest, server_of_version: Callable[[str], RedisServer]
) -> RedisServer:
    """Give a shared server of each supported version in turn, whose data is gone."""
    chosen = server_of_version(request.param)
    chosen.execute("FLUSHALL")
    return chosen


@pytest.fixture(params=["sync", "asyncio"])
def face(request: pytest.FixtureRequest) -> Face:
    return Face(request.param)


@pytest.fixture(
    params=[
        *("redis", "redis.asyncio"),
        *(
            pytest.param(name, marks=pytest.mark.needs("hosts"))
            for name in ("valkey", "valkey.asyncio")
        ),
    ]
)
def library(request: pytest.FixtureRequest) -> ModuleType:
    """Give each library in turn whose clients `from_redis` takes; either face takes each."""
    return importlib.import_module(request.param)


@pytest.fixture
def quiescent(server: RedisServer) -> Iterator[None]:
    """Fail the test if threads, open files or connections to the shared server outlive it.

    Name this fixture first: it does not look at things that were set up before it. Garbage is not
    collected here, for what only the collector closes has leaked.
    """
    threads, files, clients = _threads(), _open_files(), _clients(server)

    def left_over() -> list[str]:
        return [
            *(repr(thread) for thread in _threads() - threads),
            *(f"open file {target}" for target in (_open_files() - files).elements()),
            *(f"connection {line}" for key, line in _clients(server).items() if key not in clients),
        ]

    yield
    with contextlib.suppress(TimeoutError):  # the assertion names what is left
        wait_until(lambda: not left_over(), _QUIET_TIMEOUT, "nothing is left over")
    assert left_over() == []


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _open_files() -> Counter[str]:
    """Count what this process has open; sockets and pipes are told apart by their numbers."""
    targets: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            targets[str(link.readlink())] += 1
    return targets


def _clients(server: RedisServer) -> dict[int, str]:
    """Return the lines of CLIENT LIST by client id, without the one that asks."""
    with server.client() as client:
        own = int(client.client_id())
        lines = client.execute_command("CLIENT", "LIST").decode().splitlines()
    listed = {int(line.split()[0].removeprefix("id=")): line for line in lines}
    return {number: line for number, line in listed.items() if number != own}


@pytest.fixture
def runtime(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Be a user with a fresh runtime directory, whose servers linger until the test is over.

    They run the program that the other tests have.
    """
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    programs = tmp_path_factory.mktemp("programs")
    (programs / "valkey-server").symlink_to(default_binary())
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("INTERLOCK_EMBEDDED_LINGER", "60")
    with tempfile.TemporaryDirectory(prefix="il-") as root:  # tmp_path is too long for a socket
        monkeypatch.setenv("XDG_RUNTIME_DIR", root)
        yield Path(root)
        for directory in Path(root).glob(f"interlock-{os.getuid()}/*"):
            EmbeddedServer(directory).stop()
