"""What a name server that gives no answer may delay, and what a thread that connects may.

No report of a loss comes late, and no call ends after its timeout.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until

from interlock import HoldLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.objects.awaited import Stage
    from tests.support.servers import RedisServer

NAME = "redis.test"
"""The host that only the name server knows."""

STALL = 60.0
"""Seconds for which the resolver is silent: longer than everything that must not wait for it."""
SOON = 20.0
"""Seconds for what takes two, on a machine that stalls too."""


class NameServer:
    """The resolver of this process, which may be silent.

    Attributes:
        addresses: those of `NAME`.
    """

    def __init__(self) -> None:
        self.silent = False
        self.addresses = ["127.0.0.1"]
        self._goes_on = threading.Event()
        self._resolve = socket.getaddrinfo

    def __call__(self, host: Any, *args: Any, **kwargs: Any) -> Any:
        """Resolve as `socket.getaddrinfo` does."""
        if host not in (NAME, NAME.encode()):
            return self._resolve(host, *args, **kwargs)
        if self.silent:
            _ = self._goes_on.wait(STALL)
        return [info for each in self.addresses for info in self._resolve(each, *args, **kwargs)]

    def go_on(self) -> None:
        self.silent = False
        self._goes_on.set()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """Give the resolver, which answers at first."""
    name_server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", name_server)
    yield name_server
    name_server.go_on()


async def test_a_loss_is_reported_before_the_next_holder_works(
    stage: Stage, server: RedisServer, name_server: NameServer
) -> None:
    """The client must connect anew and cannot resolve its server's name: the hold ends in time."""
    named = f"redis://{NAME}:{server.port}/0"
    client, other = stage.client(named, lease=2), stage.client()
    holder, next_holder = stage.owner(), stage.owner()
    lock = stage.lock(client)
    assert await holder.do(lock.acquire)
    hold = await holder.do(lambda: lock.hold)
    told: list[Any] = []
    await holder.do(hold.on_lost, lambda: told.append(hold))
    name_server.silent = True
    server.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    assert await next_holder.do(stage.lock(other).acquire, timeout=SOON)
    assert hold.lost.is_set()
    with pytest.raises(HoldLostError):
        await holder.do(hold.ensure)
    await until(lambda: told, SOON, "on_lost is called")
