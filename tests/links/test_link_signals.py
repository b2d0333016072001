"""Signals that come again and again while the client waits."""

from __future__ import annotations

import gc
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import interlock
from interlock._core.model.effects import Eval, Script
from interlock._links import exchange
from interlock._links.connection import Connection
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool
from interlock._links.topology import topology_of

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
def test_periodic_signals_do_not_prolong_a_timeout(
    fresh_server: RedisServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A timeout ends in time although a signal interrupts every wait for the stopped server."""
    if part == "Python":
        monkeypatch.setattr(exchange, "_in_c", None)
    with interlock.connect(fresh_server.url(), command_timeout=1) as client:
        lock = client.lock("name")
        assert lock.acquire()
        lock.release()
        fresh_server.pause()
        try:
            began = time.monotonic()
            with alarms(0.1, lambda _, __: None), pytest.raises(interlock.ServerUnavailableError):
                lock.acquire(timeout=0.5)
            # A signal that started the wait anew would make it endless.
            assert time.monotonic() - began < 20
        finally:
            fresh_server.resume()


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
        pool = Pool(topology_of(Endpoint.from_url(f"redis://127.0.0.1:{port}")))
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


def test_a_handler_waits_for_locks_wherever_it_strikes(redis_url: str) -> None:
    """A handler waits for a lock of another thread of its client, and nobody waits for ever."""
    done, handled, failures = threading.Event(), [0], list[BaseException]()
    with interlock.connect(redis_url) as client:

        def take_turns(name: str) -> None:
            lock = client.lock(name)
            try:
                while not done.is_set():
                    assert lock.acquire(timeout=20)
                    lock.release()
            except BaseException as error:
                failures.append(error)

        def handle(_: int, __: object) -> None:
            # Not while it runs already, and not for a lock that its own thread waits for.
            if handled[0] >= 0:
                number, handled[0] = handled[0], -1
                lock = client.lock("of handlers")
                assert lock.acquire(timeout=20)
                lock.release()
                handled[0] = number + 1

        others = [
            threading.Thread(target=take_turns, args=(name,))
            for name in ("of handlers", "of handlers", "of all")
        ]
        lock = client.lock("of all")
        for thread in others:
            thread.start()
        try:
            with alarms(0.003, handle):
                until = time.monotonic() + 60
                while handled[0] <= 100 and time.monotonic() < until:
                    assert lock.acquire(timeout=20)
                    lock.release()
        finally:
            done.set()
            for thread in others:
                thread.join(30)
        assert not failures
        assert handled[0] > 100


@pytest.mark.usefixtures("patient")  # forty short tries
def test_a_finalizer_waits_for_locks_wherever_it_strikes(redis_url: str) -> None:
    """A ``__del__`` may wait for a lock, in whatever step of the client the collector calls it."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as rival:
        finalized, turn = [0], threading.Lock()

        class Cycle:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                if turn.acquire(blocking=False):
                    assert client.lock("of finalizers").acquire(timeout=20)
                    client.lock("of finalizers").release()
                    finalized[0] += 1
                    turn.release()

        former = gc.get_threshold()
        gc.set_threshold(50)
        try:
            lock, other = client.lock("name"), rival.lock("name")
            for _ in range(40):
                assert other.acquire()
                Cycle()
                assert not lock.acquire(timeout=0.005)
                other.release()
                assert lock.acquire(timeout=20)
                lock.release()
        finally:
            gc.set_threshold(*former)
        # The collector may be at work in a thread of the client: none begins after this, while it closes.
        assert turn.acquire(timeout=20)
        assert finalized[0] > 5
