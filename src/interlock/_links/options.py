"""Reads the configuration of users: URLs, and the options of redis-py's clients.

The options have the names and meanings that redis-py gives them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from interlock._hints import did_you_mean
from interlock._links.dialled import verify_mode
from interlock._links.login import Login
from interlock.errors import ConfigError
from interlock.options import OptionChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DATABASE = re.compile(r"/*(\d+)?/?", re.ASCII)
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
_OURS = frozenset({
    "decode_responses", "encoding", "encoding_errors", "health_check_interval", "lib_name",
    "lib_version", "max_connections", "protocol", "retry_on_error", "retry_on_timeout",
    "single_connection_client", "socket_connect_timeout", "socket_read_size", "socket_timeout",
    "socket_type", "timeout",
})  # fmt: skip
"""Options of a URL by which redis-py would retry, check health or decode by itself, or that are
read apart. We decide what may be sent again."""


_NO_WORDS = ("credential_provider", "ssl")
"""Options that no URL can give."""


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
    if parts.scheme == "rediss":
        given["ssl"] = True
    login = {"username": parts.username, "password": parts.password}
    given |= {name: unquote(part) for name, part in login.items() if part}
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


def check(given: Mapping[str, Any], where: str) -> None:
    """Refuse options that no server at *where* can have; errors as `read_url`."""
    for name in ("socket_timeout", "socket_connect_timeout", "max_connections"):
        value = given.get(name)
        if value is not None and value <= 0:
            raise ConfigError(f"{name} for {where} must be above 0, not {value!r}")
    tls = bool(given.get("ssl"))
    known = _OURS | (UNIX if "path" in given else TCP | TLS | {"ssl"} if tls else TCP)
    # redis-py's own clients set many options to what changes nothing.
    unknown = {name for name, value in given.items() if value and name not in known}
    unknown |= {name for name in _NO_WORDS if isinstance(given.get(name), str)}
    for name in sorted(unknown):
        raise ConfigError(f"unknown option {name!r} for {where}: {_meant(name, known)}")
    if given.get("credential_provider") and (given.get("username") or given.get("password")):
        raise ConfigError(f"{where} has credentials twice: in the URL, and by credentials=")
    if tls:
        _ = verify_mode(given)


def _meant(unknown: str, known: frozenset[str]) -> str:
    """Return what to write in place of an option that no URL takes."""
    if unknown in OptionChanges.__annotations__:
        return f"give it to connect(), as connect(url, {unknown}=...)"
    if unknown in TLS | {"ssl"}:
        return "it is for TLS, so write rediss in place of redis in the URL"
    return did_you_mean(unknown, known)


def read_client(options: Mapping[str, Any], connection_class: type | None = None) -> dict[str, Any]:
    """Return the options of a client of redis-py's that count here.

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
    of_class = kind is not None and any("SSL" in each.__name__ for each in kind.__mro__)
    if of_class or (kind is None and options.get("ssl")):
        given["ssl"] = True
    return given


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
