"""Hosts that the nodes of a cluster cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.patience import wait_until
from tests.support.servers import RedisServer, main_binary

from interlock._links.replies import RedirectedError

if TYPE_CHECKING:
    from tests.objects.awaited import Face

ALL = ("CLUSTER", "ADDSLOTSRANGE", 0, 16383)


@pytest.mark.parametrize("kind", ["hostname", "unknown-endpoint"])
async def test_a_host_that_is_not_known(face: Face, kind: str) -> None:
    """A node announces a question mark if it lacks a name, or nothing at all if it has to.

    Then it is reached where it was asked.
    """
    config = {"cluster-enabled": "yes", "cluster-preferred-endpoint-type": kind}
    with RedisServer(main_binary(), config=config) as server:
        server.execute(*ALL)
        wait_until(lambda: b"ok" in server.execute("CLUSTER", "INFO"), 30, "the cluster is up")
        [[_, _, [host, *_]]] = server.execute("CLUSTER", "SLOTS")
        assert host == (b"?" if kind == "hostname" else None)
        client = face.module.connect(f"redis+cluster://127.0.0.1:{server.port}")
        owner, lock = face.owner(), client.lock("name")
        assert await owner.do(lock.acquire, timeout=30)
        await owner.do(lock.release)
        await owner.do(client.close)
        await owner.end()


@pytest.mark.parametrize("host", ["", "?"])
def test_a_redirection_to_it(host: str) -> None:
    """The same is true of a node that another one names."""
    assert RedirectedError(f"MOVED 1 {host}:7001", "db.example:7000").address == (
        "db.example",
        7001,
    )
