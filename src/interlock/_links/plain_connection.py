"""A blocking connection to a plain address: TCP or a Unix socket, with a fixed user and password.

redis-py takes longer to load than a short program runs. So a plain address does without it. It is
used for TLS, changing credentials, Sentinel, Cluster, asyncio and special options.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from interlock._links.dialling import connect_to
from interlock._links.replies import error_code
from interlock._links.resp import Replies, ReplyError, pack

if TYPE_CHECKING:
    from collections.abc import Mapping

_CREDENTIALS = r"(?:(?P<username>[^:@/?#\[\]\s]*)(?::(?P<password>[^:@/?#\[\]\s]*))?@)?"
_TCP = re.compile(
    rf"redis://{_CREDENTIALS}(?P<host>[\w.-]+)(?::(?P<port>[1-9]\d{{0,3}}|[1-5]\d{{4}}))?"
    r"(?:/(?P<db>\d{1,5})?)?",
    re.ASCII,
)
_UNIX = re.compile(rf"unix://{_CREDENTIALS}(?P<path>/[^?#%\s]+)(?:\?db=(?P<db>\d{{1,5}}))?")
_AT_ONCE = 1 << 14
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Options of the socket, and their values; those that this system lacks are left out."""


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


def _login_words(user: str | None, password: str | None, db: int) -> list[tuple[str, ...]]:
    """Return the commands after which a new connection can be used; each answers OK."""
    commands: list[tuple[str, ...]] = []
    if user or password:
        commands.append(("AUTH", *([user] if user else []), password or ""))
    if db:
        commands.append(("SELECT", str(db)))
    return commands


class PlainConnection:
    """The connection; it has the methods of redis-py's that are used here.

    Args:
        given: what `read_plain_url` has returned, perhaps with another host and port.
        timeout: seconds for each reply.
        connect_timeout: seconds for connecting.
    """

    def __init__(self, given: Mapping[str, Any], timeout: float, connect_timeout: float) -> None:
        self._given = given
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._sock: socket.socket | None = None
        self._pid = os.getpid()
        self._received = Replies()

    def connect(self) -> None:
        """Connect and log in.

        Raises:
            OSError: there is no connection, or it ends.
            ReplyError: the server refuses the user, the password or the database.
            ParserError: this is no such server.
        """
        given = self._given
        self._sock = self._unix(given["path"]) if "path" in given else self._tcp()
        self._sock.settimeout(self._timeout)
        for words in _login_words(given.get("username"), given.get("password"), given.get("db", 0)):
            self.send_command(*words)
            try:
                _ = self.read_response()
            except ReplyError as error:
                raise _of_login(words[0], error) from None

    def _tcp(self) -> socket.socket:
        host, port = self._given.get("host", "localhost"), self._given.get("port", 6379)
        connected = connect_to(
            host,
            self._connect_timeout,
            lambda address, seconds: socket.create_connection((address, port), seconds),
        )
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connected

    def _unix(self, path: str) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(self._connect_timeout)
            connected.connect(path)
        except BaseException:
            connected.close()
            raise
        return connected

    def disconnect(self) -> None:
        """Close; doing it twice changes nothing. A forked child leaves the parent's open."""
        connected, self._sock = self._sock, None
        if connected is None:
            return
        if self._pid == os.getpid():
            with suppress(OSError):  # it has ended already
                connected.shutdown(socket.SHUT_RDWR)
        connected.close()

    def __del__(self) -> None:
        """Close, as redis-py's connections do: an interruption may drop one that is open."""
        with suppress(Exception):  # the interpreter may exit
            self.disconnect()

    def send_command(self, *words: str) -> None:
        """Send a command."""
        self._connected().sendall(pack(words))

    def read_response(self) -> object:
        """Return the next reply.

        Raises:
            ReplyError: it is an error.
            OSError, ParserError: as `connect`.
        """
        while (reply := self._received.gets()) is False:
            data = self._connected().recv(_AT_ONCE)
            if not data:
                raise ConnectionError("Connection closed by server.")
            self._received.feed(data)
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def _connected(self) -> socket.socket:
        if self._sock is None:
            raise ConnectionError("Connection closed by server.")
        return self._sock


def _of_login(command: str, error: ReplyError) -> ReplyError:
    """Return what the *error* of a *command* that logs in means."""
    uncoded = str(error).removeprefix("ERR ")
    if command == "SELECT":
        known = error_code(uncoded) == "DATABASE"
        return ReplyError(f"DATABASE {uncoded}" if known else uncoded)
    return ReplyError(f"WRONGPASS {uncoded}") if error_code(str(error)) == "ERR" else error
