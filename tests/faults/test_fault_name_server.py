"""What a name server that gives no answer may delay, and what a thread that connects may.

No report of a loss comes late, and no call ends after its timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.faults import command, delay_reply

from interlock import HoldLostError, ServerUnavailableError
from interlock._core.insight.card import CARD, INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

NAME = "redis.test"
"""The host that only the name server knows."""

STALL = 60.0
"""Seconds for which the resolver is silent: longer than everything that must not wait for it."""
SOON = 20.0
"""Seconds for what takes two, on a machine that stalls too."""


class NameServer:
    """The resolver of this process, which may be silent.

    Attributes:
        addresses: those of `NAME`.
    """

    def __init__(self) -> None:
        self.silent = False
        self.addresses = ["127.0.0.1"]
        self._goes_on = threading.Event()
        self._resolve = socket.getaddrinfo

    def __call__(self, host: Any, *args: Any, **kwargs: Any) -> Any:
        """Resolve as `socket.getaddrinfo` does."""
        if host not in (NAME, NAME.encode()):
            return self._resolve(host, *args, **kwargs)
        if self.silent:
            _ = self._goes_on.wait(STALL)
        return [info for each in self.addresses for info in self._resolve(each, *args, **kwargs)]

    def go_on(self) -> None:
        """Answer everybody."""
        self.silent = False
        self._goes_on.set()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """Give the resolver, which answers at first."""
    name_server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", name_server)
    yield name_server
    name_server.go_on()


async def test_a_loss_is_reported_before_the_next_holder_works(
    stage: Stage, server: RedisServer, name_server: NameServer
) -> None:
    """The client must connect anew and cannot resolve its server's name: the hold ends in time."""
    named = f"redis://{NAME}:{server.port}/0"
    client, other = stage.client(named, lease=2), stage.client()
    holder, next_holder = stage.owner(), stage.owner()
    lock = stage.lock(client)
    assert await holder.do(lock.acquire)
    hold = await holder.do(lambda: lock.hold)
    told: list[Any] = []
    await holder.do(hold.on_lost, lambda: told.append(hold))
    name_server.silent = True
    server.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    assert await next_holder.do(stage.lock(other).acquire, timeout=SOON)
    assert hold.lost.is_set()
    with pytest.raises(HoldLostError):
        await holder.do(hold.ensure)
    await until(lambda: told, SOON, "on_lost is called")


async def test_an_acquire_ends_with_its_timeout(
    stage: Stage, server: RedisServer, name_server: NameServer
) -> None:
    """A client that cannot resolve its server's name says so when the caller's time is up."""
    client = stage.client(f"redis://{NAME}:{server.port}/0")
    lock, owner = stage.lock(client), stage.owner()
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    name_server.silent = True
    server.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    begun = time.monotonic()
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.acquire, timeout=1)
    assert time.monotonic() - begun < SOON
    name_server.go_on()
    assert await owner.do(lock.acquire, timeout=SOON)
    await owner.do(lock.release)


@pytest.fixture
def swallows(server: RedisServer) -> Iterator[str]:
    """Give an address that swallows what is sent to the port of *server*."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.2", server.port))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            _ = waiting.connect_ex(("127.0.0.2", server.port))
        yield "127.0.0.2"


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("options", ["", "?socket_keepalive=yes"], ids=["plain", "redis-py"])
async def test_one_address_of_several_swallows_everything(
    stage: Stage, server: RedisServer, name_server: NameServer, swallows: str, options: str
) -> None:
    """The next one is tried while there is time."""
    name_server.addresses = [swallows, "127.0.0.1"]
    client = stage.client(f"redis://{NAME}:{server.port}/0{options}", command_timeout=2)
    lock, owner = stage.lock(client), stage.owner()
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)


def _resolving() -> int:
    return sum(thread.name == "interlock-resolver" for thread in threading.enumerate())


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("options", ["", "?socket_keepalive=yes"], ids=["plain", "redis-py"])
async def test_threads_that_wait_for_a_name_server(
    stage: Stage, server: RedisServer, name_server: NameServer, options: str
) -> None:
    """However many calls need the name, and however often, one thread asks for it."""
    client = stage.client(f"redis://{NAME}:{server.port}/0{options}", command_timeout=0.5)
    owners = [stage.owner() for _ in range(8)]
    name_server.silent = True
    for _ in range(2):
        tries = [
            owner.do(stage.lock(client, f"name-{number}").acquire, timeout=1)
            for number, owner in enumerate(owners)
        ]
        failures = await asyncio.gather(*tries, return_exceptions=True)
        assert {type(each) for each in failures} == {ServerUnavailableError}
        assert _resolving() == 1
    name_server.go_on()
    await until(lambda: not _resolving(), SOON, "the thread ends")
    lock = stage.lock(client)
    assert await owners[0].do(lock.acquire, timeout=SOON)
    await owners[0].do(lock.release)


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_no_thread_asks_for_what_every_machine_knows(
    stage: Stage, server: RedisServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Starting one takes longer than to connect."""
    names: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        names.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    client = stage.client(f"redis://{host}:{server.port}/0")
    lock, owner = stage.lock(client), stage.owner()
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    assert "interlock-resolver" not in names


def _named(redis_client: redis.Redis) -> list[str]:
    """Return the ids of the connections that write cards."""
    clients: list[dict[str, str]] = redis_client.client_list()
    return [each["id"] for each in clients if each["name"].startswith("interlock:")]


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_close_while_the_thread_connects(
    stage: Stage, proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """The thread writes no card after the client has removed it, and leaves no connection."""
    client, owner = stage.client(renewed="soon"), stage.owner()
    lock = stage.lock(client, lease=60)  # nobody renews it: the thread only writes cards
    assert await owner.do(lock.acquire)
    await until(lambda: redis_client.exists(INDEX), SOON, "the card is written")
    proxy.on_request(command("CLIENT", "SETNAME"), delay_reply(1.0))
    for each in _named(redis_client):
        _ = redis_client.client_kill_filter(_id=each)
    await until(lambda: proxy.fired, SOON, "the thread connects")
    await stage.close(client)
    assert not redis_client.exists(INDEX, CARD.format(client.client_id))
    await until(lambda: not _named(redis_client), SOON, "the connection is closed")
