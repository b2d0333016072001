"""Calls of tasks that go, and connections to nodes that go, while a thread connects."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from tests.support.servers import wait_until

from interlock._core.model.effects import Eval, Script
from interlock._links.endpoint import Endpoint
from interlock._links.multiplexer import Multiplexer

if TYPE_CHECKING:
    from interlock._links.dialled import Dialled

LIMIT = 10.0
"""Seconds for what takes milliseconds."""
ONE: Script[object] = Script("one", "return 1", lambda reply: reply)


class Slow(Endpoint):
    """Its connections are there when a test wants that."""

    connecting: threading.Event
    let_through: threading.Event

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        """Connect as soon as that is wanted."""
        self.connecting.set()
        assert self.let_through.wait(LIMIT)
        return super().connect(timeout, for_loop=for_loop)


async def test_tasks_that_go_while_their_threads_connect() -> None:
    """A call that has a thread for itself is not sent after the release.

    There are no more threads than connections.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        url = f"redis://127.0.0.1:{server.getsockname()[1]}?max_connections=1"
        endpoint: Any = Slow.from_url(url)
        endpoint.connecting, endpoint.let_through = threading.Event(), threading.Event()
        whole = Multiplexer(endpoint, LIMIT)
        call = Eval(ONE, ("key",), ())
        for _ in range(3):
            asking = asyncio.ensure_future(whole._aside(call, LIMIT))
            _ = await asyncio.to_thread(endpoint.connecting.wait, LIMIT)
            await asyncio.sleep(0.01)
            _ = asking.cancel()
            _ = await asyncio.wait({asking})
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("interlock-connect") == 1
        endpoint.let_through.set()
        there, _ = await asyncio.to_thread(server.accept)
        with there:
            pool = whole._blocking.serving(call)
            await asyncio.to_thread(wait_until, lambda: not pool._opening, LIMIT, "it is connected")
            whole.abort()
            there.settimeout(LIMIT)
            sent = await asyncio.to_thread(there.recv, 1 << 16)
    assert not sent


async def test_a_node_that_leaves_while_a_task_connects_to_it() -> None:
    """The task goes on with it, and the client still closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT)
        leaving: Any = Slow.from_url(f"redis://127.0.0.1:{server.getsockname()[1]}")
        leaving.connecting, leaving.let_through = threading.Event(), threading.Event()
        whole = Multiplexer(Mock(clustered=True, nodes=[]), LIMIT)
        connecting = asyncio.ensure_future(whole.connected(leaving, LIMIT))
        _ = await asyncio.to_thread(leaving.connecting.wait, LIMIT)
        leaving.let_through.set()
        pipeline = await connecting
        assert not pipeline.dead
        await whole.close()
        assert pipeline.dead
