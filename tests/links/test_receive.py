"""Threads take turns at receiving messages from one socket; the part in C does that."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sysconfig
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

from interlock._links import resp
from interlock._links.resp import ParserError
from interlock._links.shared_connection import meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.needs("gcc")

SECONDS = 10.0
MESSAGE = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n"


class Stand:
    """A socket with its peer, a bell, and what `receive` needs beside them."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.rope, self.bell = socket.socketpair()
        self.token = threading.Lock()
        self.wakeup = threading.Lock()
        self.wakeup.acquire()
        self.rest: list[bytes | int] = [0]
        self.messages: deque[Any] = deque()

    def receive(self, seconds: float = SECONDS) -> bool:
        """Receive; return whether no other thread did."""
        from interlock._links._exchange import receive

        given = (self.rest, self.messages, seconds)
        return receive(self.token, self.wakeup, self.ours, self.bell, *given)

    def close(self) -> None:
        """Close all sockets."""
        for sock in (self.ours, self.theirs, self.rope, self.bell):
            sock.close()


@pytest.fixture
def stand() -> Iterator[Stand]:
    """Give a stand."""
    stand = Stand()
    yield stand
    assert not stand.token.locked(), "the token was given back"
    stand.close()


def test_messages_are_appended(stand: Stand) -> None:
    """All whole messages are there; the rest waits for its end."""
    stand.theirs.sendall(MESSAGE * 2 + MESSAGE[:5])
    assert stand.receive()
    assert list(stand.messages) == [MESSAGE] * 2
    stand.messages.clear()
    stand.theirs.sendall(MESSAGE[5:9])
    assert stand.receive()
    assert stand.receive(0)
    assert not stand.messages
    stand.theirs.sendall(MESSAGE[9:])
    assert stand.receive()
    assert list(stand.messages) == [MESSAGE]


def test_nothing_is_received_before_the_rest_is_handled(stand: Stand) -> None:
    """If there are messages, it returns at once; the same if the caller was rung already."""
    stand.theirs.sendall(MESSAGE)
    stand.messages.append("a message")
    assert stand.receive()
    assert list(stand.messages) == ["a message"]
    stand.messages.clear()
    stand.wakeup.release()
    assert stand.receive()
    assert not stand.messages


def test_one_thread_at_a_time(stand: Stand) -> None:
    """While one thread receives, another is told so at once."""
    first = threading.Thread(target=stand.receive)
    first.start()
    wait_until(stand.token.locked, 10, "it receives")
    assert not stand.receive()
    stand.theirs.sendall(MESSAGE)
    first.join(SECONDS)
    assert list(stand.messages) == [MESSAGE]


def test_the_bell_ends_the_wait(stand: Stand) -> None:
    """It is emptied then, so that the next one waits again."""
    ring = threading.Timer(0.05, stand.rope.send, (b"!!!",))
    ring.start()
    began = time.monotonic()
    assert stand.receive()
    assert time.monotonic() - began < SECONDS / 2
    ring.join(SECONDS)
    began = time.monotonic()
    assert stand.receive(0.1)
    assert time.monotonic() - began > 0.09
    assert not stand.messages


def test_silence_is_no_error(stand: Stand) -> None:
    """After the time, or at once if there is none, nothing has come."""
    for seconds in (0.05, 0.0, -1.0):
        assert stand.receive(seconds)
    assert not stand.messages


def test_a_signal_handler_finds_the_token_free(stand: Stand) -> None:
    """A handler runs when the receiving is over, so it can receive itself."""
    found: list[bool] = []
    former = signal.signal(signal.SIGUSR1, lambda _, __: found.append(stand.token.locked()))
    here = threading.get_ident()
    soon = threading.Timer(0.05, signal.pthread_kill, (here, signal.SIGUSR1))
    soon.start()
    try:
        began = time.monotonic()
        assert stand.receive()
        assert time.monotonic() - began < SECONDS / 2
        assert found == [False]
    finally:
        soon.join()
        _ = signal.signal(signal.SIGUSR1, former)


def _error(stand: Stand) -> object:
    assert stand.receive()
    return meaning(stand.messages.pop())


def test_the_end_of_the_connection_is_an_error(stand: Stand) -> None:
    """Everybody who comes finds it among the messages, and so for a closed socket or bell."""
    stand.theirs.close()
    for _ in range(2):
        assert isinstance(_error(stand), ConnectionResetError)
    stand.bell.close()
    assert "Bad file descriptor" in str(_error(stand))
    stand.ours.close()
    assert "Bad file descriptor" in str(_error(stand))


def test_what_cannot_be_parsed_is_an_error(stand: Stand) -> None:
    """The parser says so, and what came before is there."""
    stand.theirs.sendall(MESSAGE + b"nonsense\r\n")
    assert isinstance(_error(stand), ParserError)
    assert list(stand.messages) == [MESSAGE]


def test_a_message_may_be_too_long(stand: Stand) -> None:
    """That is told as soon as it is known, as an error of the parser."""
    stand.theirs.sendall(MESSAGE + b"$%d\r\n" % resp.LONGEST_REPLY)
    error = _error(stand)
    assert isinstance(error, ParserError)
    assert "more than" in str(error)
    assert list(stand.messages) == [MESSAGE]


def test_no_finalizer_runs_while_the_token_is_held(stand: Stand) -> None:
    """Nothing is created there that the garbage collector tracks, so it collects nothing."""
    found: list[bool] = []

    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            found.append(stand.token.locked())

    kept: list[object] = []
    for number in range(gc.get_threshold()[0] * 5):
        Garbage()
        if number % 7 == 0:  # so that each kind of allocation comes to be the one too many
            kept.append([])
        stand.theirs.sendall(MESSAGE)
        assert stand.receive()
        assert stand.messages.popleft() == MESSAGE
    # Without the GIL, Python collects more rarely, and never while it creates an object.
    assert found or sysconfig.get_config_var("Py_GIL_DISABLED")
    assert not any(found)


def test_the_collector_of_the_host_is_left_alone(stand: Stand) -> None:
    """Whatever other threads make of it while threads receive, it stays as they leave it."""
    over = threading.Event()
    rivals = [Stand() for _ in range(3)]

    def receive(each: Stand) -> None:
        while not over.is_set():
            each.theirs.sendall(MESSAGE)
            each.receive(0.001)
            each.messages.clear()

    threads = [threading.Thread(target=receive, args=(each,)) for each in (stand, *rivals)]
    former = gc.isenabled()
    try:
        for thread in threads:
            thread.start()
        for number in range(10_000):
            switch, wanted = (gc.enable, True) if number % 2 else (gc.disable, False)
            switch()
            if number % 10 == 0:
                os.sched_yield()  # gives the interpreter lock to the others
            assert gc.isenabled() is wanted
    finally:
        over.set()
        for thread in threads:
            thread.join(SECONDS)
        (gc.enable if former else gc.disable)()
    for rival in rivals:
        rival.close()


@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_the_collector_may_be_switched_during_a_wait(
    stand: Stand, switch: Callable[[], None]
) -> None:
    """If another thread switches it meanwhile, it stays so."""
    wanted, former = switch is gc.enable, gc.isenabled()
    (gc.disable if wanted else gc.enable)()
    try:
        waits = threading.Thread(target=stand.receive)
        waits.start()
        wait_until(stand.token.locked, 10, "it receives")
        switch()
        stand.theirs.sendall(MESSAGE)
        waits.join(SECONDS)
        assert gc.isenabled() is wanted
    finally:
        (gc.enable if former else gc.disable)()


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5, 6, 7])
def test_misuse_is_an_error(stand: Stand, place: int) -> None:
    """Wrong arguments are refused, and the token is free again."""
    from interlock._links import _exchange

    receive: Any = _exchange.receive
    stand.theirs.sendall(MESSAGE)
    given = [stand.token, stand.wakeup, stand.ours, stand.bell, stand.rest]
    given += [stand.messages, SECONDS]
    wrong = [*given[:place], object(), *given[place + 1 :]] if place < len(given) else given[1:]
    with pytest.raises((TypeError, AttributeError)):
        receive(*wrong)
