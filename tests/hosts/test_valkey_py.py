"""`Client.from_redis` takes valkey-py's clients like redis-py's: standalone, Sentinel, Cluster."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import valkey
import valkey.asyncio
import valkey.asyncio.sentinel
import valkey.sentinel
from tests.support.servers import ClusterServers, RedisServer, SentinelServers

import interlock
import interlock.asyncio

# Tests may use both faces in one thread.
pytestmark = pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")

MODULES = [valkey, valkey.asyncio]


@pytest.fixture(params=MODULES, ids=["valkey", "valkey.asyncio"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    """Give each module of valkey-py's; either may be given to either face."""
    return request.param


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterServers]:
    """Give a cluster of three primaries."""
    with ClusterServers(replicas=False) as servers:
        yield servers


@pytest.fixture(scope="module")
def sentinels() -> Iterator[SentinelServers]:
    """Give a primary under Sentinels."""
    with SentinelServers() as servers:
        yield servers


async def take(configured: Any) -> None:
    """Lock on both faces by the client *configured*, and close it."""
    with interlock.Client.from_redis(configured) as one:
        async with interlock.asyncio.Client.from_redis(configured) as other:
            with one.lock("name", timeout=5) as hold:
                assert hold.valid
                assert not await other.lock("name").acquire(blocking=False)
            async with other.lock("name", timeout=5):
                assert one.lock("name").locked()
    closed = configured.aclose() if hasattr(configured, "aclose") else configured.close()
    if inspect.isawaitable(closed):
        await closed


async def test_standalone(module: ModuleType, server: RedisServer, redis_url: str) -> None:
    """A client for one server serves, made from a URL or from arguments."""
    await take(module.Valkey.from_url(redis_url))
    await take(module.Valkey(host="127.0.0.1", port=server.port, db=3, decode_responses=True))
    await take(module.Valkey(unix_socket_path=str(server.unix_path)))


async def test_sentinel(module: ModuleType, sentinels: SentinelServers) -> None:
    """A client that asks Sentinels leads to the primary that they name."""
    addresses = [("127.0.0.1", sentinel.port) for sentinel in sentinels.sentinels]
    manager = module.sentinel.Sentinel(addresses, socket_timeout=1)
    await take(manager.master_for(sentinels.service))
    with pytest.raises(interlock.ConfigError, match="primary"):
        interlock.Client.from_redis(manager.slave_for(sentinels.service))


async def test_cluster(module: ModuleType, cluster: ClusterServers) -> None:
    """A client for a cluster leads to its nodes."""
    configured = module.ValkeyCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    if module is valkey.asyncio:
        await configured.initialize()
    await take(configured)
