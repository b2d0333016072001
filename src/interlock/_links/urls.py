"""Turns a URL, no URL, or a configured client into the servers that it means."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from interlock._links.cluster import Cluster
from interlock._links.endpoint import Endpoint
from interlock._links.login import Login
from interlock._links.options import read_client, read_url, refuse
from interlock._links.sentinel import SentinelEndpoint, Sentinels
from interlock._misuse import warn
from interlock.errors import ConfigError

if TYPE_CHECKING:
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
_PREFIX = re.compile(r"(?P<mark>[?&])prefix=(?P<value>[^&#]*)(?P<more>&?)")


class EmbeddedWarning(UserWarning):
    """No server was named, so the embedded one is used."""


_warned: list[bool] = []


def _warn_once() -> None:
    if not _warned:
        warn(
            "no URL given: an embedded server is used, whose locks only your processes on this "
            "machine share; set INTERLOCK_URL to lock between machines",
            EmbeddedWarning,
        )
        _warned.append(True)


def open_url(url: str | None, options: Options) -> tuple[Endpoint | Cluster, Options]:
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
    servers = _servers(bare)
    if prefix is not None:
        if options.prefix not in (None, prefix):
            raise ConfigError(
                f"the URL gives the prefix {prefix!r}, and the options {options.prefix!r}"
            )
        options = options.replace(prefix=prefix)
    if options.credentials is not None:
        servers.use_login(Login(options.credentials))
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


def _servers(url: str) -> Endpoint | Cluster:
    # valkeys:// means rediss://, also with +sentinel and +cluster.
    url = _VALKEY.sub("redis", url, count=1) if url.startswith("valkey") else url
    scheme, found, rest = url.partition("://")
    login, _, hosts = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")
    listed = scheme not in ("unix", "embedded") and ";" in hosts
    if listed or (scheme in SENTINEL + CLUSTER and _SECOND_LOGIN.search(login)):
        refuse(url, _ONE_LIST)
    if not found or scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        refuse(url, f"it must start with one of {known}, or valkey:// in place of redis://")
    if scheme == "embedded":
        return _embedded(rest.rstrip("/") or "default")
    if scheme == "unix" and not hasattr(socket, "AF_UNIX"):
        refuse(url, "Python has no Unix sockets here")
    if scheme in SENTINEL:
        return _of_sentinels(url)
    if scheme in CLUSTER:
        scheme, login, several, rest = _split(url)
        return Cluster([_server(f"{scheme}://{login}{host}{rest}", shown=url) for host in several])
    if "," in hosts and scheme != "unix":
        refuse(
            url,
            "it has several addresses; begin it with redis+cluster:// for a cluster, "
            "or redis+sentinel:// for Sentinels",
        )
    return Endpoint.from_url(url)


def _split(url: str) -> tuple[str, str, list[str], str]:
    """Return the parts of a *url* with several hosts: what each host's own URL has, and the hosts.

    These are redis or rediss, user and password with their @, the hosts, and the rest.
    """
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    login, at, listed = authority.rpartition("@")
    hosts = listed.split(",")
    if "" in hosts:
        refuse(url, "a host is missing")
    return scheme.partition("+")[0], login + at, hosts, rest[len(authority) :]


def _server(url: str, shown: str, **otherwise: int) -> Endpoint:
    """Return the server of *url*, a part of *shown*; *otherwise* has options that it may lack."""
    return Endpoint(otherwise | read_url(url, shown), tls=url.startswith("rediss"))


def _of_sentinels(url: str) -> SentinelEndpoint:
    """Read ``redis+sentinel://[user:password@]host[:port],.../service[/db][?parameters]``.

    Parameters are redis-py's, for the data nodes. With ``sentinel_`` before the name, they are for
    the Sentinels. ``rediss+sentinel://`` speaks TLS with both. The Sentinels then have the TLS
    settings of the data nodes, except for settings of their own. ``sentinel_ssl`` turns TLS on or
    off for the Sentinels alone. User and password are never passed on from one to the other.
    """
    scheme, login, hosts, rest = _split(url)
    path, _, query = rest.partition("?")
    if path.startswith("#"):
        refuse(url, "nothing may follow a #; percent-encode / ? # @ : in a password")
    service, _, db = path.removeprefix("/").partition("/")
    if not service:
        refuse(url, "its path must name the service, as in redis+sentinel://host:26379/mymaster/0")
    data, own = dict[str, str](), dict[str, str]()
    for word in filter(None, query.split("&")):
        name, _, value = word.partition("=")
        # The first of several counts, as in all URLs.
        _ = (own if name.startswith(OWN) else data).setdefault(name.removeprefix(OWN), value)
    tls = scheme == "rediss"
    answer = own.pop("ssl", str(tls)).lower()
    own_tls = answer in _YES
    if answer not in (*_YES, *_NO):
        refuse(url, "sentinel_ssl must be true or false")
    if tls and own_tls:
        own = {name: value for name, value in data.items() if name.startswith("ssl_")} | own
    own_scheme = "rediss" if own_tls else "redis"
    nodes = [
        _server(f"{own_scheme}://{host}?{_query(own)}", url, port=SENTINEL_PORT) for host in hosts
    ]
    given = read_url(f"{scheme}://{login}localhost/{db}?{_query(data)}", url)
    return SentinelEndpoint(Sentinels(unquote(service), nodes), given, tls=tls)


def _query(parameters: dict[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in parameters.items())


def _of_environment(options: Options) -> tuple[Endpoint | Cluster, Options]:
    for variable in ("INTERLOCK_URL", "REDIS_URL"):
        if url := os.environ.get(variable):
            try:
                return open_url(url, options)
            except ConfigError as error:
                raise ConfigError(f"{error}; the URL is that of {variable}") from None
    _warn_once()
    return open_url("embedded://", options)


def _embedded(name: str) -> Endpoint:
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
    return Endpoint.from_url(server.url, prepare=lambda: ensure(name))


def servers_of(client: Any) -> Endpoint | Cluster:
    """Return the servers that a *client* of redis-py's or valkey-py's is configured for.

    Raises:
        ConfigError: the client cannot be used.
    """
    # Judged by its attributes, not by its class: valkey-py has classes of its own, and is not
    # imported for this.
    if hasattr(client, "nodes_manager"):
        manager = client.nodes_manager
        given, tls = read_client(manager.connection_kwargs)
        first = Endpoint(given, tls=tls)
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
    given, tls = read_client(pool.connection_kwargs, pool.connection_class)
    return SentinelEndpoint(sentinels, given, tls=tls)


def _of_pool(pool: Any) -> Endpoint:
    given, tls = read_client(pool.connection_kwargs, pool.connection_class)
    return Endpoint(given, tls=tls)
