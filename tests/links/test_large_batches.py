"""A batch that is larger than the buffers of the network."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval, Script
from interlock._links.connection import TICK, Connection
from interlock._links.endpoint import Endpoint

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

LENGTH: Script[object] = Script("length", "return #ARGV[1]", lambda reply: reply)
SIZE = 32 << 20


def test_a_large_batch_is_written_although_the_way_is_slow(fresh_server: RedisServer) -> None:
    """A batch has all its time to be written, not only that between two looks at the clock."""
    with closing(Connection(Endpoint.from_url(fresh_server.url()), 30)) as connection:
        fresh_server.pause()
        resuming = threading.Timer(6 * TICK, fresh_server.resume)
        resuming.start()
        call = Eval(LENGTH, ("key",), ("x" * SIZE,))
        assert connection.batch([call], 30, lambda: None) == [SIZE]
        resuming.join()
