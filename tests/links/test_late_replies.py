"""Replies that come after enough others: that they are late ends no connection needlessly."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.listening import listening
from tests.support.servers import wait_until

from interlock._core.model.effects import Eval, Script
from interlock._drivers import fan_out
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    import pytest

LIMIT = 10.0
"""Seconds for what takes milliseconds."""
ONE: Script[object] = Script("one", "return 1", lambda reply: reply)


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


def asked(*pools: Pool) -> list[object]:
    """Return the replies of *pools* that came before one of them was enough."""
    calls = [(pool, Eval(ONE, ("key",), ()), LIMIT) for pool in pools]
    enough: Any = lambda *_: 0.0  # noqa: E731
    return fan_out.ask(calls, enough)


def test_a_reply_soon_after_enough_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, and its connection is used again."""
    monkeypatch.setattr(fan_out, "MOMENT", LIMIT)  # a machine under load makes any reply late
    with answering(0.0) as (prompt, _), answering(0.1) as (slow, accepted):
        for _ in range(4):
            _ = asked(prompt, slow)
            owner: Any = slow.serving(Eval(ONE, ("key",), ()))
            wait_until(lambda pool=owner: not pool._opening, LIMIT, "it is connected")
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
