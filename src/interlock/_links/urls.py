"""From a URL, or none, or a configured client, to the servers it means."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import redis
import redis.asyncio

from interlock._embedded import EmbeddedServer, ensure
from interlock._embedded.place import place_of
from interlock._links.cluster import Cluster
from interlock._links.endpoint import Endpoint
from interlock._links.options import redact
from interlock._links.sentinel_origin import from_sentinel_pool, from_sentinel_url, is_sentinel_pool
from interlock.errors import ConfigError

PLAIN = ("redis", "rediss", "unix")
SENTINEL = ("redis+sentinel", "rediss+sentinel")
CLUSTER = ("redis+cluster", "rediss+cluster")
SCHEMES = (*PLAIN, *SENTINEL, *CLUSTER, "embedded")
_VALKEY = re.compile(r"valkey(?=s?(\+\w+)?://)")


class EmbeddedWarning(UserWarning):
    """No server was named, so the embedded one is used."""


def open_url(url: str | None) -> Endpoint | Cluster:
    """Return the servers that *url* means.

    Args:
        url: None for ``INTERLOCK_URL``, then ``REDIS_URL``, else the embedded server, with a warning.

    Raises:
        ConfigError: it cannot be used.
    """
    if url is None:
        url = os.environ.get("INTERLOCK_URL") or os.environ.get("REDIS_URL")
    if url is None:
        warnings.warn(
            "no URL given, and neither INTERLOCK_URL nor REDIS_URL is set: using the embedded server, which only "
            "processes of this user on this machine share; name a server for locks between machines",
            EmbeddedWarning,
            stacklevel=3,
        )
        url = "embedded://"
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
        raise TypeError(f"a URL must be a str, not {type(url).__name__}")
    # valkeys:// is rediss://, and so with +sentinel and +cluster.
    url = _VALKEY.sub("redis", url, count=1) if url.startswith("valkey") else url
    scheme, found, rest = url.partition("://")
    if not found or scheme not in SCHEMES:
        raise ConfigError(
            f"cannot use the URL {redact(url)!r}: it must start with one of "
            + ", ".join(f"{known}://" for known in SCHEMES)
            + ", or valkey:// in place of redis://"
        )
    if scheme == "embedded":
        name = rest.rstrip("/") or "default"
        server = EmbeddedServer(place_of(name))
        return Endpoint.from_url(server.url, prepare=lambda: ensure(name))
    if scheme in SENTINEL:
        return from_sentinel_url(url)
    if scheme in CLUSTER:
        return Cluster.from_url(url)
    return Endpoint.from_url(url)


def servers_of(client: Any) -> Endpoint | Cluster:
    """Return the servers that a redis-py *client* is configured for.

    Raises:
        ConfigError: it cannot be used.
    """
    if isinstance(client, redis.RedisCluster | redis.asyncio.RedisCluster):
        return Cluster.from_client(client)
    if isinstance(client, str):
        raise ConfigError("from_redis takes a client of redis-py's; for a URL, use connect(url)")
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise ConfigError(f"from_redis takes a client of redis-py's, not {type(client).__name__}")
    return from_sentinel_pool(pool) if is_sentinel_pool(pool) else Endpoint.from_pool(pool)
