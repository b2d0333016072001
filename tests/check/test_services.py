"""Which service a server is: by its host's name, HELLO and INFO."""

from __future__ import annotations

import pytest

from interlock.check.facts import Facts
from interlock.check.services import service_of


@pytest.mark.parametrize(
    ("where", "info", "server", "name"),
    [
        ("localhost:6379", {"redis_version": "7.0.15"}, "redis", "Redis"),
        ("localhost:6379", {"valkey_version": "8.1.0"}, "valkey", "Valkey"),
        ("db:6379", {"dragonfly_version": "df-1.20"}, "redis", "Dragonfly"),
        ("db:6379", {"kvrocks_version": "2.9"}, "redis", "Kvrocks"),
        ("db:6379", {}, "garnet", "Garnet"),
        ("db:6379", {"mvcc_depth": 0}, "redis", "KeyDB"),
        ("x.abc.ng.0001.euw1.cache.amazonaws.com:6379", {}, "redis", "ElastiCache"),
        ("x.serverless.euw1.cache.amazonaws.com:6379", {}, "redis", "ElastiCache Serverless"),
        ("clustercfg.x.abc.memorydb.us-east-1.amazonaws.com:6379", {}, "redis", "MemoryDB"),
        ("eu1-x.upstash.io:6379", {}, "redis", "Upstash"),
        ("r-x.redis.rds.aliyuncs.com:6379", {}, "redis", "Alibaba Tair"),
        ("x.redis.cache.windows.net:6380", {}, "redis", "Azure"),
        ("x.aivencloud.com:12345", {"valkey_version": "8.0.1"}, "valkey", "Aiven"),
        ("upstash.io.example:6379", {}, "redis", "Redis"),
    ],
)
def test_a_service_is_named(where: str, info: dict[str, object], server: str, name: str) -> None:
    """The host's name counts first, then what the server says of itself."""
    found = service_of(Facts(where=where, info=info, server=server))
    assert found is not None
    assert found.name == name
