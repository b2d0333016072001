"""One connection through the proxy: which reply belongs to which request, and what becomes of both.

Rules:

* A request is recorded in the moment it is read, its fault is chosen when its turn comes to pass.
  All that arrive between two replies are one burst.
* Replies come in the order of the requests. ``SUBSCRIBE`` and its kind are answered once for each
  channel, and an error answers the whole. Messages and other pushes answer nothing. RESP3 marks
  them; in RESP2 they are arrays, told by their first word, on a connection that is subscribed.
* Whatever the fault, the client's hanging up is noticed, after a delay at the latest, and ends both
  sides. Once nothing is relayed to the client any more, the server's hanging up is not, either.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from interlock._links.resp import Replies

if TYPE_CHECKING:
    from tests.support.faults import Action, Script

_CHUNK = 65536
_MESSAGES = frozenset({b"message", b"pmessage", b"smessage"})
_SUBSCRIPTION = re.compile(rb"([ps]?)(un)?subscribe")
# Kinds of RESP frames, by their first byte.
_LINES = frozenset(b"+-:_#,(")
_BULKS = frozenset(b"$=!")
_AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
_ATTRIBUTE = ord("|")


@dataclass(slots=True)
class _Pending:
    """A request that the server has still to answer."""

    name: bytes
    replies: int
    fault: str | None
    seconds: float
    surplus: bool = False


class Relay:
    """Passes the bytes of one connection on, request by request and reply by reply."""

    def __init__(
        self,
        number: int,
        script: Script,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._number = number
        self._script = script
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._pending: deque[_Pending] = deque()
        self._channels: dict[bytes, set[bytes]] = {b"": set(), b"p": set(), b"s": set()}
        self._resp3 = False
        self._new_burst = True
        self._forwarding = self._relaying = True
        self._ending = False
        self._with_reset = False

    async def run(self) -> None:
        """Relay until either side hangs up or a fault ends the connection.

        Raises:
            ValueError: One side did not speak RESP.
        """
        directions = [
            asyncio.create_task(self._pass_requests()),
            asyncio.create_task(self._pass_replies()),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in directions:
                task.cancel()
            outcomes = await asyncio.gather(*directions, return_exceptions=True)
        for outcome in outcomes:
            # OSError: a side that hung up in the middle, which is an ordinary end.
            if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
                raise outcome
        await self._close()

    async def _close(self) -> None:
        if self._with_reset:
            raw = cast("socket.socket", self._to_client.get_extra_info("socket"))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._to_client.transport.abort()
        for writer in (self._to_client, self._to_server):
            writer.close()
        for writer in (self._to_client, self._to_server):
            with contextlib.suppress(OSError):  # the other side was faster
                await writer.wait_closed()

    async def _pass_requests(self) -> None:
        frames = FrameBuffer()
        while data := await self._from_client.read(_CHUNK):
            requests = [(frame, _words(frame)) for frame in frames.feed(data)]
            for _frame, args in requests:
                self._script.saw_request(self._number, args, new_burst=self._new_burst)
                self._new_burst = False
            for frame, args in requests:
                if self._forwarding:
                    await self._pass_request(frame, args, self._script.choose(args))
            if self._ending and not self._pending:
                return

    async def _pass_request(self, frame: bytes, args: list[bytes], action: Action | None) -> None:
        fault = action.kind if action is not None else None
        seconds = action.seconds if action is not None else 0.0
        if fault == "delay":
            await _lag(seconds)
        elif fault in ("drop_request", "reset"):
            # The replies under way come first. Then the task that passes the last one hangs up.
            self._forwarding = False
            self._ending = True
            self._with_reset = fault == "reset"
            return
        elif fault == "blackhole":
            self._forwarding = self._relaying = False
            return
        elif fault == "drop_reply":
            self._forwarding = False
        name = args[0].lower()
        self._pending.append(_Pending(name, self._count_replies(name, args[1:]), fault, seconds))
        if fault == "duplicate":
            again = self._count_replies(name, args[1:])
            self._pending.append(_Pending(name, again, None, 0.0, surplus=True))
            frame += frame
        self._to_server.write(frame)
        await self._to_server.drain()

    def _count_replies(self, name: bytes, channels: list[bytes]) -> int:
        subscription = _SUBSCRIPTION.fullmatch(name)
        if subscription is None:
            return 1
        kind, unsubscribes = subscription.groups()
        subscribed = self._channels[kind]
        if not unsubscribes:
            subscribed.update(channels)
            return len(channels)
        leaving = channels or list(subscribed)
        subscribed.difference_update(leaving)
        return max(1, len(leaving))

    async def _pass_replies(self) -> None:
        frames = FrameBuffer()
        while data := await self._from_server.read(_CHUNK):
            for frame in frames.feed(data):
                await self._pass_reply(frame)
                if self._ending and not self._pending:
                    return
        if not self._relaying:
            await asyncio.get_running_loop().create_future()  # until the client hangs up

    async def _pass_reply(self, frame: bytes) -> None:
        pushed = self._push_kind(frame)
        if pushed in _MESSAGES and self._script.drop_messages:
            return
        answered = self._answered_by(frame, pushed)
        if answered is None:
            await self._relay(frame)
            return
        if answered.fault == "drop_reply":
            self._ending = True
            self._pending.clear()
            return
        if answered.fault == "swallow_reply":
            self._relaying = False
        elif answered.fault == "delay_reply":
            await _lag(answered.seconds)
            answered.seconds = 0.0  # once for all channels of a SUBSCRIBE
        if not answered.surplus:
            await self._relay(frame)
            self._new_burst = True

    def _push_kind(self, frame: bytes) -> bytes | None:
        """Return the first word of a frame that need not be a reply, else None."""
        if frame.startswith(b">"):
            self._resp3 = True
            return _words(frame)[0]
        listens = any(self._channels.values()) or any(
            _SUBSCRIPTION.fullmatch(pending.name) for pending in self._pending
        )
        if self._resp3 or not listens or not frame.startswith(b"*"):
            return None
        word = _words(frame)[0]
        # Anything else, as the RESP2 PONG of a subscribed connection, is a reply.
        return word if word in _MESSAGES or _SUBSCRIPTION.fullmatch(word) else None

    def _answered_by(self, frame: bytes, pushed: bytes | None) -> _Pending | None:
        if not self._pending or (pushed is not None and pushed != self._pending[0].name):
            return None
        first = self._pending[0]
        first.replies -= 1
        if first.replies == 0 or frame.startswith(b"-"):
            self._pending.popleft()
        return first

    async def _relay(self, frame: bytes) -> None:
        if self._relaying:
            self._to_client.write(frame)
            await self._to_client.drain()


async def _lag(seconds: float) -> None:
    await asyncio.sleep(seconds)  # a slow network


def _words(frame: bytes) -> list[bytes]:
    """Return the items of an array or push that begins with a word.

    Raises:
        ValueError: It does not.
    """
    replies = Replies()
    # A push has the shape of an array. Our parser speaks RESP2 alone.
    replies.feed(b"*" + frame[1:] if frame.startswith(b">") else frame)
    words: object = replies.gets()
    if not isinstance(words, list) or not words or not isinstance(words[0], bytes):
        raise ValueError(f"not a request or message: {frame[:80]!r}")
    return cast("list[bytes]", words)


class FrameBuffer:
    """Collects what arrives and gives it back frame by frame.

    hiredis parses frames but does not tell where they end, and a proxy must pass on the very bytes.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add *data* and return the frames that are complete now.

        Raises:
            ValueError: This is not RESP; inline commands are not taken either.
        """
        self._data += data
        frames: list[bytes] = []
        start = 0
        while (end := _frame_end(self._data, start)) is not None:
            frames.append(bytes(self._data[start:end]))
            start = end
        del self._data[:start]
        return frames


def _frame_end(data: bytearray, start: int) -> int | None:
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, end = data[start], line_end + 2
    if kind in _LINES:
        return end
    if kind in _BULKS:
        size = int(data[start + 1 : line_end])
        if size >= 0:  # -1: null
            end += size + 2
        return end if end <= len(data) else None
    if kind not in _AGGREGATES:
        raise ValueError(f"not a RESP frame: {bytes(data[start : start + 40])!r}")
    items = int(data[start + 1 : line_end]) * _AGGREGATES[kind]
    if kind == _ATTRIBUTE:  # and the reply that it describes
        items += 1
    for _ in range(items):
        next_end = _frame_end(data, end)
        if next_end is None:
            return None
        end = next_end
    return end
