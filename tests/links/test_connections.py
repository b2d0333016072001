"""Connections that nobody needs any more, whose reply is late, or whose caller has gone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.listening import listening
from tests.support.servers import wait_until

import interlock
from interlock._core.model.effects import Eval, Script
from interlock._drivers import fan_out
from interlock._links import pool as pools
from interlock._links.endpoint import Endpoint
from interlock._links.multiplexer import Multiplexer
from interlock._links.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from interlock._links.dialled import Dialled

LIMIT = 10.0
"""Seconds for what takes milliseconds."""
ONE: Script[object] = Script("one", "return 1", lambda reply: reply)
MANY = 8
FEW = 3
"""Connections of a client with one busy thread: its own, and those for renewals and messages."""


def test_idle_connections_end(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many threads were busy at once, what the others leave is kept for a while only."""
    monkeypatch.setattr(pools, "IDLE", 0.5)
    before = len(redis_client.client_list())

    def opened() -> int:
        return len(redis_client.client_list()) - before

    with interlock.connect(redis_url) as client:
        barrier = threading.Barrier(MANY)

        def work(number: int) -> None:
            barrier.wait(30)
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                with client.lock(f"name{number}"):
                    pass

        redis_client.execute_command("CLIENT", "PAUSE", 300, "WRITE")  # so that none is idle
        threads = [threading.Thread(target=work, args=(number,)) for number in range(MANY)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert opened() >= MANY

        def one_is_busy() -> bool:
            with client.lock("name0"):
                return opened() <= FEW

        wait_until(one_is_busy, 30, "the idle connections have ended")
        addresses = {each["addr"] for each in redis_client.client_list()}
        for _ in range(200):
            with client.lock("name0"):
                time.sleep(0.01)  # several times as long as a connection may be idle
        # What is in use stays, so nothing was opened anew.
        assert {each["addr"] for each in redis_client.client_list()} <= addresses


@contextmanager
def answering(delay: float) -> Iterator[tuple[Pool, list[socket.socket]]]:
    """Give connections to a server that answers each command with 1 after *delay* seconds.

    With them comes what the server has accepted.
    """
    accepted: list[socket.socket] = []

    def serve(connected: socket.socket) -> None:
        accepted.append(connected)
        while connected.recv(1 << 16):
            assert not threading.Event().wait(delay)
            connected.sendall(b":1\r\n")

    with listening(serve) as port:
        pool = Pool(Endpoint.from_url(f"redis://127.0.0.1:{port}"))
        yield pool, accepted
        pool.close(0)


def asked(*asked: Pool) -> list[object]:
    """Return the replies of those *asked* that came before one of them was enough."""
    calls = [(pool, Eval(ONE, ("key",), ()), LIMIT) for pool in asked]
    enough: Any = lambda *_: 0.0  # noqa: E731
    return fan_out.ask(calls, enough)


def test_a_reply_soon_after_enough_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, and its connection is used again."""
    monkeypatch.setattr(fan_out, "MOMENT", LIMIT)  # a machine under load makes any reply late
    with answering(0.0) as (prompt, _), answering(0.1) as (slow, accepted):
        for _ in range(4):
            _ = asked(prompt, slow)
            owner: Any = slow.serving(Eval(ONE, ("key",), ()))
            # At first a thread of its own connects, which may not have begun yet.
            wait_until(lambda pool=owner: bool(pool._open), LIMIT, "it is connected")
            wait_until(lambda pool=owner: len(pool._idle) == len(pool._open), LIMIT, "it is read")
        assert len(accepted) == 1


def test_a_reply_long_after_enough_others() -> None:
    """Its connection is closed, and no other one."""
    with answering(0.0) as (prompt, _), answering(LIMIT) as (hanging, _):
        pool: Any = hanging.serving(Eval(ONE, ("key",), ()))
        for connection in [pool._take(LIMIT) for _ in range(2)]:
            pool.take_back(connection)
        _ = asked(prompt, hanging)
        wait_until(lambda: len(pool._open) < 2, LIMIT, "one is closed")
        assert pool.idle() is not None


class Slow(Endpoint):
    """Its connections are there when a test wants that."""

    connecting: threading.Event
    let_through: threading.Event

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        """Connect as soon as that is wanted."""
        self.connecting.set()
        assert self.let_through.wait(LIMIT)
        return super().connect(timeout, for_loop=for_loop)


def test_an_interrupted_call_of_many_while_its_thread_connects() -> None:
    """It is not sent after the release by a thread that just connected."""

    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    with answering(0.0) as (prompt, _), socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        endpoint: Any = Slow.from_url(f"redis://127.0.0.1:{server.getsockname()[1]}")
        endpoint.connecting, endpoint.let_through = threading.Event(), threading.Event()
        slow = Pool(endpoint)
        calls = [(pool, Eval(ONE, ("key",), ()), LIMIT) for pool in (prompt, slow)]
        with pytest.raises(KeyboardInterrupt):
            fan_out.ask(calls, interrupted)
        assert endpoint.connecting.wait(LIMIT)
        endpoint.let_through.set()
        there, _ = server.accept()
        with there:
            pool = slow.serving(calls[1][1])
            wait_until(lambda: len(pool._idle) == 1, LIMIT, "the thread has given it back")
            slow.close(0)
            there.settimeout(LIMIT)
            assert not there.recv(1 << 16)


async def test_tasks_that_go_while_their_threads_connect() -> None:
    """A call that has a thread for itself is not sent after the release.

    There are no more threads than connections.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        url = f"redis://127.0.0.1:{server.getsockname()[1]}?max_connections=1"
        endpoint: Any = Slow.from_url(url)
        endpoint.connecting, endpoint.let_through = threading.Event(), threading.Event()
        whole = Multiplexer(endpoint, LIMIT)
        call = Eval(ONE, ("key",), ())
        for _ in range(3):
            asking = asyncio.ensure_future(whole._aside(call, LIMIT))
            _ = await asyncio.to_thread(endpoint.connecting.wait, LIMIT)
            await asyncio.sleep(0.01)
            _ = asking.cancel()
            _ = await asyncio.wait({asking})
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("interlock-connect") == 1
        endpoint.let_through.set()
        there, _ = await asyncio.to_thread(server.accept)
        with there:
            pool = whole._blocking.serving(call)
            await asyncio.to_thread(wait_until, lambda: not pool._opening, LIMIT, "it is connected")
            whole.abort()
            there.settimeout(LIMIT)
            sent = await asyncio.to_thread(there.recv, 1 << 16)
    assert not sent


async def test_a_node_that_leaves_while_a_task_connects_to_it() -> None:
    """The task goes on with it, and the client still closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        leaving: Any = Slow.from_url(f"redis://127.0.0.1:{server.getsockname()[1]}")
        leaving.connecting, leaving.let_through = threading.Event(), threading.Event()
        whole = Multiplexer(Mock(clustered=True, nodes=[]), LIMIT)
        connecting = asyncio.ensure_future(whole.connected(leaving, LIMIT))
        _ = await asyncio.to_thread(leaving.connecting.wait, LIMIT)
        leaving.let_through.set()
        pipeline = await connecting
        assert not pipeline.dead
        await whole.close()
        assert pipeline.dead
