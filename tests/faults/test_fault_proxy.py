"""The proxy's subtle faults, with a real client against a real server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import hiredis
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support.proxy import (
    FaultProxy,
    command,
    delay,
    drop_reply,
    drop_request,
    duplicate,
)
from tests.support.servers import wait_until

from interlock._links.options import anonymous

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Connect = Callable[..., redis.Redis]

pytestmark = pytest.mark.usefixtures("quiescent")


@pytest.fixture
def connect() -> Callable[..., redis.Redis]:
    """Give a function that makes a client which sends nothing of its own accord, nor again."""

    def through(proxy: FaultProxy, *, protocol: int = 2, timeout: float = 10) -> redis.Redis:
        return redis.Redis(
            port=proxy.port,
            protocol=protocol,
            socket_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            **anonymous(),
            max_connections=1,
        )

    return through


@pytest.fixture
def client(proxy: FaultProxy, connect: Callable[..., redis.Redis]) -> Iterator[redis.Redis]:
    """Give a client through the proxy."""
    with connect(proxy) as through:
        yield through


def test_dropped_request_never_reaches_the_server(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis
) -> None:
    """The connection ends; earlier requests are done and answered, and the rest is not done."""
    proxy.on_request(command("INCRBY", nth=2), drop_request)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(b"".join(hiredis.pack_command(("INCRBY", key, 1)) for key in "abc"))
        assert _read_to_end(raw) == b":1\r\n"
    assert redis_client.mget("a", "b", "c") == [b"1", None, None]
    assert client.incrby("b", 1) == 1
    assert proxy.fired == [(drop_request, [b"INCRBY", b"b", b"1"])]


def test_dropped_reply_follows_an_execution(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis
) -> None:
    """The server has executed the command, and no other, when the client loses the connection."""
    proxy.on_request(command("incrby"), drop_reply)
    with pytest.raises(redis.ConnectionError):
        client.incr("key")
    assert redis_client.get("key") == b"1"

    proxy.clear_rules()
    proxy.on_request(command("INCRBY", nth=1), drop_reply)
    with client.pipeline(transaction=False) as pipeline, pytest.raises(redis.ConnectionError):
        pipeline.incr("key").incr("behind").execute()
    assert redis_client.mget("key", "behind") == [b"2", None]
    assert client.incr("key") == 3


def test_delayed_request_is_executed_late(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis, connect: Connect
) -> None:
    """The server learns of the request only after the delay, even if the client has given up."""
    proxy.on_request(command("SET", nth=1), delay(2.0))
    with connect(proxy, timeout=0.2) as hasty, pytest.raises(redis.TimeoutError):
        hasty.set("key", "late")
    assert redis_client.get("key") is None
    wait_until(lambda: redis_client.get("key") == b"late", 10, "it is executed")


@pytest.mark.parametrize("protocol", [2, 3])
def test_duplicate_executes_twice_and_answers_once(
    proxy: FaultProxy, redis_client: redis.Redis, protocol: int, connect: Connect
) -> None:
    """The client gets the first reply only, and later replies belong to later requests."""
    proxy.on_request(command("INCRBY", nth=1), duplicate)
    with connect(proxy, protocol=protocol) as client:
        assert client.incr("key") == 1
        assert client.echo("next") == b"next"
        assert redis_client.get("key") == b"2"
        assert client.incr("key") == 3


def test_message_is_no_answer_to_a_pending_request(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """A message that comes while a request is waiting passes, and the fault is for the reply."""
    proxy.on_request(command("BLPOP"), drop_reply)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("HELLO", "3")))
        raw.recv(4096)
        raw.sendall(hiredis.pack_command(("SUBSCRIBE", "a")))
        _expect(raw, b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
        raw.sendall(hiredis.pack_command(("BLPOP", "list", "0")))
        wait_until(lambda: bool(proxy.fired), 10, "it is waiting")
        redis_client.publish("a", "heard")
        _expect(raw, b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nheard\r\n")
        redis_client.rpush("list", "item")
        assert _read_to_end(raw) == b""
    assert redis_client.llen("list") == 0


def test_lost_confirmation_is_one_reply_of_a_subscription(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """A rule on SUBSCRIBE befalls its confirmation and not the messages before it."""
    proxy.on_request(command("SUBSCRIBE", nth=2), drop_reply)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("SUBSCRIBE", "a")))
        _expect(raw, b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
        redis_client.publish("a", "heard")
        raw.sendall(hiredis.pack_command(("SUBSCRIBE", "b")))
        assert _read_to_end(raw) == b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nheard\r\n"


def _expect(raw: socket.socket, data: bytes) -> None:
    received = b""
    while len(received) < len(data):
        piece = raw.recv(len(data) - len(received))
        assert piece, f"closed after {received!r}"
        received += piece
    assert received == data


def _read_to_end(raw: socket.socket) -> bytes:
    return b"".join(iter(lambda: raw.recv(4096), b""))
