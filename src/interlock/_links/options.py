"""Reads the configuration of users: URLs, and the options of redis-py's clients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from interlock._links.login import Login
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CREDENTIALS = r"(?:(?P<username>[^:@/?#\[\]\s]*)(?::(?P<password>[^:@/?#\[\]\s]*))?@)?"
_TCP = re.compile(
    rf"redis://{_CREDENTIALS}(?P<host>[\w.-]+)(?::(?P<port>[1-9]\d{{0,3}}|[1-5]\d{{4}}))?"
    r"(?:/(?P<db>\d{1,5})?)?",
    re.ASCII,
)
_UNIX = re.compile(rf"unix://{_CREDENTIALS}(?P<path>/[^?#%\s]+)(?:\?db=(?P<db>\d{{1,5}}))?")
_DATABASE = re.compile(r"/*(-?\d+/?)?")
_PASSWORD = re.compile(r"(?<=[?&])([^=&]*password)=[^&]*")

_ALL = frozenset({"client_name", "credential_provider", "db", "password", "username"})
UNIX = _ALL | {"path"}
TCP = _ALL | {"host", "port", "socket_keepalive", "socket_keepalive_options"}
TLS = frozenset(
    f"ssl_{name}"
    for name in (
        *("ca_certs", "ca_data", "ca_path", "cert_reqs", "certfile", "check_hostname", "ciphers"),
        *("exclude_verify_flags", "include_verify_flags", "keyfile", "min_version", "password"),
    )
)
"""Options of redis-py's connections that count here."""


def read_plain_url(url: str) -> dict[str, Any] | None:
    """Return what redis-py's ``parse_url`` would say of *url*; None if *url* is not so plain."""
    found = _TCP.fullmatch(url) or _UNIX.fullmatch(url)
    if found is None:
        return None
    given: dict[str, Any] = {name: part for name, part in found.groupdict().items() if part}
    for name in ("username", "password"):
        if name in given:
            given[name] = unquote(given[name])
    for name in ("port", "db"):
        if name in given:
            given[name] = int(given[name])
    if "host" in given:
        given["host"] = given["host"].lower()
    return given


def read_url(url: str, shown: str | None = None) -> dict[str, Any]:
    """Turn *url*, of one server, into keyword arguments for a redis-py connection pool.

    Args:
        url: a URL with a scheme that redis-py knows.
        shown: the URL that the user wrote, if that is another one.

    Raises:
        ConfigError: it cannot be read.
    """
    shown = redact(shown or url)
    from redis import connection  # noqa: PLC0415 - it takes long

    # It has no types.
    parse: Callable[[str], dict[str, Any]] = cast("Any", connection).parse_url
    try:
        kwargs = parse(url)
        _ = urlsplit(url).port
    except ValueError as error:
        # Half a password may stand where a port is expected. So that error is neither quoted nor
        # kept.
        why = str(error)
        if why.startswith("Port"):
            why = "the port must be 0 to 65535, and / ? # @ : in a password percent-encoded"
        raise ConfigError(f"cannot use the URL {shown!r}: {why}") from None
    if urlsplit(url).fragment:
        raise ConfigError(
            f"cannot use the URL {shown!r}: nothing may follow a #; "
            "percent-encode / ? # @ : in a password"
        )
    # redis-py reads a path that is not a number as database 0, and /0/1 as database 1.
    if "path" not in kwargs and not _DATABASE.fullmatch(urlsplit(url).path):
        raise ConfigError(
            f"cannot use the URL {shown!r}: its path must be the number of a database, "
            "and / ? # @ : in a password percent-encoded"
        )
    return kwargs


def read_pool(pool: Any) -> dict[str, Any]:
    """Return the keyword arguments of a redis-py connection pool that the user chose."""
    return _chosen(pool.connection_kwargs)


def read_options(options: Mapping[str, Any]) -> tuple[type, dict[str, Any]]:
    """Return the connection class, and the keyword arguments for it that the user chose.

    Args:
        options: the connection options of a redis-py cluster client.
    """
    from redis.connection import Connection, SSLConnection  # noqa: PLC0415 - it takes long

    plain = SSLConnection if options.get("ssl") else Connection
    return options.get("connection_class", plain), _chosen(options)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *options* that count here, with a `Login` for a provider.

    redis-py's own clients set many others. Time-outs and the size of a pool may be its defaults,
    and ours must count then. What is unknown of TLS is kept, so that it is refused.
    """
    known = TCP | UNIX
    given = {
        name: value for name, value in options.items() if name in known or name.startswith("ssl_")
    }
    provider = given.get("credential_provider")
    if provider is not None:
        given["credential_provider"] = Login(provider)
    return given


def redact(url: str) -> str:
    """Return *url* without its password."""
    scheme, found, rest = _PASSWORD.sub(r"\1=***", url).partition("://")
    if not found:
        # Not a URL, but perhaps a mistyped one with a password.
        _, at, address = scheme.rpartition("@")
        return f"***@{address}" if at else scheme
    credentials, at, address = rest.rpartition("@")
    if not at:
        return f"{scheme}{found}{rest}"
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}:***@{address}"
