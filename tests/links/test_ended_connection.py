"""A connection that ended while nobody used it: each use tells so by an error of ours."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from interlock import ServerUnavailableError
from interlock._core.model.effects import Eval, Script
from interlock._links import exchange
from interlock._links.connection import Connection
from interlock._links.endpoint import Endpoint
from interlock._links.resp import LONGEST_REPLY, pack

if TYPE_CHECKING:
    from collections.abc import Callable

ONE: Script[object] = Script("one", "return 1", lambda reply: reply)
USES: dict[str, Callable[[Connection, float], object]] = {
    "eval": lambda connection, seconds: connection.eval(_call(), seconds),
    "batch": lambda connection, seconds: connection.batch([_call()], seconds),
    "begin": lambda connection, seconds: connection.begin([_call()], seconds),
    "finish": lambda connection, seconds: connection.finish([_call()], seconds),
    "ask": lambda connection, seconds: connection.batch([_call()], seconds, asking=True),
    "message": lambda connection, seconds: connection.message(seconds),
    "exchange": lambda connection, seconds: connection.exchange([pack(("PING",))], seconds),
}


def _call() -> Eval[object]:
    return Eval(ONE, ("key",), ())


@pytest.fixture(params=["C", "Python"], autouse=True)
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python":
        monkeypatch.setattr(exchange, "_in_c", None)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("seconds", [30, 20], ids=["the same time", "another time"])
def test_each_use_of_it(
    redis_url: str, use: Callable[[Connection, float], object], seconds: float
) -> None:
    """Whether or not the time of the socket changes, the error says that the connection is lost."""
    with closing(Connection(Endpoint.from_url(redis_url), 30)) as connection:
        connection.close()
        with pytest.raises(ServerUnavailableError, match="lost the connection") as lost:
            use(connection, seconds)
        assert lost.value.sent  # so the pool drops it
        assert lost.value.transient


class Talking(Endpoint):
    """Its connections are to a peer that says what a test wants."""

    peer: socket.socket

    def connect(self, timeout: float) -> Any:
        made = super().connect(timeout)
        made.disconnect()
        made.sock, self.peer = socket.socketpair()
        return made


def test_messages(redis_url: str) -> None:
    """They come one by one, whole; silence is no message; the end and nonsense are errors."""
    message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n"
    endpoint = Talking.from_url(redis_url)
    with closing(Connection(endpoint, 30)) as connection, closing(endpoint.peer) as peer:
        assert connection.message(0.05) is None
        peer.sendall(message * 2 + message[:5])
        assert [connection.message(30) for _ in range(2)] == [[b"message", b"c", b"0"]] * 2
        assert connection.message(0.05) is None
        peer.sendall(message[5:])
        assert connection.message(30) == [b"message", b"c", b"0"]
        peer.sendall(b"-NOPERM\r\n")
        assert str(connection.message(30)) == "NOPERM"
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises(ServerUnavailableError, match="closed the connection"):
            connection.message(30)
    for nonsense in (b"HTTP/1.1\r\n", b"$%d\r\n" % LONGEST_REPLY):
        with closing(Connection(endpoint, 30)) as connection, closing(endpoint.peer) as peer:
            peer.sendall(nonsense)
            with pytest.raises(ServerUnavailableError, match=r"not a Redis server|more than"):
                connection.message(30)
