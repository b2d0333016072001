"""One blocking connection: when it is logged in (`Dialled`), its socket is read and written here.

Theory. redis-py's command layer takes longer than the server needs for a script. A lock needs one
kind of command. So this file packs the command, writes it, and reads the reply: nothing else. If
possible, the socket stays in blocking mode with SO_RCVTIMEO (`exchange`). A Python socket time-out
would cost a poll() for every read.

Rules:

* A script is sent by `eval`, which is the fastest way for a single one, or by `begin` and `finish`.
  `batch` and `ask` consist of these two.
* A reply is read by the sender of its command, or the connection is closed. So nobody ever reads a
  reply to somebody else.
* After any error the connection is closed, unless the error is a reply of the server.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from interlock._links.exchange import encrypts, methods_for, send_all
from interlock._links.replies import left, maybe_tls, refusal
from interlock._links.resp import (
    ASKING,
    NO_REPLY,
    Attempt,
    ParserError,
    Replies,
    ReplyError,
    pack,
    pack_eval,
    pack_evalsha,
    without_spare,
)
from interlock._links.wait_command import WaitCommand
from interlock._traceback import passes_users
from interlock._version import __version__
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.dialled import Dialled
    from interlock._links.endpoint import Endpoint

_LIBRARY = (("SETINFO", "LIB-NAME", "interlock"), ("SETINFO", "LIB-VER", __version__))
TICK = 0.05
REFUSED_WAIT = 0.01
"""Seconds for which a refused caller waits for the answer of the replicas.

The connection can be used again only if that comes.
"""


class Connection:
    """A connection that one thread at a time uses.

    Args:
        endpoint: the server.
        timeout: seconds for connecting and logging in, and for replies until told otherwise.

    Attributes:
        replicas: how many were connected to the server when it was asked last.
        used: set when scripts succeed, so that who clears it sees whether it is used.
        name: its name in CLIENT LIST.
        meanwhile: called every `TICK` seconds while nothing comes, if it is not None; its errors are
            raised.
        owes: how many replies are still to come, so that nobody else may use the connection.

    Raises:
        ServerUnavailableError: no connection within about *timeout*.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self.where = endpoint.where
        self.moves = endpoint.moves
        self.meanwhile: Callable[[], None] | None = None
        self._known: set[str] = set()
        self.used = False
        self.name = ""
        self._wait_command: WaitCommand | None = None
        self._login = endpoint.login
        self._inner: Dialled = endpoint.connect(timeout)
        self._version: int = self._inner.login_version
        self._socket = cast("socket.socket", self._inner.sock)
        self._received = Replies()
        self._timeout, self._in_c = timeout, False
        self.replicas = self.owes = 0
        try:
            # Bound once: looking them up costs more than calling some of them.
            self._handle, self._ask, self._limit, self._in_c = methods_for(self._socket)
            self._limit(timeout)
        except OSError as error:  # it has ended already
            self.close()
            raise self._broken(error, sent=False) from error

    def set_timeout(self, seconds: float) -> None:
        """Make reads and writes fail after *seconds*.

        Raises:
            ServerUnavailableError: the connection has ended.
        """
        if seconds == self._timeout:
            return
        self._timeout = -1.0  # unknown, if a Ctrl-C comes now
        try:
            self._limit(seconds)
        except OSError as error:
            raise self._broken(error) from error
        self._timeout = seconds

    def eval(self, call: Eval[object], timeout: float) -> object:
        """Run *call* and return its reply.

        Raises:
            InterlockError: the meaning of the server's error, or ServerUnavailableError if there
                was no reply in *timeout* seconds.
        """
        if timeout != self._timeout:
            self.set_timeout(timeout)
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
            reply = self._read()
        except (OSError, ParserError) as error:
            raise self._broken(error) from error
        self.owes = 0
        if isinstance(reply, ReplyError):
            self._wait_command = None
            finals = self._finals([call], [reply], timeout)
            reply = finals.pop()
            if isinstance(reply, InterlockError):
                try:
                    raise reply
                finally:
                    del reply  # this frame and its error would keep each other alive
        self.used = self._endpoint.served = True
        return reply

    @property
    def served(self) -> bool:
        """Return whether the server has executed scripts for this client."""
        return self._endpoint.served

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def batch(self, calls: Sequence[Eval[object]], timeout: float) -> list[object]:
        """Run *calls* in one write.

        Return each one's reply or `InterlockError`. If nothing was granted, the answer of the
        replicas may still be to come.

        Args:
            calls: the scripts.
            timeout: seconds of silence after which the connection counts as dead.

        Raises:
            ServerUnavailableError: the connection failed before the last reply was read.
        """
        self.begin(calls, timeout)
        return self.finish(calls, timeout)

    def ask(self, calls: Sequence[Eval[object]], timeout: float) -> list[object]:
        """Run the one of *calls* on a node that is just taking over its slot; as `batch`."""
        self.set_timeout(timeout)
        # The text goes with it: to send it later, the node must be asked (ASKING) again.
        [call] = calls
        self._write([ASKING, pack_eval(without_spare(call)), *self._inquire(calls)])
        [asked] = self._replies(1, timeout)
        replies = self.finish(calls, timeout)
        return [refusal(str(asked), call, self.where)] if isinstance(asked, ReplyError) else replies

    def begin(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """Send *calls*; `finish` reads the replies. Arguments and errors as `batch`."""
        self.set_timeout(timeout)
        packed: list[bytes] = []
        for call in calls:
            # A WAIT may not be followed by the server's question for the text.
            if call.replication is not None and call.script.sha not in self._known:
                self._known.add(call.script.sha)
                packed.append(pack_eval(call))
            else:
                packed.append(pack_evalsha(call))
        self._write(packed + self._inquire(calls))

    def finish(self, calls: Sequence[Eval[object]], timeout: float) -> list[object]:
        """Return the replies to *calls*; arguments and errors as `batch`."""
        replies = self._replies(len(calls), timeout)
        if not any(isinstance(reply, ReplyError) for reply in replies):
            self.used = self._endpoint.served = True
            if self._wait_command is None:
                return replies
        answers = self._finals(calls, replies, timeout)
        if self._wait_command is not None:
            self._confirm(self._wait_command, answers, timeout)
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
        attempts = [Attempt(call, self._endpoint.refused) for call in calls]
        while True:
            sent = [attempt.again(reply) for attempt, reply in zip(attempts, replies, strict=True)]
            again = {place: packed for place, packed in enumerate(sent) if packed is not None}
            if not again:
                break
            if self._wait_command is not None:
                _ = self._answers(self._wait_command, timeout)
            self.set_timeout(timeout)
            self._write([*again.values(), *self._inquire(calls)])
            for place, answer in zip(again, self._replies(len(again), timeout), strict=True):
                replies[place] = answer
        return [
            refusal(str(reply), call, self.where, moves=self.moves, served=self.served)
            if isinstance(reply, ReplyError)
            else reply
            for call, reply in zip(calls, replies, strict=True)
        ]

    def _inquire(self, calls: Sequence[Eval[object]]) -> list[bytes]:
        """Return the commands that ask the replicas about *calls*, if that is wanted."""
        self._wait_command = None
        if all(call.replication is None for call in calls):
            return []
        self._wait_command = WaitCommand(calls, self)
        return self._wait_command.commands()

    def _answers(self, wait_command: WaitCommand, timeout: float) -> list[object]:
        return self._replies(wait_command.answers, wait_command.timeout + timeout)

    def _confirm(self, wait_command: WaitCommand, replies: list[object], timeout: float) -> None:
        """Wait for the replicas; put an error in place of each grant that they do not confirm."""
        if not wait_command.grants(replies):
            # The answer comes at once unless replicas lag behind what others wrote.
            with suppress(ServerUnavailableError):
                _ = self._replies(wait_command.answers, REFUSED_WAIT)
            return
        while not wait_command.heard(self._answers(wait_command, timeout)):
            self._write(wait_command.commands())
        wait_command.conclude(replies)

    def _write(self, commands: list[bytes]) -> None:
        self.owes = len(commands)
        try:
            self._send_all(b"".join(commands))
        except OSError as error:
            raise self._broken(error) from error

    def _send_all(self, data: bytes) -> None:
        if self._in_c:
            send_all(self._socket, data, self._timeout)
        else:
            self._socket.sendall(data)

    def _replies(self, count: int, timeout: float) -> list[object]:
        replies: list[object] = []
        silent_for, meanwhile = 0.0, self.meanwhile
        self.set_timeout(timeout if meanwhile is None else min(timeout, TICK))
        try:
            while len(replies) < count:
                try:
                    replies.append(self._read())
                except (BlockingIOError, TimeoutError):
                    silent_for += self._timeout
                    if meanwhile is None or silent_for >= timeout:
                        raise
                    meanwhile()
                else:
                    silent_for = 0.0
                    self.owes -= 1
        except (OSError, ParserError) as error:
            raise self._broken(error, timeout) from error
        return replies

    def send(self, *parts: str | int) -> None:
        """Send one command; somebody else reads its reply (on a subscriber's connection).

        Raises:
            ServerUnavailableError: the connection failed.
        """
        try:
            self._send_all(pack(parts))
        except OSError as error:
            raise self._broken(error) from error

    def message(self, seconds: float) -> object:
        """Return the next reply or message; None if none comes in *seconds*.

        Raises:
            ServerUnavailableError: the connection has ended.
        """
        try:
            self.set_timeout(seconds)
            return self._read()
        except (BlockingIOError, TimeoutError):
            return None
        except (OSError, ParserError) as error:
            raise self._broken(error) from error

    def log_in_anew(self) -> bool:
        """Log in with the newest credentials, unless this connection did.

        If the server refuses them, the connection keeps the former ones. Return False if it failed.
        """
        login = self._login
        if login is None or self._version == login.version:
            return True
        version = login.version
        try:
            [reply] = self.exchange([login.command()], self._timeout)
        except ServerUnavailableError:
            return False
        if isinstance(reply, ReplyError):
            login.refused(refusal(str(reply), None, self.where))
        else:
            self._version = version
        return True

    def exchange(self, commands: list[bytes], timeout: float) -> list[object]:
        """Send packed *commands* in one write; return the replies, the server's errors among them.

        Raises:
            ServerUnavailableError: the connection failed, or was silent for *timeout* seconds.
        """
        self.set_timeout(timeout)
        self._write(commands)
        return self._replies(len(commands), timeout)

    def call(self, name: str, timeout: float) -> bool:
        """Be shown as *name* in CLIENT LIST; return False without the right to do that."""
        self.name = name
        # Errors are ignored: servers before Redis 7.2 do not know SETINFO.
        commands = (("SETNAME", name), *_LIBRARY)
        replies = self.exchange([pack(("CLIENT", *command)) for command in commands], timeout)
        return not isinstance(replies[0], ReplyError)

    def shutdown(self) -> None:
        """End the connection for a thread that reads from it."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already, as intended

    def close(self) -> None:
        """Close; doing it twice changes nothing."""
        self._inner.disconnect()

    def _read(self) -> object:
        reply = self._received.gets()
        deadline = 0.0
        while reply is False:
            data: Any = self._ask(self._handle, b"", self._timeout)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._received.feed(data)
            reply = self._received.gets()
            # A reply that never ends must time out, too.
            now = monotonic()
            deadline = deadline or now + self._timeout
            if reply is False and now > deadline:
                raise TimeoutError
        return reply

    def _broken(
        self, error: Exception, timeout: float | None = None, *, sent: bool = True
    ) -> InterlockError:
        """Return what *error* means for a caller."""
        if self._in_c and passes_users(error.__traceback__):
            raise error  # a signal handler raised it: a blocking socket calls nobody's code
        timed_out = isinstance(error, BlockingIOError | TimeoutError)
        what = f"no reply in {timeout or self._timeout:g} s" if timed_out else str(error)
        if not self.served and what == NO_REPLY:
            return ServerUnavailableError(
                f"{self.where} is not a Redis server: another program answers at this port"
            )
        if not self.served and not encrypts(self._socket):
            what += maybe_tls(error)
        what = f"lost the connection to {self.where}: {what}"
        return ServerUnavailableError(what, sent=sent, transient=True)
