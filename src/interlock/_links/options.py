"""Reads the configuration of users: URLs, and the options of redis-py's clients.

The options have the names and meanings that redis-py gives them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from interlock._links.login import Login
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DATABASE = re.compile(r"/*(-?\d+)?/?", re.ASCII)
_PASSWORD = re.compile(r"(?<=[?&])([^=&]*password)=[^&]*")
_FALSE = ("0", "F", "FALSE", "N", "NO")

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


def _is_true(word: str) -> bool | None:
    return word.upper() not in _FALSE if word else None


def _verify_flags(words: str) -> list[int]:
    import ssl  # noqa: PLC0415 - it takes long

    return [ssl.VerifyFlags[word.strip()] for word in words.strip("[]").split(",")]


_READ: Mapping[str, Callable[[str], object]] = {
    "db": int,
    "max_connections": int,
    "port": int,
    "socket_connect_timeout": float,
    "socket_keepalive": _is_true,
    "socket_timeout": float,
    "ssl_check_hostname": _is_true,
    "ssl_exclude_verify_flags": _verify_flags,
    "ssl_include_verify_flags": _verify_flags,
    "ssl_min_version": int,
}
"""What reads a parameter of a URL that is no text."""


def read_url(url: str, shown: str | None = None) -> dict[str, Any]:
    """Turn *url*, of one server, into options.

    Args:
        url: a URL that begins with redis, rediss or unix.
        shown: the URL that the user wrote, if that is another one.

    Raises:
        ConfigError: it cannot be read.
    """
    shown = shown or url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Half a password may stand where a port is expected, so the error is not quoted.
        refuse(shown, "the port must be 0 to 65535, and / ? # @ : in a password percent-encoded")
    if parts.fragment:
        refuse(shown, "nothing may follow a #; percent-encode / ? # @ : in a password")
    given = _parameters(parts.query, shown)
    for name, part in (("username", parts.username), ("password", parts.password)):
        if part:
            given[name] = unquote(part)
    if parts.scheme == "unix":
        given["path"] = unquote(parts.path) or refuse(shown, "the path of the socket is missing")
        return given
    if parts.hostname:
        given["host"] = unquote(parts.hostname)
    if port:
        given["port"] = port
    database = _DATABASE.fullmatch(parts.path)
    if database is None:
        refuse(
            shown,
            "its path must be the number of a database, "
            "and / ? # @ : in a password percent-encoded",
        )
    if database[1]:
        given.setdefault("db", int(database[1]))
    return given


def _parameters(query: str, shown: str) -> dict[str, Any]:
    given = dict[str, Any]()
    for name, words in parse_qs(query).items():
        try:
            given[name] = _READ.get(name, str)(words[0])
        except (LookupError, ValueError):
            refuse(shown, f"the value of {name} cannot be read")
    return given


def read_client(
    options: Mapping[str, Any], connection_class: type | None = None
) -> tuple[dict[str, Any], bool]:
    """Return the options of a client of redis-py's that count here, and whether it speaks TLS.

    Its own clients set many others. Time-outs and the size of a pool may be its defaults, and ours
    must count then. What is unknown of TLS is kept, so that it is refused.

    Args:
        options: those of its connections.
        connection_class: that of its connections, unless *options* name it.
    """
    known = TCP | UNIX
    given = {
        name: value for name, value in options.items() if name in known or name.startswith("ssl_")
    }
    if (provider := given.get("credential_provider")) is not None:
        given["credential_provider"] = Login(provider)
    # The class is redis-py's or valkey-py's, or the user has derived it from one of these.
    kind = connection_class or options.get("connection_class")
    if kind is None:
        return given, bool(options.get("ssl"))
    return given, any("SSL" in each.__name__ for each in kind.__mro__)


def refuse(url: str, why: str) -> NoReturn:
    """Raise ConfigError for *url*, without its password."""
    raise ConfigError(f"cannot use the URL {redact(url)!r}: {why}") from None


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
