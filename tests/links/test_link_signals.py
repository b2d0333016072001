"""Signals that come again and again while the client waits."""

from __future__ import annotations

import gc
import signal
import socket
import threading
import time
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import interlock
from interlock._core.model.effects import Eval, Script
from interlock._links import exchange
from interlock._links.connection import Connection
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from tests.support.servers import RedisServer

PATIENCE = 10.0
"""Seconds that a client waits for connections that are in use."""


@contextmanager
def alarms(interval: float, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Deliver SIGALRM to this process every *interval* seconds."""
    former = signal.signal(signal.SIGALRM, handler)
    former_timer = signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *former_timer)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.timeout(60, method="thread")  # the other method is an alarm
@pytest.mark.parametrize("part", ["C", "Python"])
def test_periodic_signals_do_not_prolong_the_sending(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A server that stands still takes no more than the buffers of the network hold."""
    if part == "Python":
        monkeypatch.setattr(exchange, "_in_c", None)
    call = Eval(Script[object]("one", "return 1", lambda reply: reply), ("key",), ("x" * 10_000,))
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = Endpoint.from_url(f"redis://127.0.0.1:{server.getsockname()[1]}")
        connection = Connection(endpoint, 1.0)
        began = time.monotonic()

        def strike(*_: object) -> None:
            assert time.monotonic() - began < PATIENCE, "a signal starts the wait anew"

        with (
            alarms(0.1, strike),
            pytest.raises(interlock.ServerUnavailableError, match="no reply in 1 s"),
        ):
            connection.begin([call] * 2000, 1.0)
        connection.close()


@pytest.mark.timeout(60, method="thread")  # the other method is an alarm
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", [OSError, TimeoutError, RuntimeError])
def test_the_error_of_a_handler_ends_the_wait(
    fresh_server: RedisServer, kind: type[Exception]
) -> None:
    """The caller gets it, even if it looks like an error of the connection."""
    strikes = iter((True,))

    def strike(*_: object) -> None:
        if next(strikes, False):
            raise kind("from the handler")

    with interlock.connect(fresh_server.url(), command_timeout=PATIENCE) as client:
        lock = client.lock("name")
        assert not lock.locked()
        fresh_server.pause()
        try:
            with pytest.raises(kind, match="from the handler"), alarms(0.1, strike):
                lock.acquire()
        finally:
            fresh_server.resume()
        assert lock.acquire(timeout=PATIENCE)
        lock.release()


@pytest.mark.needs("gcc")
def test_the_rest_of_a_lost_reply_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """No later command gets it, if a Ctrl-C lost the beginning and the rest comes late."""
    assert exchange._in_c is not None
    ask = exchange._in_c
    strikes, lost = iter((True,)), threading.Event()

    def struck(*args: Any) -> object:
        reply = ask(*args)
        if next(strikes, False):
            lost.set()
            raise KeyboardInterrupt
        return reply

    def serve() -> None:
        with suppress(OSError), server.accept()[0] as first:
            _ = first.recv(1000)
            first.sendall(b"*3\r\n")
            _ = lost.wait(30)
            first.sendall(b":1\r\n")
            _ = first.recv(1000)  # the next command, if the connection is used again
            first.sendall(b":2\r\n:3\r\n")
        with server.accept()[0] as second:
            _ = second.recv(1000)
            second.sendall(b":4\r\n")

    monkeypatch.setattr(exchange, "_in_c", struck)
    call = Eval[object](Script("one", "return 1", lambda reply: reply), ("key",), ())
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        pool = Pool(Endpoint.from_url(f"redis://127.0.0.1:{port}"))
        with pytest.raises(KeyboardInterrupt):
            _ = pool.eval(call, 30)
        assert pool.eval(call, 30) == 4
        pool.close(30)


def test_a_signal_while_a_connection_closes_leaves_nothing_to_wait_for(
    fresh_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the client does not wait for a connection that only a traceback keeps."""
    closing = Connection.close

    def struck(connection: Connection) -> None:
        monkeypatch.setattr(Connection, "close", closing)
        raise KeyboardInterrupt(connection)

    client = interlock.connect(fresh_server.url(), command_timeout=PATIENCE)
    with client.lock("name"):
        pass
    fresh_server.kill()
    monkeypatch.setattr(Connection, "close", struck)
    with pytest.raises(KeyboardInterrupt) as kept:
        client.lock("name").acquire(timeout=0)
    began = time.monotonic()
    with suppress(interlock.InterlockError):
        client.close()
    assert time.monotonic() - began < PATIENCE / 2
    assert isinstance(kept.value.args[0], Connection)


@pytest.mark.timeout(60, method="thread")  # the other method is an alarm
@pytest.mark.promise("signals")
def test_a_handler_acquires_what_its_thread_waits_for(redis_url: str) -> None:
    """A signal handler that acquires what its own thread is acquiring gets ReentryError."""
    told: list[BaseException] = []

    def handle(*_: object) -> None:
        try:
            client.lock("name").acquire()
        except interlock.ReentryError as error:
            told.append(error)

    with interlock.connect(redis_url) as rival, interlock.connect(redis_url) as client:
        assert rival.lock("name").acquire()
        with alarms(0.1, handle):
            assert not client.lock("name").acquire(timeout=1)
        assert len(told) >= 3
        rival.lock("name").release()
        assert client.lock("name").acquire(timeout=10)


@contextmanager
def collections(_: float, finalizer: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have the collector call *finalizer* again and again, in whatever step it begins."""
    going_on = [True]

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            finalizer(0, None)
            if going_on:
                Cycle()

    former = gc.get_threshold()
    gc.set_threshold(50)
    for _ in range(10):  # one that a collection meets while it is made may never be met again
        Cycle()
    try:
        yield
    finally:
        going_on.clear()
        gc.set_threshold(*former)


@pytest.mark.usefixtures("patient")  # many short tries
@pytest.mark.timeout(120, method="thread")  # the other method is an alarm
@pytest.mark.promise("signals")
@pytest.mark.parametrize(("strikes", "often"), [(alarms, 100), (collections, 10)])
def test_a_handler_or_finalizer_asks_and_releases_wherever_it_strikes(
    redis_url: str, strikes: Callable[..., AbstractContextManager[None]], often: int
) -> None:
    """It never waits for what it interrupts, and the collector may be at work in any thread."""
    done, turn = [0], threading.Lock()

    def handle(*_: object) -> None:
        if turn.acquire(blocking=False):  # not while it runs already
            assert client.lock("of handlers").acquire(timeout=0)
            assert client.lock("name").locked() in (True, False)
            client.lock("of handlers").release()
            done[0] += 1
            turn.release()

    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as rival:
        lock, other = client.lock("name"), rival.lock("name")
        with strikes(0.003, handle):
            until = time.monotonic() + 60
            while done[0] <= often and time.monotonic() < until:
                assert other.acquire(timeout=20)
                assert not lock.acquire(timeout=0.005)
                other.release()
                assert lock.acquire(timeout=20)
                lock.release()
        # The collector may be at work in a thread of the client: none begins after this.
        assert turn.acquire(timeout=20)
        assert done[0] > often


class _Struck(set[object]):
    """A set after whose first addition a signal strikes."""

    def add(self, element: object) -> None:
        super().add(element)
        raise KeyboardInterrupt


def test_a_signal_takes_no_place_of_a_connection(fresh_server: RedisServer) -> None:
    """What a signal interrupts just before it opens a connection counts as none from then on."""
    client = interlock.connect(fresh_server.url())
    driver: Any = client._driver
    with client.lock("name"):
        [pool] = driver._pool._pools.values()
        pool._opening = _Struck()
        with pytest.raises(KeyboardInterrupt):
            pool._another(time.monotonic() + 1)
        assert not pool._opening
        pool._opening = set()
    began = time.monotonic()
    client.close()
    assert time.monotonic() < began + 1
