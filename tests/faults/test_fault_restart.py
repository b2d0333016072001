"""A server that restarts empty, and requests that it executes when nobody waits for them."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.support.patience import let_others_run

from interlock import HoldLostError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.servers import RedisServer


async def test_a_restart_is_named(own: Stage, fresh_server: RedisServer) -> None:
    """The reason of a loss tells that the server was restarted, and no earlier restart."""
    client, owner = own.client(lease=60), own.owner()
    await owner.do(client.lock("early").acquire)
    fresh_server.execute("DEL", "early")
    with pytest.raises(HoldLostError) as caught:
        await owner.do(client.lock("early").acquire)
    assert "(deleted, evicted, or" in str(caught.value), "it ran when the hold began"
    await owner.do(client.lock("name").acquire)

    def runs() -> bool:
        return bool(fresh_server.execute("INFO", "server")["uptime_in_seconds"] >= 2)

    await until(runs, 30, "the hold is older than the next run will be")
    fresh_server.restart()
    with pytest.raises(HoldLostError) as caught:
        await owner.do(client.lock("name").acquire)
    assert caught.value.reason == "server lost it"
    assert re.search(
        r"gone from the server \(the server was restarted \d+ s ago\)", str(caught.value)
    )
    assert re.fullmatch(r"the server was restarted \d+ s ago", caught.value.detail)


async def test_restarted_empty_while_waited_for(own: Stage, fresh_server: RedisServer) -> None:
    """Waiters for a lock that vanished with its server get it, one at a time.

    They wait for no message and for no lease to end.
    """
    client = own.client()
    own.redis.hset("name", "somebody:1", 1)
    inside: list[int] = []

    async def wait(number: int) -> bool:
        owner, lock = own.owner(), client.lock("name")
        taken = await owner.do(lock.acquire, timeout=15)
        inside.append(number)
        assert len(inside) == 1
        await let_others_run(5)
        inside.remove(number)
        await owner.do(lock.release)
        return taken

    waiting = [asyncio.create_task(wait(number)) for number in range(4)]
    await own.waits(4)
    assert not any(task.done() for task in waiting)
    fresh_server.kill()
    await asyncio.sleep(0.3)  # they are refused meanwhile
    fresh_server.restart()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 15) == [True] * 4
