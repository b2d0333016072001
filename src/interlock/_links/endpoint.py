"""The address of a server, and how to log in."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Self

from interlock._hints import did_you_mean
from interlock._links.dialled import Dialled, verify_mode
from interlock._links.login import Login
from interlock._links.options import TCP, TLS, UNIX, read_url
from interlock._links.replies import unconnected
from interlock._links.resp import ParserError, ReplyError
from interlock.errors import ConfigError, InterlockError, ServerUnavailableError
from interlock.options import OptionChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_OURS = {
    "decode_responses", "encoding", "encoding_errors", "health_check_interval", "lib_name",
    "lib_version", "max_connections", "protocol", "retry_on_error", "retry_on_timeout",
    "single_connection_client", "socket_connect_timeout", "socket_read_size", "socket_timeout",
    "socket_type", "timeout",
}  # fmt: skip
"""Options of a URL by which redis-py would retry, check health or decode by itself, or that are
read apart. They are dropped: we decide what may be sent again."""
Address = tuple[str, int]
"""Host and port."""


def _meant(unknown: str, known: Iterable[str]) -> str:
    """Return what to write in place of an option that no URL takes."""
    if unknown in OptionChanges.__annotations__:
        return f"give it to connect(), as connect(url, {unknown}=...)"
    if unknown in TLS:
        return "it is for TLS, so write rediss in place of redis in the URL"
    return did_you_mean(unknown, {*known, *_OURS})


class Endpoint:
    """One server: its address, credentials and TLS settings.

    Args:
        given: the options, by the names that redis-py gives them.
        tls: whether connections are encrypted.
        prepare: called before every connection; it may block.
        where: the name in messages, if that is not the address.

    Attributes:
        tls: as given.
        by_path: whether it is reached by a Unix socket.
        embedded: whether this library runs it.
        db: the database.
        where: the address, for messages; never a password.
        moves: whether another server may take its place. Then connections to the former one are
            given up.
        rights: the commands that find it, as an ACL names them.
        command_timeout: seconds, when the URL gave ``socket_timeout``.
        max_connections: how many connections threads may share, when the URL gave it.
        opening: called with each connection before it connects.
        seen: True once a connection succeeded; from then on a failure is an outage rather than a
            mistake.
        served: True once a script succeeded; from then on it is an outage if a replica answers.
        refused: what the server refused for want of a right, and no call fails for: the events of the
            log, and the server's words. The upkeep takes it out.
    """

    moves = False
    rights: tuple[str, ...] = ()

    def __init__(
        self,
        given: Mapping[str, Any],
        *,
        tls: bool = False,
        prepare: Callable[[], object] | None = None,
        where: str | None = None,
    ) -> None:
        self._prepare = prepare
        self.tls, self.by_path = tls, "path" in given
        self.embedded = prepare is not None
        self._given = {name: value for name, value in given.items() if name not in _OURS}
        self.command_timeout: float | None = given.get("socket_timeout")
        self.connect_timeout: float | None = given.get("socket_connect_timeout")
        self.max_connections: int | None = given.get("max_connections")
        self.db = int(given.get("db") or 0)
        self.seen = self.served = False
        self.refused = dict[str, str]()
        self.opening: Callable[[Dialled], None] = lambda _: None
        host, port = self.address
        self.where: str = where or given.get("path", f"{host}:{port}")
        self._check()

    @classmethod
    def from_url(cls, url: str, prepare: Callable[[], object] | None = None) -> Self:
        """Return the server of a ``redis://``, ``rediss://`` or ``unix://`` URL.

        Raises:
            ConfigError: the URL cannot be read, or has an unknown parameter.
        """
        return cls(read_url(url), tls=url.startswith("rediss"), prepare=prepare)

    def at(self, host: str, port: int) -> Self:
        """Return the endpoint of another server of the same kind.

        It has the same credentials, TLS settings and time-outs.
        """
        other = copy.copy(self)
        other._given = {**self._given, "host": host, "port": port}  # noqa: SLF001 - our own kind
        other.where = f"{host}:{port}"
        return other

    @property
    def login(self) -> Login | None:
        """What knows the credentials if they may change."""
        provider = self._given.get("credential_provider")
        return provider if isinstance(provider, Login) else None

    def use_login(self, login: Login) -> None:
        """Log in with what *login* knows.

        Raises:
            ConfigError: there are other credentials already.
        """
        if self._given.get("username") or self._given.get("password"):
            raise ConfigError(
                f"{self.where} has credentials twice: in the URL, and by credentials="
            )
        self._given["credential_provider"] = login

    @property
    def address(self) -> Address:
        """Host and port."""
        return self._given.get("host", "localhost"), int(self._given.get("port", 6379))

    @property
    def identity(self) -> str:
        """The name that tells this database from all others, on this server and elsewhere."""
        return f"{self.where}/{self.db}"

    def primaries(self, timeout: float) -> Sequence[Endpoint]:
        """Return the servers that keep locks now, each by itself.

        Raises:
            ServerUnavailableError: they could not be found in about *timeout* seconds.
        """
        del timeout
        return [self]

    def unconnected(self, error: Exception) -> ServerUnavailableError:
        """Return the error for a caller when *error* has prevented a connection."""
        return unconnected(error, self.where, seen=self.seen, tls=self.tls)

    def epoch(self) -> int:
        """Return a number that grows each time another server takes its place.

        It is always 0 here.
        """
        return 0

    def took_over(self, key: str) -> float:
        """Return how many seconds ago another server was seen to take over *key*.

        It is always infinite here.
        """
        del key
        return math.inf

    def _check(self) -> None:
        for name in ("command_timeout", "connect_timeout", "max_connections"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} for {self.where} must be above 0, not {value!r}")
        if self.db < 0:
            raise ConfigError(f"the database of {self.where} must be a number from 0")
        known = UNIX if self.by_path else TCP | TLS if self.tls else TCP
        # redis-py's own clients set many options to what changes nothing.
        if unknown := sorted(
            name for name, value in self._given.items() if value and name not in known
        ):
            raise ConfigError(
                f"unknown option {unknown[0]!r} for {self.where}: {_meant(unknown[0], known)}"
            )
        try:
            if self.tls and verify_mode(self._given) == 0:
                self._given["ssl_check_hostname"] = False
        except ValueError as error:
            raise ConfigError(f"bad options for {self.where}: {error}") from error

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        """Return a connection that is logged in; *for_loop* is as for `Dialled`.

        Raises:
            ServerUnavailableError: no connection within about *timeout* seconds.
        """
        try:
            return self._connect(timeout, for_loop)
        except ServerUnavailableError as error:
            if self.login is None or error.code != "WRONGPASS":
                raise
        return self._connect(timeout, for_loop)  # the credentials may have changed just now

    def _connect(self, timeout: float, for_loop: bool) -> Dialled:
        if self._prepare is not None:
            _ = self._prepare()
        given, version, login = self._given, 0, self.login
        if login is not None:
            answered, version = login.now()
            words = dict(zip(("password", "username"), reversed(answered), strict=False))
            given = {**given, **words}
        # The shorter of two: the time of one command, and the URL's limit for connecting.
        limit = min(timeout, self.connect_timeout or timeout)
        connection = Dialled(given, timeout, limit, tls=self.tls, for_loop=for_loop)
        connection.login_version = version
        self.opening(connection)
        try:
            connection.connect()
        except BaseException as error:
            connection.disconnect()
            if not isinstance(error, Exception) or isinstance(error, InterlockError):
                raise
            failure = self.unconnected(error)
            if login is not None and failure.code == "WRONGPASS":
                login.doubt(version)
            raise failure from error
        self.seen = True
        return connection

    def ask(self, connection: Dialled, *command: str) -> Any:
        """Return the reply to *command*; on an error, close the *connection* (of `connect`).

        Raises:
            ServerUnavailableError: the reply is an error, the connection failed, or a word of the
                user's cannot be sent.
        """
        try:
            return connection.ask(*command)
        except (OSError, ParserError, ReplyError, UnicodeEncodeError) as error:
            connection.disconnect()
            raise self.unconnected(error) from error
