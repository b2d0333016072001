"""Replies that come after enough others: that they are late ends no connection needlessly."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.servers import wait_until

from interlock._core.model.effects import Eval, Script
from interlock._drivers import fan_out
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool
from interlock._links.topology import topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 10.0
"""Seconds for what takes milliseconds."""
ONE: Script[object] = Script("one", "return 1", lambda reply: reply)


class Server:
    """A server that answers each command with 1 after *delay* seconds.

    Attributes:
        accepted: how many connections there were.
    """

    def __init__(self, delay: float) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._delay, self.accepted = delay, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def pool(self) -> Pool:
        """Return connections to it."""
        port = self.listener.getsockname()[1]
        return Pool(topology_of(Endpoint.from_url(f"redis://127.0.0.1:{port}")))

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self.listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=[connected], daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError):
            while connected.recv(1 << 16):
                assert not threading.Event().wait(self._delay)
                connected.sendall(b":1\r\n")


@pytest.fixture
def prompt() -> Iterator[Server]:
    """Return a server that answers at once."""
    server = Server(0.0)
    with closing(server.listener):
        yield server


def asked(*pools: Pool) -> list[object]:
    """Return the replies of *pools* that came before one of them was enough."""
    calls = [(pool, Eval(ONE, ("key",), ()), LIMIT) for pool in pools]
    enough: Any = lambda *_: 0.0  # noqa: E731
    return fan_out.ask(calls, enough)


def test_a_reply_soon_after_enough_others(prompt: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, and its connection is used again."""
    monkeypatch.setattr(fan_out, "MOMENT", LIMIT)  # a machine under load makes any reply late
    slow = Server(0.1)
    pools = prompt.pool(), slow.pool()
    with closing(slow.listener):
        for _ in range(4):
            _ = asked(*pools)
            owner: Any = pools[1].serving(Eval(ONE, ("key",), ()))
            wait_until(lambda pool=owner: not pool._opening, LIMIT, "it is connected")
            wait_until(lambda pool=owner: len(pool._idle) == len(pool._open), LIMIT, "it is read")
        assert slow.accepted == 1
        for pool in pools:
            pool.close(0)


def test_a_reply_long_after_enough_others(prompt: Server) -> None:
    """Its connection is closed, and no other one."""
    hanging = Server(2.0)
    pools = prompt.pool(), hanging.pool()
    with closing(hanging.listener):
        pool: Any = pools[1].serving(Eval(ONE, ("key",), ()))
        busy = pool._take(LIMIT)
        _ = asked(*pools)
        wait_until(lambda: len(pool._open) == 2, LIMIT, "another one is open")
        pool.take_back(busy)
        wait_until(lambda: len(pool._open) < 2, LIMIT, "one is closed")
        assert pool.idle() is busy
        busy.close()
        for each in pools:
            each.close(0)
