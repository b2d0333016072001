"""Reads the configuration of users: URLs, and the options of redis-py's clients."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from interlock._links.login import Login
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DATABASE = re.compile(r"/*(-?\d+/?)?")
_PASSWORD = re.compile(r"(?<=[?&])([^=&]*password)=[^&]*")

# Options that are dropped: they may be redis-py's defaults, and ours must count then. A Sentinel
# pool also has itself among its options (connection_pool).
_DEFAULTED = ("socket_timeout", "socket_connect_timeout", "max_connections", "connection_pool")


def redis_py() -> Any:
    """Return what is used of redis-py's connections, loaded when it is first needed."""
    from interlock._links import redis_connections  # noqa: PLC0415 - it takes long

    return redis_connections


def read_url(url: str, shown: str | None = None) -> dict[str, Any]:
    """Turn *url*, of one server, into keyword arguments for a redis-py connection pool.

    Args:
        url: a URL with a scheme that redis-py knows.
        shown: the URL that the user wrote, if that is another one.

    Raises:
        ConfigError: it cannot be read.
    """
    shown = redact(shown or url)
    # By `getattr`, because it has no types.
    parse: Callable[[str], dict[str, Any]] = getattr(redis_py().sync, "parse_url")  # noqa: B009
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
    given = _chosen(options)
    tls = given.pop("ssl", False)
    plain = redis_py().sync.SSLConnection if tls else redis_py().sync.Connection
    connection_class = given.pop("connection_class", plain)
    known = parameters(connection_class)
    return connection_class, {key: value for key, value in given.items() if key in known}


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return *options* without redis-py's defaults, and with a `Login` for a provider."""
    given = {name: value for name, value in options.items() if name not in _DEFAULTED}
    provider = given.get("credential_provider")
    if provider is not None:
        given["credential_provider"] = Login(provider)
    return given


@cache
def parameters(connection_class: Any) -> frozenset[str]:
    """Return the names of all parameters of a connection class."""
    inits = (part.__init__ for part in connection_class.__mro__)
    # Not of functions in C: inspect has to parse their signatures. If two threads parse at a time,
    # CPython 3.11 may raise a SystemError ("AST constructor recursion depth mismatch"). The other
    # thread may get the error too, even if it parses something else.
    names = (inspect.signature(init).parameters for init in inits if inspect.isfunction(init))
    return frozenset[str]().union(*names) - {"self", "args", "kwargs"}


def anonymous() -> dict[str, None]:
    """Return the options with which a connection does not tell the server which library it is.

    Older versions of redis-py (before 7.2) take two options instead of ``driver_info``.
    """
    if "driver_info" in parameters(redis_py().sync.Connection):
        return {"driver_info": None}
    return {"lib_name": None, "lib_version": None}


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
