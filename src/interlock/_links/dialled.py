"""A connection to a server, from its address to the login: all that both faces have in common.

It is made in a thread, which may wait. Threads go on with its socket. asyncio takes over the socket
from a thread of its own: so a loop that stands still delays no connection, and a server that hangs
no loop. With TLS asyncio also takes over the `Cipher`, because it cannot use Python's TLS socket.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from interlock._links.replies import error_code
from interlock._links.resp import Replies, ReplyError, pack
from interlock._links.shared import Shared, answer_of
from interlock.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

Address = tuple[str, int]
"""Host and port."""
LEAST = 0.01
"""Seconds that each address of a host has in any case."""
_AT_ONCE = 1 << 14
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Options of the socket, and their values; those that this system lacks are left out."""
_CLOSED = "Connection closed by server."
_VERIFY = {None: 0, "none": 0, "optional": 1, "required": 2}
"""The words for what is wanted of a certificate, and the numbers of `ssl.VerifyMode`."""

_resolving = Shared[list[str]]("interlock-resolver")


class Cipher:
    """TLS for bytes that others send and receive.

    Args:
        context: its settings.
        host: the name that the server's certificate must have.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        import ssl  # noqa: PLC0415 - it takes long

        self._wants = ssl.SSLWantReadError
        self._received, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sealed, server_hostname=host)

    def shake_hands(self, connected: socket.socket) -> None:
        """Agree with the server on a key; errors as of a TLS socket."""
        while True:
            try:
                self._tls.do_handshake()
            except self._wants:
                connected.sendall(self._sealed.read())
                data = connected.recv(_AT_ONCE)
                if not data:
                    raise ConnectionResetError(_CLOSED) from None
                self._received.write(data)
            else:
                connected.sendall(self._sealed.read())
                return

    def seal(self, data: bytes) -> bytes:
        """Return what to send in place of *data*."""
        self._tls.write(data)
        return self._sealed.read()

    def open(self, sealed: bytes) -> bytes:
        """Return what the server has sent as *sealed*, as far as it is whole."""
        self._received.write(sealed)
        parts: list[bytes] = []
        with suppress(self._wants):
            while part := self._tls.read(_AT_ONCE):
                parts.append(part)
        return b"".join(parts)


def context_of(given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the settings of TLS that *given* means, whose names are those of redis-py's options.

    Raises:
        ConfigError, ValueError, OSError: a setting is wrong, or a file is missing.
    """
    import ssl  # noqa: PLC0415 - it takes long

    context = ssl.create_default_context()
    mode = ssl.VerifyMode(verify_mode(given))
    context.check_hostname = bool(mode and given.get("ssl_check_hostname", True))
    context.verify_mode = mode
    for flag in given.get("ssl_include_verify_flags") or ():
        context.verify_flags |= flag
    for flag in given.get("ssl_exclude_verify_flags") or ():
        context.verify_flags &= ~flag
    if given.get("ssl_certfile") or given.get("ssl_keyfile"):
        context.load_cert_chain(
            given.get("ssl_certfile") or "",
            keyfile=given.get("ssl_keyfile"),
            password=given.get("ssl_password"),
        )
    authorities = [given.get(f"ssl_ca_{name}") or None for name in ("certs", "path", "data")]
    if any(authorities):
        context.load_verify_locations(*authorities)
    if given.get("ssl_min_version") is not None:
        context.minimum_version = given["ssl_min_version"]
    if given.get("ssl_ciphers"):
        context.set_ciphers(given["ssl_ciphers"])
    return context


def verify_mode(given: Mapping[str, Any]) -> int:
    """Return the number of `ssl.VerifyMode` that *given* means.

    Raises:
        ConfigError: it means none.
    """
    wanted = given.get("ssl_cert_reqs", "required")
    mode = wanted if isinstance(wanted, int) else _VERIFY.get(wanted)
    if mode is None:
        raise ConfigError(f"ssl_cert_reqs must be none, optional or required, not {wanted!r}")
    return int(mode)


class Dialled:
    """The connection.

    Attributes:
        sock: the socket, unless it is closed.
        cipher: what TLS takes, if an event loop will go on with the socket.
        login_version: that of the credentials, if they may change.
    """

    def __init__(self) -> None:
        self.sock: socket.socket | None = None
        self.cipher: Cipher | None = None
        self.login_version = 0
        self._pid = os.getpid()
        self._received = Replies()

    def connect(self, given: Mapping[str, Any], timeout: float, *, for_loop: bool = False) -> None:
        """Connect and log in.

        Args:
            given: the address, credentials and settings, by the names that redis-py gives them;
                ``ssl`` is True for TLS.
            timeout: seconds for each reply, and for connecting unless a setting is shorter.
            for_loop: whether an event loop will go on with the socket.

        Raises:
            OSError: there is no connection, or it ends.
            ReplyError: the server refuses the user, the password or the database.
            ParserError: this is no such server.
        """
        limit = min(timeout, given.get("socket_connect_timeout") or timeout)
        if "path" in given:
            self.sock = connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(limit)
            connected.connect(given["path"])
        else:
            self.sock = connected = _connected(given, limit)
        connected.settimeout(timeout)
        tls = bool(given.get("ssl"))
        if tls:
            context, (host, _) = context_of(given), address_of(given)
            if for_loop:
                self.cipher = Cipher(context, host)
                self.cipher.shake_hands(connected)
            else:
                self.sock = context.wrap_socket(connected, server_hostname=host)
        # With TLS 1.3 the server refuses our certificate only after the handshake.
        for words in _login_words(given) or [("PING",)] * tls:
            try:
                _ = self.ask(*words)
            except ReplyError as error:
                if words[0] != "PING":
                    raise _of_login(words[0], error) from None

    def disconnect(self) -> None:
        """Close; doing it twice changes nothing. A forked child leaves the parent's open."""
        connected, self.sock = self.sock, None
        if connected is None:
            return
        if self._pid == os.getpid():
            with suppress(OSError):  # it has ended already
                connected.shutdown(socket.SHUT_RDWR)
        connected.close()

    def __del__(self) -> None:
        """Close: an interruption may drop one that is open."""
        with suppress(Exception):  # the interpreter may exit
            self.disconnect()

    def ask(self, *words: str) -> object:
        """Send a command; return its reply.

        Raises:
            ReplyError: it is an error.
            OSError, ParserError: as `connect`.
        """
        connected, cipher = self.sock, self.cipher
        if connected is None:
            raise ConnectionError(_CLOSED)
        data = pack(words)
        connected.sendall(data if cipher is None else cipher.seal(data))
        while (reply := self._received.gets()) is False:
            data = connected.recv(_AT_ONCE)
            if not data:
                raise ConnectionError(_CLOSED)
            self._received.feed(data if cipher is None else cipher.open(data))
        if isinstance(reply, ReplyError):
            raise reply
        return reply


def address_of(given: Mapping[str, Any]) -> Address:
    """Return host and port."""
    return given.get("host", "localhost"), int(given.get("port", 6379))


def _connected(given: Mapping[str, Any], seconds: float) -> socket.socket:
    """Return a socket to the first address of the host that can be reached within *seconds*.

    No address may use up the share of the others.
    """
    (host, port), deadline = address_of(given), monotonic() + seconds
    addresses = _addresses(host, seconds)
    while True:
        address = addresses.pop(0)
        share = (deadline - monotonic()) / (len(addresses) + 1)
        try:
            connected = socket.create_connection((address, port), max(share, LEAST))
            break
        except OSError:
            if not addresses:
                raise
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if given.get("socket_keepalive") is not False:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options: Any = given.get("socket_keepalive_options")
        # redis-py's own clients have an object there that means its defaults.
        if not isinstance(options, dict):
            options = {getattr(socket, name, None): each for name, each in _KEEP_ALIVE.items()}
        for option, value in cast("dict[int | None, int]", options).items():
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
    return connected


def _addresses(host: str, seconds: float) -> list[str]:
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return [host]  # no name server is asked for that
    return answer_of(_resolving.begin(host, partial(_resolve, host)), seconds).copy()


def _resolve(host: str) -> list[str]:
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    # This also writes the interface behind an address that is good on one link only.
    return [socket.getnameinfo(each[4], numeric)[0] for each in found]


def _login_words(given: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the commands after which a connection can be used; each answers OK."""
    commands = list[tuple[str, ...]]()
    user, password = given.get("username"), given.get("password")
    if user or password:
        commands.append(("AUTH", *([_text(user)] if user else []), _text(password or "")))
    if given.get("client_name"):
        commands.append(("CLIENT", "SETNAME", given["client_name"]))
    if int(given.get("db") or 0):
        commands.append(("SELECT", str(given["db"])))
    return commands


def _text(word: object) -> str:
    """Return a part of the credentials, which redis-py takes as bytes too."""
    return word.decode() if isinstance(word, bytes) else cast("str", word)


def _of_login(command: str, error: ReplyError) -> ReplyError:
    """Return what the *error* of a *command* that logs in means."""
    uncoded = str(error).removeprefix("ERR ")
    if command == "SELECT":
        known = error_code(uncoded) == "DATABASE"
        return ReplyError(f"DATABASE {uncoded}" if known else uncoded)
    return ReplyError(f"WRONGPASS {uncoded}") if error_code(str(error)) == "ERR" else error
