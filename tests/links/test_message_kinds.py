"""The kinds of `Options.pubsub` on one server; `tests/cluster/test_cluster_pubsub.py` has a cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.binary import main_version
from tests.support.servers import wait_until

from interlock import ConfigError, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import RedisServer

CHANNEL = "redisson_lock__channel:{name}"


def listeners(server: RedisServer) -> int:
    reply: Any = server.execute("PUBSUB", "NUMSUB", CHANNEL)
    return int(reply[1])


@pytest.mark.parametrize("kind", ["auto", "plain", "off"])
def test_each_kind_hands_a_lock_over(
    kind: Any, server_of_version: Callable[[str], RedisServer]
) -> None:
    """Messages go by the channels of that kind; with "off" there are none, and waiters poll."""
    server = server_of_version(main_version())
    server.execute("FLUSHALL")
    server.execute("CONFIG", "RESETSTAT")
    with (
        connect(server.url(), pubsub=kind, card=False) as client,
        connect(server.url(), pubsub=kind, card=False) as other,
    ):
        client.lock("name").acquire()
        acquired = threading.Event()

        def wait() -> None:
            with other.lock("name"):
                acquired.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        if kind != "off":
            wait_until(lambda: listeners(server) > 0, 10, "the waiter listens")
        client.lock("name").release()
        assert acquired.wait(20)
        waiting.join()
    with server.client() as admin:
        stats: Any = admin.info("commandstats")
    used = {name.removeprefix("cmdstat_") for name in stats}
    messages = used & {"publish", "spublish", "subscribe", "ssubscribe"}
    assert messages == (set() if kind == "off" else {"publish", "subscribe"})


def test_sharded_channels_need_a_cluster(redis_url: str) -> None:
    """The error says so, and what to write."""
    with pytest.raises(ConfigError, match="need a cluster"):
        connect(redis_url, pubsub="sharded")
