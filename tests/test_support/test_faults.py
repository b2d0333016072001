"""Every fault is proven with a real client against a real server."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import hiredis
import pytest
import redis
import redis.asyncio
from tests.support.proxy import (
    FaultProxy,
    blackhole,
    command,
    delay,
    delay_reply,
    dribble,
    drop_reply,
    drop_request,
    duplicate,
    reset,
    stop_accepting,
    swallow_reply,
)
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    Connect = Callable[..., redis.Redis]

pytestmark = pytest.mark.usefixtures("quiescent")


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


def test_swallowed_reply_leaves_the_connection_open_and_silent(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """The server executes this request and later ones, and the client hears of none."""
    proxy.on_request(command("INCR"), swallow_reply)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("INCR", "key")))
        raw.sendall(hiredis.pack_command(("SET", "behind", "done")))
        wait_until(lambda: redis_client.get("behind") == b"done", 10, "it is executed")
        assert redis_client.get("key") == b"1"
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(1)


def test_delayed_request_is_executed_late(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis, connect: Connect
) -> None:
    """The server learns of the request only after the delay, even if the client has given up."""
    proxy.on_request(command("SET", nth=1), delay(2.0))
    with connect(proxy, timeout=0.2) as hasty, pytest.raises(redis.TimeoutError):
        hasty.set("key", "late")
    assert redis_client.get("key") is None
    wait_until(lambda: redis_client.get("key") == b"late", 10, "it is executed")


def test_delayed_reply_belongs_to_a_timely_execution(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """The server executes at once, and the reply arrives after the delay, in order."""
    proxy.on_request(command("INCR"), delay_reply(0.5))
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        begin = time.monotonic()
        raw.sendall(hiredis.pack_command(("INCR", "key")) + hiredis.pack_command(("PING",)))
        wait_until(lambda: redis_client.get("key") == b"1", 10, "it is executed")
        _expect(raw, b":1\r\n+PONG\r\n")
        assert time.monotonic() - begin >= 0.5


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


def test_reset_is_seen_as_a_reset(proxy: FaultProxy, redis_client: redis.Redis) -> None:
    """The client's socket fails with ECONNRESET and the server has seen nothing."""
    proxy.on_request(command("SET"), reset)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("SET", "key", "value")))
        with pytest.raises(ConnectionResetError):
            raw.recv(1)
    assert redis_client.get("key") is None


def test_dribbled_reply_arrives_in_pieces_and_whole(proxy: FaultProxy, client: redis.Redis) -> None:
    """A reader sees many small pieces that add up to the very reply."""
    proxy.on_request(command("ECHO"), dribble)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("ECHO", "x" * 50)))
        pieces = [raw.recv(100)]
        while sum(map(len, pieces)) < 57:
            pieces.append(raw.recv(100))
    assert b"".join(pieces) == b"$50\r\n" + b"x" * 50 + b"\r\n"
    assert len(pieces) > 2
    assert client.echo("hello") == b"hello"


def test_blackhole_swallows_both_directions_of_one_connection(
    proxy: FaultProxy, client: redis.Redis, redis_client: redis.Redis
) -> None:
    """Neither requests nor messages pass any more; other connections are untouched."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("SUBSCRIBE", "news")))
        _expect(raw, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
        proxy.on_request(command("PING", nth=1), blackhole)
        raw.sendall(hiredis.pack_command(("PING",)))
        wait_until(lambda: bool(proxy.fired), 10, "the rule has fired")
        raw.sendall(hiredis.pack_command(("UNSUBSCRIBE",)))
        wait_until(lambda: proxy.commands["UNSUBSCRIBE"] == 1, 10, "it is read")
        assert redis_client.publish("news", "hello") == 1
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(1)
        assert client.ping()


def test_stop_accepting_refuses_new_connections_only(
    proxy: FaultProxy, client: redis.Redis, connect: Connect
) -> None:
    """Open connections go on, new ones are refused until the proxy accepts again."""
    proxy.on_request(command("SET"), stop_accepting)
    assert client.set("key", "value")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    assert client.get("key") == b"value"
    proxy.start_accepting()
    with connect(proxy) as second:
        assert second.get("key") == b"value"
    proxy.stop_accepting()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


@pytest.mark.parametrize("kind", ["", "p", "s"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_can_be_lost_alone(
    proxy: FaultProxy, redis_client: redis.Redis, protocol: int, kind: str, connect: Connect
) -> None:
    """With `drop_messages` confirmations, pongs and replies arrive, and messages do not."""
    publish = "SPUBLISH" if kind == "s" else "PUBLISH"
    with connect(proxy, protocol=protocol) as client, client.pubsub() as subscriber:

        def next_type() -> str:
            event = subscriber.parse_response(block=True, timeout=10)
            return event if isinstance(event, str) else event[0].decode()

        subscriber.execute_command(f"{kind}SUBSCRIBE", "a", "b")
        assert [next_type(), next_type()] == [f"{kind}subscribe"] * 2
        redis_client.execute_command(publish, "a", "heard")
        assert next_type() == f"{kind}message"

        proxy.drop_messages = True
        redis_client.execute_command(publish, "a", "lost")
        wait_until(lambda: proxy.dropped_messages == 1, 10, "the message is lost")
        subscriber.execute_command(f"{kind}SUBSCRIBE", "c")
        assert next_type() == f"{kind}subscribe"
        subscriber.execute_command(f"{kind}UNSUBSCRIBE", "c")
        assert next_type() == f"{kind}unsubscribe"

        proxy.drop_messages = False
        redis_client.execute_command(publish, "b", "heard")
        assert next_type() == f"{kind}message"
        subscriber.execute_command(f"{kind}UNSUBSCRIBE")
        assert [next_type(), next_type()] == [f"{kind}unsubscribe"] * 2


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


def test_unsubscribing_from_all_is_answered_once_for_each(proxy: FaultProxy) -> None:
    """A connection that is to end after the replies under way gets every confirmation first."""
    proxy.on_request(command("PING"), drop_request)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as raw:
        raw.sendall(hiredis.pack_command(("SUBSCRIBE", "a", "b")))
        for number, channel in enumerate((b"a", b"b"), start=1):
            _expect(raw, b"*3\r\n$9\r\nsubscribe\r\n$1\r\n%b\r\n:%d\r\n" % (channel, number))
        raw.sendall(hiredis.pack_command(("UNSUBSCRIBE",)) + hiredis.pack_command(("PING",)))
        assert _read_to_end(raw).count(b"unsubscribe") == 2


def test_first_matching_rule_wins_and_all_count(proxy: FaultProxy, client: redis.Redis) -> None:
    """Rules that name the first and second request both see both, whatever became of them."""
    proxy.on_request(command("INCRBY", nth=1), drop_request)
    proxy.on_request(command("INCRBY", nth=2), duplicate)
    proxy.on_request(lambda args: args[1:2] == [b"cursed"], drop_request)
    with pytest.raises(redis.ConnectionError):
        client.incr("key")
    assert client.incr("key") == 1
    assert client.incr("key") == 3
    with pytest.raises(redis.ConnectionError):
        client.get("cursed")
    assert [action for action, _args in proxy.fired] == [drop_request, duplicate, drop_request]


def _expect(raw: socket.socket, data: bytes) -> None:
    received = b""
    while len(received) < len(data):
        piece = raw.recv(len(data) - len(received))
        assert piece, f"closed after {received!r}"
        received += piece
    assert received == data


def _read_to_end(raw: socket.socket) -> bytes:
    return b"".join(iter(lambda: raw.recv(4096), b""))
