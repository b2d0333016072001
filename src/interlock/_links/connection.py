"""One blocking connection: when it is logged in (`Dialled`), its socket is read and written here.

Theory. redis-py's command layer takes longer than the server needs for a script. A lock needs one
kind of command. So this file packs the command, writes it, and reads the reply: nothing else.

Rules:

* A script is sent by `eval`, which is the fastest way for a single one, or by `begin` and `finish`.
  `batch` consists of these two.
* A reply is read by the sender of its command, or the connection is closed. So nobody ever reads a
  reply to somebody else.
* After any error the connection is closed, unless the error is a reply of the server.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from interlock._links.exchange import ask_in_python, encrypts, way_to
from interlock._links.replies import FULL, left, maybe_tls, refusal, returned
from interlock._links.resp import (
    ASKING,
    NO_REPLY,
    ParserError,
    Replies,
    ReplyError,
    again,
    pack,
    pack_evalsha,
    send_texts,
    without_spare,
)
from interlock._links.wait_command import confirm, patience, questions
from interlock._traceback import passes_users
from interlock._version import __version__
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.dialled import Dialled
    from interlock._links.endpoint import Endpoint

_LIBRARY = (("SETINFO", "LIB-NAME", "interlock"), ("SETINFO", "LIB-VER", __version__))


class Connection:
    """A connection that one thread at a time uses.

    What uses it raises ServerUnavailableError if it fails, or is silent for too long.

    Args:
        endpoint: the server.
        timeout: seconds for connecting and logging in.

    Attributes:
        used: set when scripts succeed, so that who clears it sees whether it is used.
        name: its name in CLIENT LIST.
        replicas: how many were connected to the server when it was asked last.
        owes: how many replies are still to come, so that nobody else may use the connection.
        lost: whether it is, or leads to a former primary, as others to the same server then do.

    Raises:
        ServerUnavailableError: no connection within about *timeout*.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self.where = endpoint.where
        self.used = self.lost = False
        self.name = ""
        self._login, self._timeout = endpoint.login, timeout
        self._inner: Dialled = endpoint.connect(timeout)
        self._version: int = self._inner.login_version
        connected = self._inner.sock
        if connected is None:  # another primary was announced
            raise endpoint.unconnected(ConnectionResetError("it was closed"))
        self._socket = connected
        self._received = Replies()
        self.replicas = self.owes = 0
        self._handle, self._ask = way_to(connected)

    def eval(self, call: Eval[object], timeout: float) -> object:
        """Run *call*; return its reply, or raise the `InterlockError` that the server's error means."""
        packed = call.packed or pack_evalsha(call)
        self.owes = 1
        # Bound first: Python 3.11 is slow to call attributes that are not methods.
        ask = self._ask
        try:
            reply: Any = ask(self._handle, packed, timeout)
            if reply.__class__ is not bytes:
                self.owes = 0
                if not self.used:
                    self.used = self._endpoint.served = True
                return reply
            self._received.feed(reply)
            reply = self._read(timeout)
        except (OSError, ParserError) as error:
            raise self._broken(error, timeout) from error
        self.owes = 0
        if isinstance(reply, ReplyError):
            reply = returned(*self._finals([call], [reply], timeout))
        self.used = self._endpoint.served = True
        return reply

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def batch(
        self, calls: Sequence[Eval[object]], timeout: float, *, asking: bool = False
    ) -> list[object]:
        """Run *calls* in one write; return each one's reply or `InterlockError`.

        Args:
            calls: the scripts.
            timeout: seconds of silence after which the connection counts as dead.
            asking: whether the node is just taking over their slot.
        """
        if asking:
            [told] = self.exchange([ASKING], timeout)  # else the script is redirected again
            if isinstance(told, ReplyError):
                return [self.refusal(str(told), call) for call in calls]
            # The text goes with it: to send it later, the node must be asked again.
            calls = [without_spare(call.anew()) for call in calls]
            send_texts(calls)
        self.begin(calls, timeout)
        return self.finish(calls, timeout)

    def begin(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """Send *calls*; `finish` reads the replies. Arguments as `batch`."""
        asked = questions(self, calls)
        if asked and not self.used:
            # If the server asks for the text, the WAIT has nothing to wait for, but lasts.
            calls = [call.anew() for call in calls]
            send_texts(calls)
        self._write([pack_evalsha(call) for call in calls] + asked, timeout)

    def finish(self, calls: Sequence[Eval[object]], timeout: float) -> list[object]:
        """Return the replies to *calls*; arguments as `batch`."""
        answers, asked = self.replies(len(calls), timeout), questions(self, calls)
        if not any(isinstance(answer, ReplyError) for answer in answers):
            self.used = self._endpoint.served = True
        else:
            if asked:
                _ = self.replies(len(asked), patience(calls) + timeout)
            answers = self._finals(calls, answers, timeout)
            if asked:
                self._write(asked, timeout)
        if asked:
            confirm(self, calls, answers, timeout)
        for answer in answers:
            if isinstance(answer, ServerUnavailableError) and left(answer):
                # Calls before the demotion may have been executed.
                answer.sent = answer.sent or len(calls) > 1
                raise answer
        return answers

    def _finals(
        self, calls: Sequence[Eval[object]], replies: list[object], timeout: float
    ) -> list[object]:
        """Send *calls* again until their *replies* are final; return each one's or its error."""
        current, refused = list(calls), self._endpoint.refused
        while True:
            both = enumerate(zip(current, replies, strict=True))
            found = [(place, again(call, reply, refused)) for place, (call, reply) in both]
            more = [(place, call) for place, call in found if call is not None]
            if not more:
                break
            answers = self.exchange([pack_evalsha(call) for _, call in more], timeout)
            for (place, call), answer in zip(more, answers, strict=True):
                current[place], replies[place] = call, answer
        return [
            self.refusal(str(reply), call) if isinstance(reply, ReplyError) else reply
            for call, reply in zip(calls, replies, strict=True)
        ]

    def refusal(self, text: str, call: Eval[object]) -> InterlockError:
        """Return the error for a caller when the server answered *call* with the error *text*."""
        moves, served = self._endpoint.moves, self._endpoint.served
        error = refusal(text, call, self.where, moves=moves, served=served)
        self.lost = self.lost or left(error)
        # A server that has no room for another client closes this connection, and no other.
        if self.lost or getattr(error, "code", None) == FULL:
            self.owes += 1
        return error

    def _write(self, commands: list[bytes], timeout: float) -> None:
        self.owes += len(commands)
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(b"".join(commands))
        except OSError as error:
            raise self._broken(error, timeout) from error

    def replies(self, count: int, timeout: float) -> list[object]:
        """Return the next *count* replies."""
        replies: list[object] = []
        try:
            while len(replies) < count:
                replies.append(self._read(timeout))
                self.owes -= 1
        except (OSError, ParserError) as error:
            raise self._broken(error, timeout) from error
        return replies

    def skip(self, count: int, seconds: float) -> None:
        """Drop the next *count* replies; if one does not come in *seconds*, it remains owed."""
        while count and self.message(seconds) is not None:
            self.owes, count = self.owes - 1, count - 1

    def send(self, *parts: str | int) -> None:
        """Send one command; somebody else reads its reply (on a subscriber's connection)."""
        try:
            self._socket.sendall(pack(parts))
        except OSError as error:
            raise self._broken(error, self._timeout) from error

    def message(self, seconds: float) -> object:
        """Return the next reply or message; None if none comes in *seconds*."""
        try:
            return self._read(seconds)
        except (BlockingIOError, TimeoutError):
            return None
        except (OSError, ParserError) as error:
            raise self._broken(error, seconds) from error

    def log_in_anew(self) -> None:
        """Log in with the newest credentials, unless this connection did.

        If the server refuses them, the connection keeps the former ones.
        """
        login = self._login
        if login is None or self._version == login.version:
            return
        version = login.version
        with suppress(ServerUnavailableError):  # it is lost
            [reply] = self.exchange([login.command()], self._timeout)
            if isinstance(reply, ReplyError):
                login.refused(refusal(str(reply), None, self.where))
            else:
                self._version = version

    def exchange(self, commands: list[bytes], timeout: float) -> list[object]:
        """Send packed *commands* in one write; return the replies, the server's errors among them."""
        self._write(commands, timeout)
        return self.replies(len(commands), timeout)

    def call(self, name: str, timeout: float) -> bool:
        """Be shown as *name* in CLIENT LIST; return False without the right to do that."""
        self.name = name
        # Errors are ignored: servers before Redis 7.2 do not know SETINFO.
        commands = (("SETNAME", name), *_LIBRARY)
        replies = self.exchange([pack(("CLIENT", *command)) for command in commands], timeout)
        return not isinstance(replies[0], ReplyError)

    def shutdown(self) -> None:
        """End the connection for a thread that reads from it."""
        with suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close; doing it twice changes nothing."""
        self._inner.disconnect()

    def _read(self, timeout: float) -> object:
        deadline = monotonic() + timeout
        while (reply := self._received.gets()) is False:
            if monotonic() > deadline:  # it never ends
                raise TimeoutError
            data: Any = self._ask(self._handle, b"", timeout)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._received.feed(data)
        return reply

    def _broken(self, error: Exception, timeout: float) -> InterlockError:
        """Return what *error* means for a caller; the connection is lost."""
        self.lost = True
        if self._ask is not ask_in_python and passes_users(error.__traceback__):
            raise error  # a signal handler raised it
        timed_out = isinstance(error, BlockingIOError | TimeoutError)
        what = f"no reply in {timeout:g} s" if timed_out else str(error)
        if not self._endpoint.served and what == NO_REPLY:
            return ServerUnavailableError(
                f"{self.where} is not a Redis server: another program answers at this port"
            )
        if not self._endpoint.served and not encrypts(self._socket):
            what += maybe_tls(error)
        what = f"lost the connection to {self.where}: {what}"
        return ServerUnavailableError(what, sent=True, transient=True)
