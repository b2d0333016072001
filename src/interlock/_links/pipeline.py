"""One asyncio connection that all tasks of a client share.

Commands that gather in a turn of the loop are written together, and answered in order.

Rules:

* Every command has a slot: a future, in the order of the commands. A task that stops waiting leaves
  the slot behind, and its reply is dropped when it comes. So nobody ever reads a reply to somebody
  else.
* If the server has nothing to do, a command is written at once. Otherwise commands gather. They are
  written when they are as many as the server still has to answer, or when the turn ends. A turn in
  which many tasks run is long, and the server should work meanwhile.
* If no answer comes for a command time-out, the connection is closed. Every slot gets an error.
* A Ctrl-C may strike at any line. Afterwards bytes, slots and replies may not belong together any
  more: then the next step ends the connection, or its timer does.

A thread connects and logs in; then its socket is given to this protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from interlock._core.model.foreign_text import safe
from interlock._links.exchange import CHUNK
from interlock._links.replies import FULL, TOO_MANY, error_code, left, maybe_tls, refusal
from interlock._links.resp import Replies, ReplyError, again, pack_evalsha
from interlock._links.shared import in_thread
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._links.dialled import Cipher, Dialled
    from interlock._links.endpoint import Endpoint
    from interlock._links.login import Login

    Then = Callable[[object], None]

FEW = 4
"""Fewer commands than this are not worth a write while the server has something to do."""
PAUSE = 0.01
"""Seconds between two looks whether the last commands are answered."""


class Pipeline(asyncio.BufferedProtocol):
    """An auto-pipelined connection; make it by `open`.

    Args:
        endpoint: the server.
        timeout: seconds without an answer after which it is dead.

    Attributes:
        dead: True when nothing can be sent any more.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self.where = endpoint.where
        self.dead = self._ended = False
        self._why = ""
        # What is received, and its first bytes, which are 0 unless a Ctrl-C came before all was
        # taken. Eight, because the middle of a reply or TLS record may begin with a few zeros.
        self._buffer = memoryview(bytearray(CHUNK))
        self._first = self._buffer[:8].cast("Q")
        self._sending = False
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._slots: deque[tuple[asyncio.Future[object], Then | None]] = deque()
        self._replies = Replies()
        self._came = 0
        self._out: list[bytes] = []
        self._check: asyncio.TimerHandle | None = None
        self._inner: Dialled | None = None
        self._cipher: Cipher | None = None
        self._login = endpoint.login
        self._version = 0
        self._transport: asyncio.Transport
        self._write: Callable[[bytes], object]
        self._read: Callable[[bytes], list[object]]

    @classmethod
    async def open(cls, endpoint: Endpoint, timeout: float) -> Pipeline:
        """Connect to *endpoint* within about *timeout* seconds, or raise ServerUnavailableError."""
        self = cls(endpoint, timeout)
        self._inner = inner = await in_thread(partial(endpoint.connect, timeout, for_loop=True))
        self._version, self._cipher, connected = inner.login_version, inner.cipher, inner.sock
        try:
            if connected is None:  # another primary was announced
                raise ConnectionResetError("it was closed")
            connected.setblocking(False)
            _ = await self._loop.create_connection(lambda: self, sock=connected)
        except OSError as error:
            raise endpoint.unconnected(error) from error
        if self._login is not None:
            self._login.follow(self)
        return self

    def log_in_anew(self) -> None:
        """Log in with the newest credentials, unless this connection did; from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and the connection with it
            self._loop.call_soon_threadsafe(self._log_in_anew)

    def _log_in_anew(self) -> None:
        login = self._login
        if not self.dead and login is not None and self._version != login.version:
            answered = partial(self._logged_in, login, login.version)
            self.send(login.command()).add_done_callback(answered)

    def _logged_in(self, login: Login, version: int, slot: asyncio.Future[object]) -> None:
        reply = slot.exception() or slot.result()
        if isinstance(reply, ReplyError):
            login.refused(refusal(str(reply), None, self.where))
        elif not isinstance(reply, BaseException):
            self._version = version

    async def eval(self, call: Eval[object], seconds: float) -> object:
        """Run *call*, which replicas need not confirm; return its reply.

        Wait for at most *seconds*, if that is less than the connection's time-out.

        Raises:
            InterlockError: the meaning of the server's error, or ServerUnavailableError if there
                was no reply.
        """
        reply = await self._within(seconds, self.send(call.packed or pack_evalsha(call)))
        if isinstance(reply, ReplyError):
            reply = await self.judged(call, reply, seconds)
        return reply

    async def judged(self, call: Eval[object], reply: object, seconds: float) -> object:
        """Return the outcome of *call* after its *reply*, or after the error in place of a reply.

        *call* may be sent `again`. Errors as `eval`.
        """
        if isinstance(reply, ServerUnavailableError):
            raise reply
        current, refused = call, self._endpoint.refused
        while (more := again(current, reply, refused)) is not None:
            current = more
            reply = await self._within(seconds, self.send(pack_evalsha(more)))
        if isinstance(reply, ReplyError):
            moves = self._endpoint.moves
            error = refusal(str(reply), call, self.where, moves=moves, served=self._endpoint.served)
            if left(error):
                self._die("its server is a replica now")
            raise error
        return reply

    async def finish(self) -> None:
        """Refuse new commands, and wait until those that were sent are answered or have failed.

        It may be repeated.
        """
        self._flush()
        self.dead = True
        until = self._loop.time() + self._timeout
        # A slot that was left is done before its answer comes.
        while self._slots:
            if self._loop.time() > until:  # the timer may need twice that
                self._die(f"no reply in {self._timeout:g} s")
            await asyncio.sleep(PAUSE)

    def send(
        self, packed: bytes, then: Then | None = None, more: bool = False
    ) -> asyncio.Future[object]:
        """Send *packed*; return the future of its reply.

        Args:
            packed: the command.
            then: called with the undecoded reply before the caller resumes. It is not called if
                the caller has gone, or no reply comes. It must not raise.
            more: whether it may wait for another command, to be written together with it.

        Raises:
            ServerUnavailableError: the connection is dead; nothing was sent.
        """
        if self._sending:
            self._check_whole()
        if self.dead:
            why = f": {self._why}" if self._why else ""
            message = f"lost the connection to {self.where}{why}"
            raise ServerUnavailableError(message, transient=True)
        if self._check is None:
            self._check = self._loop.call_later(self._timeout, self._check_alive, self._came)
        self._sending = True
        slots, out = self._slots, self._out
        # Not by the loop's own method: that takes longer.
        slot: asyncio.Future[object] = asyncio.Future(loop=self._loop)
        under_way = len(slots)
        slots.append((slot, then))
        if under_way or more:
            under_way -= len(out)
            if not out:
                self._loop.call_soon(self._flush)
            out.append(packed)
            gathered = len(out)
            self._sending = False
            if not more and (not under_way or (gathered >= FEW and gathered >= under_way)):
                self._flush()
        else:
            self._write(packed)
            self._sending = False
        return slot

    def _within(self, seconds: float, slot: asyncio.Future[object]) -> asyncio.Future[object]:
        """Make *slot*, of a command sent just now, fail after *seconds*; return it."""
        if seconds < self._timeout:
            self._flush()  # the server's time begins here: a crowded loop is not its fault
            timer = self._loop.call_later(seconds, self._fail, slot, f"no reply in {seconds:.3g} s")
            slot.add_done_callback(lambda _: timer.cancel())
        return slot

    def _flush(self) -> None:
        if self._sending or self._first[0]:
            self._check_whole()
        self._sending = True
        out, self._out = self._out, []
        if out and not self._ended:
            self._write(b"".join(out))
        self._sending = False

    def _check_whole(self) -> None:
        """End the connection if a Ctrl-C has struck: each later reply may be another's."""
        if self._sending or self._first[0]:
            self._die("it was interrupted")

    def _check_alive(self, answers_before: int) -> None:
        came = self._came
        self._check = self._loop.call_later(self._timeout, self._check_alive, came)
        if self._slots and answers_before == came:
            self._die(f"no reply in {self._timeout:g} s")
        if not self._slots:
            self._check.cancel()
            self._check = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what is written to."""
        self._transport = cast("asyncio.Transport", transport)
        self._write, self._read = write, read = self._transport.write, self._replies.read
        cipher = self._cipher
        if cipher is not None:
            self._write = lambda data: write(cipher.seal(data))
            self._read = lambda data: read(cipher.open(data))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to put what comes next."""
        del sizehint
        if self._sending or self._first[0]:
            self._check_whole()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Put each reply into the slot whose turn it is."""
        data = self._buffer[:nbytes].tobytes()
        try:
            replies, slots = self._read(data), self._slots
            self._came += len(replies)
            for reply in replies:
                slot, then = slots[0]
                if not slot.done():
                    if then is not None:
                        then(reply)
                    try:  # noqa: SIM105 - faster than `suppress`
                        slot.set_result(reply)
                    except asyncio.InvalidStateError:
                        pass  # a signal handler has cancelled it just now
                del slots[0]  # last: if a Ctrl-C strikes before, its waiter is told, too
            if self._replies.wrong:
                self._die(f"it answered nonsense: {self._replies.wrong}")
            served = self._endpoint.served
            if not served and any(not isinstance(reply, ReplyError) for reply in replies):
                self._endpoint.served = True
        except IndexError as error:
            # It came before any question.
            full = error_code(safe(data.decode(errors="replace"))) == FULL
            self._die(TOO_MANY if full else f"it answered nonsense: {error}")
        except OSError as error:  # of TLS
            self.connection_lost(error)
        self._first[0] = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Give every slot an error."""
        why = str(exc or "the server closed the connection")
        if not self._endpoint.served and self._cipher is None:
            why += maybe_tls(exc)
        self._die(why)

    def close(self) -> None:
        """Close the connection; waiters get an error."""
        self._die("the client closed it")

    def _die(self, why: str) -> None:
        """Close the connection and give every slot an error; it may be repeated."""
        if not self._ended:
            self._why = why
        self.dead = self._ended = True
        self._transport.abort()  # first: the loop then calls `connection_lost`, and so this again
        if self._login is not None:
            self._login.leave(self)
        while self._slots:
            self._fail(self._slots[0][0], self._why)
            del self._slots[0]
        if self._check is not None:
            self._check.cancel()

    def _fail(self, slot: asyncio.Future[object], why: str) -> None:
        """Tell who still waits for *slot* that its reply does not come, and *why*."""
        # A signal handler may cancel its task at any line, as asyncio's own handler does.
        with suppress(asyncio.InvalidStateError):
            slot.set_exception(
                ServerUnavailableError(
                    f"lost the connection to {self.where}: {why}", sent=True, transient=True
                )
            )
