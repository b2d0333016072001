"""The address of a server, and how to log in.

A plain address needs nothing of redis-py. Elsewhere redis-py's connections do the connecting. They
are loaded when they are first used.
"""

from __future__ import annotations

import copy
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from interlock._hints import did_you_mean
from interlock._links.login import Login
from interlock._links.options import (
    anonymous,
    parameters,
    read_pool,
    read_url,
    redis_py,
)
from interlock._links.plain_connection import PlainConnection, read_plain_url
from interlock._links.replies import unconnected
from interlock.errors import ConfigError, InterlockError, ServerUnavailableError
from interlock.options import OptionChanges

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

# Options by which redis-py would retry, check health, decode or cache by itself. They are dropped:
# we decide what may be sent again.
_OURS = {
    "cache", "cache_allow_list", "cache_config", "cache_deny_list", "cache_enabled",
    "cache_max_size", "cache_policy", "cache_ttl", "client_cache", "command_packer",
    "valkey_connect_func", "connection_class", "connection_pool_class", "decode_responses",
    "driver_info", "encoder_class", "encoding", "encoding_errors", "event_dispatcher",
    "health_check_interval", "himport_registry", "legacy_responses", "lib_name", "lib_version",
    "maint_notifications_config", "maint_notifications_pool_handler", "max_connections",
    "maintenance_notification_hash", "maintenance_state", "orig_host_address",
    "orig_socket_connect_timeout", "orig_socket_timeout",
    "oss_cluster_maint_notifications_handler", "parser_class", "protocol", "redis_connect_func",
    "retry", "retry_on_error", "retry_on_timeout", "single_connection_client",
    "socket_connect_timeout", "socket_read_size", "socket_timeout", "timeout",
}  # fmt: skip


def _meant(unknown: str, known: Iterable[str]) -> str:
    """Return what to write in place of an option that no URL takes."""
    if unknown in OptionChanges.__annotations__:
        return f"give it to connect(), as connect(url, {unknown}=...)"
    if unknown.startswith("ssl_"):
        return "it is for TLS, so write rediss in place of redis in the URL"
    return did_you_mean(unknown, known)


class Origin(Protocol):
    """A source of blocking connections."""

    where: str
    moves: bool
    served: bool
    refused: dict[str, str]

    @property
    def login(self) -> Login | None:
        """What knows the credentials if they may change."""
        ...

    def connect(self, timeout: float) -> Any:
        """Return a connected and authenticated redis-py connection.

        Errors as `Endpoint.connect`.
        """
        ...


class Endpoint:
    """One server: its address, credentials and TLS settings.

    Attributes:
        where: the address, for messages; never a password.
        moves: whether another server may take its place. Then connections to the former one are
            given up.
        rights: the commands that find it, as an ACL names them.
        command_timeout: seconds, when the URL gave ``socket_timeout``.
        max_connections: how many connections threads may share, when the URL gave it.
        opening: called before a redis-py connection connects, with the connection and its event
            loop (None for a blocking one).
        seen: True once a connection succeeded; from then on a failure is an outage rather than a
            mistake.
        served: True once a script succeeded; from then on it is an outage if a replica answers.
        refused: what the server refused for want of a right, and no call fails for: the events of the
            log, and the server's words. The renewal thread takes it out.
    """

    moves = False
    rights: tuple[str, ...] = ()

    def __init__(
        self,
        connection_class: type,
        kwargs: Mapping[str, Any],
        prepare: Callable[[], object] | None = None,
        *,
        where: str | None = None,
    ) -> None:
        self._prepare = prepare
        self._plain = connection_class is PlainConnection
        # The class is redis-py's or valkey-py's, or the user has derived it from one of these.
        tls = any("SSL" in kind.__name__ for kind in connection_class.__mro__)
        self._kind = "unix" if "path" in kwargs else "tls" if tls else "tcp"
        self._kwargs = {key: value for key, value in kwargs.items() if key not in _OURS}
        if self._kind == "tls":
            # redis-py before 6 checks the host name only if it is told to.
            certified = self._kwargs.get("ssl_cert_reqs", "required")
            if certified in (None, "none", 0):  # 0 is ssl.CERT_NONE
                self._kwargs["ssl_check_hostname"] = False
            self._kwargs.setdefault("ssl_check_hostname", True)
        self.command_timeout: float | None = kwargs.get("socket_timeout")
        self.connect_timeout: float | None = kwargs.get("socket_connect_timeout")
        self.max_connections: int | None = kwargs.get("max_connections")
        self.seen = self.served = False
        self.refused = dict[str, str]()
        self.opening: Callable[[Any, asyncio.AbstractEventLoop | None], None] = lambda _, __: None
        host = f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"
        self.where: str = where or kwargs.get("path", host)
        self._check()

    @classmethod
    def from_url(
        cls, url: str, prepare: Callable[[], object] | None = None, *, shown: str | None = None
    ) -> Self:
        """Read a ``redis://``, ``rediss://`` or ``unix://`` URL.

        The query has the parameters of redis-py.

        Args:
            url: the URL.
            prepare: called before every connection; it may block.
            shown: what the user wrote, if that is another URL.

        Raises:
            ConfigError: the URL cannot be read, or has an unknown parameter.
        """
        if (plain := read_plain_url(url)) is not None:
            return cls(PlainConnection, plain, prepare)
        kwargs = read_url(url, shown)
        return cls(kwargs.pop("connection_class", object), kwargs, prepare)

    @classmethod
    def from_pool(cls, pool: Any) -> Self:
        """Take the server and credentials from a redis-py connection pool (sync or asyncio)."""
        return cls(pool.connection_class, read_pool(pool))

    def at(self, host: str, port: int) -> Self:
        """Return the endpoint of another server of the same kind.

        It has the same credentials, TLS settings and time-outs.
        """
        other = copy.copy(self)
        other._kwargs = {**self._kwargs, "host": host, "port": port}  # noqa: SLF001 - our own kind
        other.where = f"{host}:{port}"
        return other

    @property
    def embedded(self) -> bool:
        """Return whether this library runs the server."""
        return self._prepare is not None

    @property
    def login(self) -> Login | None:
        """What knows the credentials if they may change."""
        provider = self._kwargs.get("credential_provider")
        return provider if isinstance(provider, Login) else None

    def use_login(self, login: Login) -> None:
        """Log in with what *login* knows.

        Raises:
            ConfigError: there are other credentials already.
        """
        if self._kwargs.get("username") or self._kwargs.get("password"):
            raise ConfigError(
                f"{self.where} has credentials twice: in the URL, and by credentials="
            )
        self._kwargs["credential_provider"] = login
        self._plain = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._kwargs.get("host", "localhost"), int(self._kwargs.get("port", 6379))

    @property
    def db(self) -> int:
        """The database."""
        return int(self._kwargs.get("db") or 0)

    @property
    def identity(self) -> str:
        """The name that tells this database from all others, on this server and elsewhere."""
        return f"{self.where}/{self.db}"

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self._kind == "tls"

    @property
    def by_path(self) -> bool:
        """Whether the server is reached by a Unix socket."""
        return self._kind == "unix"

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
        if self._kwargs.get("db") is not None and int(self._kwargs["db"]) < 0:
            raise ConfigError(f"the database of {self.where} must be a number from 0")
        if self._plain:
            return
        connection_class = self._class(redis_py().sync)
        known = parameters(connection_class)
        if unknown := sorted(set(self._kwargs) - known):
            raise ConfigError(
                f"unknown option {unknown[0]!r} for {self.where}: {_meant(unknown[0], known)}"
            )
        try:
            connection_class(**self._kwargs, **anonymous())
        except (TypeError, ValueError, redis_py().RedisError) as error:
            choice = "; take none, optional or required" if "Requirements" in str(error) else ""
            raise ConfigError(f"bad options for {self.where}: {error}{choice}") from error

    def _class(self, module: Any) -> Any:
        blocking = module is redis_py().sync
        return {
            "unix": module.UnixDomainSocketConnection,
            "tls": redis_py().SettledTLS if blocking else module.SSLConnection,
            "tcp": redis_py().Dialled if blocking else module.Connection,
        }[self._kind]

    def _new(
        self,
        module: Any,
        retry: object,
        timeout: float,
        answered: tuple[tuple[str, ...], int] | None,
    ) -> Any:
        connection_class = self._class(module)
        known = parameters(connection_class)
        # A client of the other module may have options that this one does not know. Those that are
        # not set are dropped.
        options = {key: value for key, value in self._kwargs.items() if value or key in known}
        if unknown := sorted(set(options) - known):
            raise ConfigError(f"{module.__name__} cannot do {unknown[0]!r}")
        if answered is not None:
            del options["credential_provider"]
            options.update(zip(("password", "username"), reversed(answered[0]), strict=False))
        connection = connection_class(
            **options,
            protocol=2,
            socket_timeout=timeout,
            # The shorter of two: the time of one command, and the URL's limit for connecting.
            socket_connect_timeout=min(timeout, self.connect_timeout or timeout),
            retry=retry,
            **anonymous(),
        )
        if answered is not None:
            connection.login_version = answered[1]
        return connection

    def connect(self, timeout: float) -> Any:
        """Return a connected and authenticated redis-py connection.

        Raises:
            ServerUnavailableError: no connection within about *timeout* seconds.
        """
        try:
            return self._connect(timeout)
        except ServerUnavailableError as error:
            if self.login is None or error.code != "WRONGPASS":
                raise
        return self._connect(timeout)  # the credentials may have changed just now

    def _connect(self, timeout: float) -> Any:
        if self._prepare is not None:
            _ = self._prepare()
        answered = None
        if self._plain:
            limit = min(timeout, self.connect_timeout or timeout)
            connection: Any = PlainConnection(self._kwargs, timeout, limit)
        else:
            answered = None if self.login is None else self.login.now()
            connection = self._new(redis_py().sync, redis_py().once(), timeout, answered)
        self.opening(connection, None)
        try:
            connection.connect()
        except BaseException as error:
            connection.disconnect()
            if not isinstance(error, Exception) or isinstance(error, InterlockError):
                raise
            # Any error: a credential provider of the user's may raise anything.
            raise self._refused(error, answered) from error
        self.seen = True
        return connection

    def ask(self, connection: Any, *command: str) -> Any:
        """Return the reply to *command*; on an error, close the *connection* (of `connect`).

        Raises:
            ServerUnavailableError: the reply is an error, or the connection failed.
        """
        try:
            connection.send_command(*command)
            return connection.read_response()
        except Exception as error:
            connection.disconnect()
            raise self.unconnected(error) from error

    async def connect_async(self, timeout: float) -> Any:
        """Return a connected and authenticated redis.asyncio connection; errors as `connect`."""
        try:
            return await self._connect_async(timeout)
        except ServerUnavailableError as error:
            if self.login is None or error.code != "WRONGPASS":
                raise
        return await self._connect_async(timeout)

    async def _connect_async(self, timeout: float) -> Any:
        import asyncio  # noqa: PLC0415 - threads do without it

        if self._prepare is not None:
            _ = await asyncio.get_running_loop().run_in_executor(None, self._prepare)
        answered = None if self.login is None else await self.login.now_async()
        connection = self._new(redis_py().aio, redis_py().once_async(), timeout, answered)
        self.opening(connection, asyncio.get_running_loop())
        try:
            await connection.connect()
            if self.tls:  # as in `SettledTLS`
                await connection.send_command("PING")
                with suppress(redis_py().ResponseError):
                    await connection.read_response()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if not isinstance(error, Exception) or isinstance(error, InterlockError):
                raise
            raise self._refused(error, answered) from error
        self.seen = True
        return connection

    def _refused(
        self, error: Exception, answered: tuple[tuple[str, ...], int] | None
    ) -> ServerUnavailableError:
        """Return what *error* means for a caller that logged in with what was *answered*."""
        failure = self.unconnected(error)
        if self.login is not None and answered is not None and failure.code == "WRONGPASS":
            self.login.doubt(answered[1])
        return failure

    async def ask_async(self, connection: Any, *command: str) -> Any:
        """Return the reply to *command* on a *connection* made by `connect_async`.

        Errors as `ask`.
        """
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if not isinstance(error, Exception):
                raise
            raise self.unconnected(error) from error
