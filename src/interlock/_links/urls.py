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
from interlock._links.options import redact
from interlock._links.sentinel_origin import from_sentinel_pool, from_sentinel_url
from interlock._misuse import warn
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock.options import Options

PLAIN = ("redis", "rediss", "unix")
SENTINEL = ("redis+sentinel", "rediss+sentinel")
CLUSTER = ("redis+cluster", "rediss+cluster")
SCHEMES = (*PLAIN, *SENTINEL, *CLUSTER, "embedded")
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
        raise ConfigError(f"cannot use the URL {redact(url)!r}: {_ONE_LIST}")
    if not found or scheme not in SCHEMES:
        raise ConfigError(
            f"cannot use the URL {redact(url)!r}: it must start with one of "
            + ", ".join(f"{known}://" for known in SCHEMES)
            + ", or valkey:// in place of redis://"
        )
    if scheme == "embedded":
        return _embedded(rest.rstrip("/") or "default")
    if scheme == "unix" and not hasattr(socket, "AF_UNIX"):
        raise ConfigError(f"cannot use the URL {redact(url)!r}: Python has no Unix sockets here")
    if scheme in SENTINEL:
        return from_sentinel_url(url)
    if scheme in CLUSTER:
        return Cluster.from_url(url)
    if "," in hosts and scheme != "unix":
        raise ConfigError(
            f"cannot use the URL {redact(url)!r}: it has several addresses; begin it with "
            "redis+cluster:// for a cluster, or redis+sentinel:// for Sentinels"
        )
    return Endpoint.from_url(url)


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
        return Cluster.from_client(client)
    if isinstance(client, str):
        raise ConfigError("from_redis takes a client of redis-py's; for a URL, use connect(url)")
    pool = getattr(client, "connection_pool", None)
    if type(client).__module__.partition(".")[0] == "fakeredis":
        raise ConfigError(
            "fakeredis is not a server: use the fixture interlock_fake, or interlock.testing.fake()"
        )
    if pool is None:
        raise ConfigError(f"from_redis takes a client of redis-py's, not {type(client).__name__}")
    asks_sentinels = hasattr(pool, "sentinel_manager")
    return from_sentinel_pool(pool) if asks_sentinels else Endpoint.from_pool(pool)
