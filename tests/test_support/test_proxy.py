"""The proxy: it relays faithfully, records what it sees, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import hiredis
import pytest
import redis
import redis.asyncio
from tests.support.proxy import (
    Action,
    FaultProxy,
    blackhole,
    command,
    delay,
    delay_reply,
    drop_reply,
    swallow_reply,
)
from tests.support.servers import RedisServer, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    Connect = Callable[..., redis.Redis]

pytestmark = pytest.mark.usefixtures("quiescent")


def test_without_rules_everything_passes(
    proxy: FaultProxy, client: redis.Redis, connect: Connect
) -> None:
    """Replies of every shape, errors and a megabyte arrive as the server sent them."""
    big = b"\r\n*$" * 250_000
    assert client.set("big", big)
    assert client.get("big") == big
    assert client.get("missing") is None
    assert client.eval("return {1, 'two', {false, {}}}", 0) == [1, b"two", [None, []]]
    with pytest.raises(redis.ResponseError, match="wrong kind of value"):
        client.lpush("big", 1)
    with client.pipeline(transaction=True) as pipeline:
        assert pipeline.set("a", 1).get("a").execute() == [True, b"1"]
    with connect(proxy, protocol=3) as resp3:
        resp3.hset("hash", "field", 1.5)
        assert resp3.hgetall("hash") == {b"field": b"1.5"}
        assert resp3.config_get("maxmemory")


def test_unix_target_is_reached(server: RedisServer, redis_url: str, connect: Connect) -> None:
    """The proxy leads from TCP to a server's Unix socket as well."""
    with FaultProxy(server.unix_path) as proxy, connect(proxy) as client:
        assert client.ping()


def test_record_shows_each_request_and_counts_round_trips(
    proxy: FaultProxy, client: redis.Redis, connect: Connect
) -> None:
    """Pipelined commands are recorded one by one, and a pipeline is a single round trip."""
    sha = client.script_load("return ARGV[1]")
    proxy.clear_record()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(5):
            pipeline.evalsha(sha, 0, number)
        assert pipeline.execute() == [b"0", b"1", b"2", b"3", b"4"]
    client.ping()
    with connect(proxy) as second:
        second.echo("hello")

    assert proxy.commands == {"EVALSHA": 5, "PING": 1, "ECHO": 1}
    assert proxy.round_trips == 3
    assert [request.args[-1] for request in proxy.record[:5]] == [b"0", b"1", b"2", b"3", b"4"]
    first, last = proxy.record[0], proxy.record[-1]
    assert last.args == [b"ECHO", b"hello"]
    assert last.connection == first.connection + 1
    assert proxy.fired == []


def test_disconnect_ends_all_open_connections(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis, connect: Connect
) -> None:
    """Clients find their connections closed and can come back at once."""
    client.ping()
    assert proxy.open_connections == 1
    proxy.disconnect()
    assert proxy.open_connections == 0
    with connect(proxy) as again:
        assert again.ping()


async def test_asyncio_clients_share_the_proxy(proxy: FaultProxy) -> None:
    """The proxy serves an event loop in this very process, with a fault among many requests."""
    proxy.on_request(command("INCRBY", nth=10), drop_reply)
    async with redis.asyncio.Redis(port=proxy.port, retry=None, max_connections=20) as client:
        work = (client.incr("key") for _ in range(20))
        results = await asyncio.gather(*work, return_exceptions=True)
        failed = [result for result in results if isinstance(result, redis.ConnectionError)]
        assert len(failed) == 1
        assert await client.get("key") == b"20"


def test_dead_target_closes_the_connection(fresh_server: RedisServer, connect: Connect) -> None:
    """While the server is down clients are hung up on, and served again when it is back."""
    with FaultProxy(("127.0.0.1", fresh_server.port)) as proxy, connect(proxy) as client:
        assert client.ping()
        fresh_server.kill()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        fresh_server.restart()
        assert client.ping()


@pytest.mark.parametrize(
    "action", [blackhole, swallow_reply, delay(60), delay_reply(60)], ids=lambda a: a.kind
)
def test_closing_ends_connections_in_every_state(
    server: RedisServer, redis_url: str, action: Action
) -> None:
    """Leaving the context hangs up at once on idle clients and on those that a fault delays."""
    with FaultProxy(("127.0.0.1", server.port)) as proxy:
        proxy.on_request(command("PING"), action)
        waiting = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
        waiting.sendall(hiredis.pack_command(("PING",)))
        idle = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
        wait_until(lambda: bool(proxy.fired), 10, "the fault is made")
    for connection in (waiting, idle):
        with connection, pytest.raises(ConnectionError):
            if connection.recv(1) == b"":
                raise ConnectionError
    assert not any(thread.name == "fault-proxy" for thread in threading.enumerate())


def test_what_is_not_resp_is_reported(server: RedisServer) -> None:
    """Bytes that the proxy cannot relay end the connection and fail the test on leaving."""
    with (
        pytest.raises(BaseExceptionGroup) as caught,
        FaultProxy(("127.0.0.1", server.port)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw,
    ):
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert raw.recv(1) == b""
    assert caught.group_contains(ValueError, match="not a RESP frame")
