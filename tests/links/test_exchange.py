"""One call sends a command and receives its reply, in C and in Python alike.

Signals and the end of a connection make no difference between the two.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.links.test_resp import NONSENSE, WHOLE

from interlock._links import exchange as exchanges
from interlock._links import resp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Exchange: TypeAlias = Callable[[socket.socket, bytes, float], Any]

SECONDS = 10.0
COMPILED = pytest.mark.needs("gcc")


def _in_c(sock: socket.socket, data: bytes, seconds: float) -> object:
    from interlock._links import _exchange

    return _exchange.ask(sock.fileno, data, seconds)


@pytest.fixture(params=[pytest.param("C", marks=COMPILED), "Python"])
def exchange(request: pytest.FixtureRequest) -> Exchange:
    return exchanges.ask_in_python if request.param == "Python" else _in_c


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Ends: TypeAlias = tuple[socket.socket, socket.socket]


@contextmanager
def _struck(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Send this thread a signal soon, which *handler* handles."""
    former = signal.signal(signal.SIGUSR1, handler)
    here = threading.get_ident()
    soon = threading.Timer(0.05, lambda: signal.pthread_kill(here, signal.SIGUSR1))
    soon.start()
    try:
        yield
    finally:
        soon.join()
        _ = signal.signal(signal.SIGUSR1, former)


def test_a_reply_is_returned(exchange: Exchange, ends: Ends) -> None:
    """What is sent arrives, and what is there of the reply is returned."""
    ours, theirs = ends
    theirs.sendall(b"a reply")
    assert exchange(ours, b"a command", SECONDS) == b"a reply"
    assert theirs.recv(100) == b"a command"


@COMPILED
def test_no_reference_is_lost(ends: Ends) -> None:
    """A reply of nil adds the reference to None that it returns, whatever Python has compiled it."""
    ours, theirs = ends
    before = sys.getrefcount(None)
    for _ in range(2000):
        theirs.sendall(b"$-1\r\n")
        assert _in_c(ours, b"x", SECONDS) is None
        theirs.recv(1)
    assert sys.getrefcount(None) > before - 1000


def test_what_comes_without_a_question_is_no_reply(exchange: Exchange, ends: Ends) -> None:
    """It may be the middle of one, so its bytes are returned."""
    ours, theirs = ends
    theirs.sendall(b":1\r\n")
    assert exchange(ours, b"", SECONDS) == b":1\r\n"


def test_all_of_a_long_command_is_sent(exchange: Exchange, ends: Ends) -> None:
    """A command arrives whole even if it is interrupted when the kernel has taken half of it.

    Of a long reply the beginning is returned.
    """
    ours, theirs = ends
    command = os.urandom(3_000_000)
    heard = bytearray()

    def answer() -> None:
        while len(heard) < len(command):
            heard.extend(theirs.recv(65536))
        theirs.sendall(b"x" * 100_000)

    peer = threading.Thread(target=answer)
    with _struck(lambda _, __: peer.start()):  # until then nobody reads, and sending waits
        first = exchange(ours, command, SECONDS)
    left = 100_000 - len(first)
    while left:
        left -= len(ours.recv(left))
    peer.join(10)
    assert bytes(heard) == command
    assert first
    assert set(first) == set(b"x")


def test_the_end_of_the_connection(exchange: Exchange, ends: Ends) -> None:
    """If the peer closes, the reply is empty, as for `socket.recv`; sending then is an error."""
    ours, theirs = ends
    theirs.shutdown(socket.SHUT_WR)
    assert exchange(ours, b"a command", SECONDS) == b""
    theirs.close()
    with pytest.raises(BrokenPipeError):
        exchange(ours, b"another", SECONDS)


def test_silence(exchange: Exchange, ends: Ends) -> None:
    """Without a reply it ends in time, with the error that `socket.recv` has."""
    ours, theirs = ends
    began = time.monotonic()
    with pytest.raises((BlockingIOError, TimeoutError)):
        exchange(ours, b"a command", 0.05)
    assert time.monotonic() - began > 0.04
    assert theirs.recv(100) == b"a command"


@pytest.mark.parametrize("size", [10, 10_000_000], ids=["receiving", "sending"])
def test_signals_do_not_prolong_it(exchange: Exchange, ends: Ends, size: int) -> None:
    """A signal that comes again and again within the timeout does not put its end off."""
    ours, _ = ends
    former = signal.signal(signal.SIGALRM, lambda _, __: None)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    rescue = threading.Timer(10, signal.setitimer, (signal.ITIMER_REAL, 0))
    rescue.start()
    began = time.monotonic()
    try:
        with pytest.raises((BlockingIOError, TimeoutError)):
            exchange(ours, b"x" * size, 0.2)
        assert 0.15 < time.monotonic() - began < 8
    finally:
        rescue.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        _ = signal.signal(signal.SIGALRM, former)


def test_a_closed_socket(exchange: Exchange, ends: Ends) -> None:
    """A closed socket is an error, and nothing is written to what has its number now."""
    ours, _ = ends
    ours.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        exchange(ours, b"a command", SECONDS)


def test_a_signal_is_handled_and_the_reply_awaited(exchange: Exchange, ends: Ends) -> None:
    """A signal handler runs during the wait; the reply is returned, and nothing is sent twice."""
    ours, theirs = ends

    def answer(_: int, __: object) -> None:
        theirs.sendall(b"a reply")

    with _struck(answer):
        assert exchange(ours, b"a command", SECONDS) == b"a reply"
    assert theirs.recv(100) == b"a command"


def test_ctrl_c_ends_it(exchange: Exchange, ends: Ends) -> None:
    """What a handler of a signal raises comes out."""
    ours, _ = ends
    with pytest.raises(KeyboardInterrupt), _struck(signal.default_int_handler):
        exchange(ours, b"a command", SECONDS)


SENT = [*WHOLE, *NONSENSE, *[reply[:-1] for reply in WHOLE], b":1\r\n:2\r\n", b"*1\r\n:1\r\n:2\r\n"]


@pytest.mark.parametrize("sent", SENT, ids=repr)
@COMPILED
def test_short_replies_are_read_as_by_the_parser(ends: Ends, sent: bytes) -> None:
    """The one in C reads nil, numbers and lists as the parser does, and leaves all else to that."""
    ours, theirs = ends
    theirs.sendall(sent)
    theirs.shutdown(socket.SHUT_WR)
    read = _in_c(ours, b"a command", SECONDS)
    replies = resp.parse_all_in_python(sent, resp.ReplyError)
    reply = replies[0] if isinstance(replies, list) and len(replies) == 1 else sent
    left = isinstance(reply, bytes) or "ReplyError" in repr(reply)
    assert (read, type(read)) == ((sent, bytes) if left else (reply, type(reply)))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (b"", 1.0),
        ("text", b"", 1.0),
        (-1, b"", 1.0),
        (lambda: None, b"", 1.0),
        (lambda: 0, bytearray(b"x"), 1.0),
        (lambda: 0, b"", 1.0, 2),
        (lambda: 0, "text", 1.0),
        (lambda: 0, b"", "text"),
        (lambda: -1, b"", 1.0),
        (lambda: "x", b"", 1.0),
    ],
)
@COMPILED
def test_misuse_is_an_error(arguments: tuple[Any, ...]) -> None:
    """The one in C looks at what it is given."""
    from interlock._links import _exchange

    with pytest.raises((TypeError, OSError)):
        _exchange.ask(*arguments)


@pytest.mark.parametrize(
    "parts",
    [
        ("PING",),
        ("EVALSHA", "0" * 40, 1, "key", 30000, "c0ffee:1", 1),
        ("", 0, -1, 10**15, -(2**63), 2**63 - 1),
        (2**63, "too large"),
        tuple((-1) ** length * 10**length for length in range(50)),
        ("\u00e9\u4e2d\U0001f512", "a\r\nb\0c"),
        tuple(map(str, range(300))),
        (True, "a word"),
    ],
    ids=repr,
)
@COMPILED
def test_commands_are_packed_as_in_python(parts: tuple[str | int, ...]) -> None:
    """The part in C makes the bytes that Python makes, or leaves the command to Python."""
    from interlock._links import _exchange

    expected = resp.pack_in_python(parts)
    assert resp.pack(parts) == expected
    assert _exchange.packed(parts) in (expected, None)


@COMPILED
def test_what_cannot_be_sent_is_an_error() -> None:
    """A lone surrogate is refused, as in Python, and a list is not taken for a tuple."""
    from interlock._links import _exchange

    with pytest.raises(UnicodeEncodeError):
        resp.pack(("\ud800",))
    with pytest.raises(TypeError):
        _exchange.packed([])  # type: ignore[arg-type]
