"""While the server is away, a block whose body was cancelled ends at once; the background releases."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import RedisServer

BLOCKS: dict[str, Callable[[Any], Any]] = {
    "lock": lambda client: client.lock("name"),
    "trying": lambda client: client.lock("name").trying(),
    "multi": lambda client: client.multi_lock(client.lock("name"), client.lock("other")),
    "limited": lambda client: client.limited("name", 2),
    "semaphore": lambda client: client.semaphore("name", permits=2),
    "leased": lambda client: client.leased_semaphore("name", permits=2).acquire(),
}
OPTIONS = {"command_timeout": 2.0, "outage_timeout": 60.0}


@pytest.mark.parametrize("name", BLOCKS)
async def test_a_cancelled_body(fresh_server: RedisServer, name: str) -> None:
    """The cancellation comes out at once, and nothing stays taken when the server is back."""
    async with interlock.asyncio.connect(fresh_server.url(), **OPTIONS) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20) as limit, BLOCKS[name](client):
                fresh_server.pause()
                limit.reschedule(asyncio.get_running_loop().time())
                began = time.monotonic()
                await asyncio.sleep(20)
        assert time.monotonic() - began < 1.9  # less than one command may take
        fresh_server.resume()
        session = client._driver.session
        await until(lambda: not session.garbage.dead and not session.live, 10, "it is released")


@pytest.mark.parametrize("name", BLOCKS)
def test_ctrl_c_in_a_body(fresh_server: RedisServer, name: str) -> None:
    """It shows at once, too."""
    with interlock.connect(fresh_server.url(), **OPTIONS) as client:
        began = 0.0
        with pytest.raises(KeyboardInterrupt), BLOCKS[name](client):
            fresh_server.pause()
            began = time.monotonic()
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait(20)
        assert time.monotonic() - began < 1.9
        fresh_server.resume()
