"""Turns a URL, no URL, or a configured client into the servers that it means."""

from __future__ import annotations

import os
import re
import socket
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from interlock._links.cluster import Cluster
from interlock._links.endpoint import Endpoint
from interlock._links.login import Login
from interlock._links.options import read_client, read_url, refuse
from interlock._links.sentinel import SentinelEndpoint, Sentinels
from interlock._misuse import warn
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._links.topology import Topology
    from interlock.options import Options

PLAIN = ("redis", "rediss", "unix")
SENTINEL = ("redis+sentinel", "rediss+sentinel")
CLUSTER = ("redis+cluster", "rediss+cluster")
SCHEMES = (*PLAIN, *SENTINEL, *CLUSTER, "embedded")
OWN = "sentinel_"
"""The prefix of parameters for the Sentinels. Parameters without it are for the data nodes."""
SENTINEL_PORT = 26379
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_VALKEY = re.compile(r"valkey(?=s?(\+\w+)?://)")
_SECOND_LOGIN = re.compile("@.*,|,[^,]*:")
"""In the credentials of a URL: those of a second host, or the first host of several."""
_ONE_LIST = (
    "write one scheme, one user and password, and then all hosts, with commas between them, as in "
    "redis+sentinel://user:password@a:26379,b:26379/mymaster; sentinel_username and "
    "sentinel_password are for the Sentinels themselves, and the same for all"
)
_SEVERAL = (
    "it has several addresses; begin it with redis+cluster:// for a cluster, or "
    "redis+sentinel:// for Sentinels"
)
_PREFIX = re.compile(r"(?P<mark>[?&])prefix=(?P<value>[^&#]*)(?P<more>&?)")


class EmbeddedWarning(UserWarning):
    """No server was named, so the embedded one is used."""


@cache
def _warn_once() -> None:
    warn(
        "no URL given: an embedded server is used, whose locks only your processes on this "
        "machine share; set INTERLOCK_URL to lock between machines",
        EmbeddedWarning,
    )


def open_url(url: str | None, options: Options) -> tuple[Topology, Options]:
    """Return the servers that *url* means, and *options* with the prefix that it gives.

    Args:
        url: None for ``INTERLOCK_URL``, then ``REDIS_URL``, else the embedded server. A process
            warns once if it has to use the embedded server like this.
        options: the client's. Without `Options.credentials` those of the URL count.

    Raises:
        ConfigError: the URL cannot be used, or gives another prefix than *options*.
    """
    if url is None:
        return _of_environment(options)
    bare, prefix = _without_prefix(url)
    given = options.credentials
    login: dict[str, Any] = {} if given is None else {"credential_provider": Login(given)}
    servers = _servers(bare, login)
    if prefix is not None:
        if options.prefix not in (None, prefix):
            raise ConfigError(
                f"the URL gives the prefix {prefix!r}, and the options {options.prefix!r}"
            )
        options = options.replace(prefix=prefix)
    return servers, options


def _without_prefix(url: str) -> tuple[str, str | None]:
    """Return *url* without its parameter ``prefix``, and the value of that."""
    # Users may not check types.
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        is_client = hasattr(url, "connection_pool") or hasattr(url, "nodes_manager")
        instead = ": use Client.from_redis(client)" if is_client else ""
        raise TypeError(f"a URL must be a str, not {type(url).__name__}{instead}")
    found = _PREFIX.search(url)
    if found is None:
        return url, None
    mark = found["mark"] if found["more"] else ""
    return f"{url[: found.start()]}{mark}{url[found.end() :]}", unquote(found["value"])


def _servers(url: str, login: dict[str, Any]) -> Topology:
    # valkeys:// means rediss://, also with +sentinel and +cluster.
    url = _VALKEY.sub("redis", url, count=1) if url.startswith("valkey") else url
    scheme, found, path = url.partition("://")
    authority = re.split("[/?#]", path, maxsplit=1)[0]
    rest = path[len(authority) :]
    user, at, hosts = authority.rpartition("@")
    listed = scheme not in ("unix", "embedded") and ";" in hosts
    if listed or (scheme in SENTINEL + CLUSTER and _SECOND_LOGIN.search(user)):
        refuse(url, _ONE_LIST)
    if not found or scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        refuse(url, f"it must start with one of {known}, or valkey:// in place of redis://")
    if scheme == "embedded":
        return _embedded(path.rstrip("/") or "default", login)
    if scheme == "unix" and not hasattr(socket, "AF_UNIX"):
        refuse(url, "Python has no Unix sockets here")
    several = hosts.split(",")
    if scheme in PLAIN:
        if len(several) > 1 and scheme != "unix":
            refuse(url, _SEVERAL)
        return Endpoint.from_url(url, **login)
    if "" in several:
        refuse(url, "a host is missing")
    begin = f"{scheme.partition('+')[0]}://{user}{at}"
    if scheme in SENTINEL:
        return _of_sentinels(url, begin, several, rest, login)
    return Cluster([Endpoint.from_url(f"{begin}{host}{rest}", url, **login) for host in several])


def _of_sentinels(
    url: str, begin: str, hosts: list[str], rest: str, login: dict[str, Any]
) -> SentinelEndpoint:
    """Read ``redis+sentinel://[user:password@]host[:port],.../service[/db][?parameters]``.

    Parameters are redis-py's, for the data nodes. With ``sentinel_`` before the name, they are for
    the Sentinels. ``rediss+sentinel://`` speaks TLS with both. The Sentinels then have the TLS
    settings of the data nodes, except for settings of their own. ``sentinel_ssl`` turns TLS on or
    off for the Sentinels alone. User and password are never passed on from one to the other.

    Args:
        url: the URL.
        begin: what it has before the hosts, as for a single server.
        hosts: the hosts.
        rest: what follows them.
        login: the options of the data nodes that the URL cannot give.
    """
    path, _, query = rest.partition("?")
    if path.startswith("#"):
        refuse(url, "nothing may follow a #; percent-encode / ? # @ : in a password")
    service, _, db = path.removeprefix("/").partition("/")
    if not service:
        refuse(url, "its path must name the service, as in redis+sentinel://host:26379/mymaster/0")
    tls = begin.startswith("rediss")
    answer = parse_qs(query).get("sentinel_ssl", [str(tls)])[0].lower()
    if answer not in (*_YES, *_NO):
        refuse(url, "sentinel_ssl must be true or false")
    words = [word for word in query.split("&") if not word.startswith("sentinel_ssl=")]
    data = [word for word in words if not word.startswith(OWN)]
    own = [word.removeprefix(OWN) for word in words if word.startswith(OWN)]
    scheme = "rediss" if answer in _YES else "redis"
    if tls and answer in _YES:  # of several words with one name, the first one counts
        own += [word for word in data if word.startswith("ssl_")]
    nodes = [
        Endpoint.from_url(f"{scheme}://{host}?{'&'.join(own)}", url, port=SENTINEL_PORT)
        for host in hosts
    ]
    given = login | read_url(f"{begin}localhost/{db}?{'&'.join(data)}", url)
    return SentinelEndpoint(Sentinels(unquote(service), nodes), given)


def _of_environment(options: Options) -> tuple[Topology, Options]:
    for variable in ("INTERLOCK_URL", "REDIS_URL"):
        if url := os.environ.get(variable):
            try:
                return open_url(url, options)
            except ConfigError as error:
                raise ConfigError(f"{error}; the URL is that of {variable}") from None
    _warn_once()
    return open_url("embedded://", options)


def _embedded(name: str, login: dict[str, Any]) -> Endpoint:
    try:
        # Imported here, because Windows lacks modules that it needs.
        from interlock._embedded import EmbeddedServer, ensure  # noqa: PLC0415
        from interlock._embedded.place import place_of  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "the embedded server needs a POSIX system: name a server in the URL, "
            "or in INTERLOCK_URL or REDIS_URL"
        ) from error
    server = EmbeddedServer(place_of(name))
    return Endpoint.from_url(server.url, prepare=lambda: ensure(name), **login)


def servers_of(client: Any) -> Topology:
    """Return the servers that a *client* of redis-py's or valkey-py's is configured for.

    Raises:
        ConfigError: the client cannot be used.
    """
    # Judged by its attributes, not by its class: valkey-py has classes of its own, and is not
    # imported for this.
    if hasattr(client, "nodes_manager"):
        manager = client.nodes_manager
        first = Endpoint(read_client(manager.connection_kwargs))
        seeds = [first.at(node.host, int(node.port)) for node in manager.startup_nodes.values()]
        return Cluster(seeds, manager.address_remap)
    if isinstance(client, str):
        raise ConfigError("from_redis takes a client of redis-py's; for a URL, use connect(url)")
    pool = getattr(client, "connection_pool", None)
    if type(client).__module__.partition(".")[0] == "fakeredis":
        raise ConfigError(
            "fakeredis is not a server: use the fixture interlock_fake, or interlock.testing.fake()"
        )
    if pool is None:
        raise ConfigError(f"from_redis takes a client of redis-py's, not {type(client).__name__}")
    if not hasattr(pool, "sentinel_manager"):
        return _of_pool(pool)
    if not pool.is_master:
        raise ConfigError(
            f"locks need the primary of {pool.service_name!r}: "
            "give the client that master_for() returns, not slave_for()"
        )
    manager = pool.sentinel_manager
    nodes = [_of_pool(sentinel.connection_pool) for sentinel in manager.sentinels]
    sentinels = Sentinels(pool.service_name, nodes, others=manager.min_other_sentinels)
    return SentinelEndpoint(sentinels, read_client(pool.connection_kwargs, pool.connection_class))


def _of_pool(pool: Any) -> Endpoint:
    return Endpoint(read_client(pool.connection_kwargs, pool.connection_class))
