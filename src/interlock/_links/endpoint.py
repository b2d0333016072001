"""The address of a server, and how to log in."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from interlock._links.dialled import Address, Dialled, address_of
from interlock._links.options import check, read_url
from interlock._links.replies import unconnected
from interlock._links.resp import ParserError, ReplyError
from interlock._links.topology import Topology
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock._links.login import Login


class Endpoint(Topology):
    """One server: its address, credentials and TLS settings.

    Args:
        given: the options, by the names that redis-py gives them.
        prepare: called before every connection; it may block.
        where: the name in messages, if that is not the address.

    Attributes:
        tls: whether connections are encrypted.
        by_path: whether it is reached by a Unix socket.
        embedded: whether this library runs it.
        max_connections: how many connections threads may share, when the URL gave it.
        opening: called with each connection before it connects.
        seen: True once a connection succeeded; from then on a failure is an outage rather than a
            mistake.
        served: True once a script succeeded; from then on it is an outage if a replica answers.
        refused: what the server refused for want of a right, and no call fails for: the events of the
            log, and the server's words. The upkeep takes it out.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        *,
        prepare: Callable[[], object] | None = None,
        where: str | None = None,
    ) -> None:
        self._prepare, self.embedded = prepare, prepare is not None
        self._given, self.by_path = dict(given), "path" in given
        self.tls = bool(given.get("ssl"))
        self.max_connections: int | None = given.get("max_connections")
        self.seen = self.served = False
        self.refused = dict[str, str]()
        self.opening: Callable[[Dialled], None] = lambda _: None
        host, port = self.address
        super().__init__(
            where or given.get("path", f"{host}:{port}"),
            int(given.get("db") or 0),
            given.get("socket_timeout"),
        )
        check(given, self.where)

    @classmethod
    def from_url(
        cls,
        url: str,
        shown: str | None = None,
        prepare: Callable[[], object] | None = None,
        **otherwise: Any,
    ) -> Self:
        """Return the server of a ``redis://``, ``rediss://`` or ``unix://`` URL.

        Args:
            url: the URL.
            shown: as for `read_url`.
            prepare: as for the class.
            otherwise: options that the URL may lack.

        Raises:
            ConfigError: the URL cannot be read, or has an unknown parameter.
        """
        return cls(otherwise | read_url(url, shown), prepare=prepare)

    def at(self, host: str, port: int) -> Endpoint:
        """Return another server of the same kind: credentials, TLS and time-outs are the same."""
        other = Endpoint({**self._given, "host": host, "port": port})
        other.seen = self.seen
        return other

    @property
    def login(self) -> Login | None:
        """What knows the credentials if they may change."""
        return self._given.get("credential_provider")

    @property
    def address(self) -> Address:
        """Host and port."""
        return address_of(self._given)

    def any_owner(self) -> Endpoint:
        return self

    def unconnected(self, error: Exception) -> ServerUnavailableError:
        """Return the error for a caller when *error* has prevented a connection."""
        return unconnected(error, self.where, seen=self.seen, tls=self.tls)

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        """Return a connection that is logged in; *for_loop* is as for `Dialled.connect`.

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
        given, login, connection = self._given, self.login, Dialled()
        if login is not None:
            answered, connection.login_version = login.now(timeout)
            words = dict(zip(("password", "username"), reversed(answered), strict=False))
            given = {**given, **words}
        self.opening(connection)
        try:
            with ExitStack() as stack:
                stack.callback(connection.disconnect)
                connection.connect(given, timeout, for_loop=for_loop)
                _ = stack.pop_all()
        except InterlockError:  # of a signal handler
            raise
        except Exception as error:
            failure = self.unconnected(error)
            if login is not None and failure.code == "WRONGPASS":
                login.doubt(connection.login_version)
            raise failure from error
        self.seen = True
        return connection

    def answer(self, timeout: float, *command: str) -> Any:
        """Return the reply to *command* on a connection of its own; errors as `connect`, `ask`."""
        connection = self.connect(timeout)
        reply = self.ask(connection, *command)
        connection.disconnect()
        return reply

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
