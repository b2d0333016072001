"""Turns a URL, or a redis-py client, into the Sentinels and the primary that it means."""

from __future__ import annotations

from typing import Any, NoReturn
from urllib.parse import unquote

from interlock._links.endpoint import Endpoint
from interlock._links.options import read_pool, read_url, redact
from interlock._links.sentinel import Sentinels
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.errors import ConfigError

OWN = "sentinel_"
"""The prefix of parameters for the Sentinels. Parameters without it are for the data nodes."""
PORT = 26379
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def from_sentinel_url(url: str) -> SentinelEndpoint:
    """Read ``redis+sentinel://[user:password@]host[:port],.../service[/db][?parameters]``.

    Parameters are redis-py's, for the data nodes. With ``sentinel_`` before the name, they are for
    the Sentinels. ``rediss+sentinel://`` speaks TLS with both. The Sentinels then have the TLS
    settings of the data nodes, except for settings of their own. ``sentinel_ssl`` turns TLS on or
    off for the Sentinels alone. User and password are never passed on from one to the other.

    Raises:
        ConfigError: the URL cannot be read, or has an unknown parameter.
    """
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    authority, _, path = address.partition("/")
    login, _, hosts = authority.rpartition("@")
    service, _, db = path.partition("/")
    if not service:
        _refuse(url, "its path must name the service, as in redis+sentinel://host:26379/mymaster/0")
    given = query.split("&") if query else []
    own = [word.removeprefix(OWN) for word in given if word.startswith(OWN)]
    theirs = [word for word in given if not word.startswith(OWN)]
    tls = scheme.startswith("rediss")
    sentinel_tls = tls
    for word in own:
        name, _, value = word.partition("=")
        if name == "ssl":
            sentinel_tls = value.lower() in _YES
            if value.lower() not in (*_YES, *_NO):
                _refuse(url, "sentinel_ssl must be true or false")
    own = [word for word in own if word.partition("=")[0] != "ssl"]
    if tls and sentinel_tls:
        named = {word.partition("=")[0] for word in own}
        own += [
            word
            for word in theirs
            if word.startswith("ssl_") and word.partition("=")[0] not in named
        ]
    credentials = f"{login}@" if login else ""
    data = f"redis{'s' * tls}://{credentials}localhost/{db}?{'&'.join(theirs)}"
    nodes = [
        Endpoint.from_url(
            f"redis{'s' * sentinel_tls}://{_with_port(host, url)}?{'&'.join(own)}", shown=url
        )
        for host in hosts.split(",")
    ]
    kwargs = read_url(data, shown=url)
    connection_class = kwargs.pop("connection_class", object)
    return SentinelEndpoint(Sentinels(unquote(service), nodes), connection_class, kwargs)


def from_sentinel_pool(pool: Any) -> SentinelEndpoint:
    """Take the service, Sentinels and credentials from a redis-py pool that asks Sentinels.

    The pool is for threads or asyncio.

    Raises:
        ConfigError: the pool leads to replicas.
    """
    if not pool.is_master:
        raise ConfigError(
            f"locks need the primary of {pool.service_name!r}: "
            "give the client that master_for() returns, not slave_for()"
        )
    manager = pool.sentinel_manager
    sentinels = Sentinels(
        pool.service_name,
        [Endpoint.from_pool(sentinel.connection_pool) for sentinel in manager.sentinels],
        others=manager.min_other_sentinels,
        # redis-py has no public name for it, and valkey-py does not have it at all.
        host=getattr(manager, "_force_master_ip", None),
    )
    return SentinelEndpoint(sentinels, pool.connection_class, read_pool(pool))


def _with_port(host: str, url: str) -> str:
    """Return *host* with Sentinel's own port unless it has one."""
    if not host:
        _refuse(url, "a host is missing")
    name, colon, _ = host.rpartition(":")
    return host if colon and not (host.endswith("]") or name.endswith(":")) else f"{host}:{PORT}"


def _refuse(url: str, why: str) -> NoReturn:
    raise ConfigError(f"cannot use the URL {redact(url)!r}: {why}")
