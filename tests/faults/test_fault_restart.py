"""A server that restarts empty, and requests that it executes when nobody waits for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import until

from interlock import HoldLostError

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
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
