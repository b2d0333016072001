"""The model of Redis, served on a loopback port to clients that dial it.

```python
with ModelServer(strict="tair") as server, interlock.connect(server.url) as client:
    ...
```

The client's own code runs: both faces, its connections, its Lua scripts, its messages.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, cast

from interlock._links.resp import Replies
from tests.support.model.keyspace import OK, Status
from tests.support.model.redis_model import ModelError, RedisModel
from tests.support.model.strict import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from tests.support.model.redis_model import Reply

_TIMEOUT = 10.0
_LOOPBACK = "127.0.0.1"


class ModelServer:
    """One server with one database, in a thread of its own.

    It speaks RESP2, as its URL tells redis-py, and takes any password.

    Args:
        strict: a service whose rules the server enforces, one of `strict.MODES`. It refuses the
            scripts and commands that the service refuses.

    Attributes:
        url: where it is, once entered.

    Raises:
        LookupError: no mode has that name.
    """

    def __init__(self, *, strict: str | None = None) -> None:
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None  # one that is never run would leak
        self._connections: set[_Connection] = set()
        rules = self._rules = None if strict is None else Rules(strict)
        self._model = RedisModel(
            now=time.time,
            on_publish=lambda channel, payload: self._publish(b"message", channel, payload),
            on_spublish=lambda channel, payload: self._publish(b"smessage", channel, payload),
            listeners=lambda channel: len(self._hearing(b"message", channel)),
            rules=rules,
        )

    def __enter__(self) -> Self:
        """Start listening."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="model-server", daemon=True
        )
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self.url = f"redis://{_LOOPBACK}:{listening.result(_TIMEOUT)}/0?protocol=2"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up on everybody and end the thread."""
        loop, self._loop = self._loop, None
        assert loop is not None
        asyncio.run_coroutine_threadsafe(self._close(), loop).result(_TIMEOUT)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url or 'not started'}>"

    async def _listen(self) -> int:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self._model, self._connections, self._rules), _LOOPBACK, 0
        )
        return cast("int", self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        # Somebody may have dialled just now: a server that is closed would leave that socket open.
        while begun := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*begun)
        self._server.close()
        connections = tuple(self._connections)
        for connection in connections:
            connection.hang_up()
        await asyncio.gather(*(connection.gone for connection in connections))

    def _publish(self, kind: bytes, channel: bytes, payload: bytes) -> int:
        hearing = self._hearing(kind, channel)
        for connection in hearing:
            connection.tell(kind, channel, payload)
        return len(hearing)

    def _hearing(self, kind: bytes, channel: bytes) -> list[_Connection]:
        return [each for each in self._connections if channel in each.channels[kind]]


class _Connection(asyncio.Protocol):
    """One client: commands run as they arrive, and replies keep their order.

    Attributes:
        channels: what it has subscribed to, by kind of message.
        gone: done when the connection has ended.
    """

    def __init__(
        self, model: RedisModel, connections: set[_Connection], rules: Rules | None
    ) -> None:
        self._rules = rules
        self.channels: dict[bytes, set[bytes]] = {b"message": set(), b"smessage": set()}
        self._model = model
        self._connections = connections
        self._commands = Replies()
        self.gone = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self.gone.set_result(None)

    def hang_up(self) -> None:
        """End the connection without a word."""
        self._transport.abort()

    def tell(self, kind: bytes, channel: bytes, payload: bytes | int) -> None:
        """Send a message; it comes after all that was sent before."""
        self._transport.write(_encoded([kind, channel, payload]))

    def data_received(self, data: bytes) -> None:
        for command in self._commands.read(data):
            self._answer(cast("list[bytes]", command))
        if self._commands.wrong:
            self.hang_up()

    def _answer(self, command: list[bytes]) -> None:
        name, args = command[0].upper(), command[1:]
        if name in _SUBSCRIPTIONS:
            self._subscribe(name, args)
            return
        try:
            if name in _ABOUT_CONNECTIONS:
                if self._rules is not None:
                    self._rules.check_command(name.decode())
                reply = _ABOUT_CONNECTIONS[name](args)
            else:
                reply = self._model.execute(*command)
        except ModelError as error:
            reply = error
        self._transport.write(_encoded(reply))

    def _subscribe(self, name: bytes, channels: list[bytes]) -> None:
        kind, wanted = _SUBSCRIPTIONS[name]
        subscribed = self.channels[kind]
        for channel in channels or tuple(subscribed):
            (subscribed.add if wanted else subscribed.discard)(channel)
            self.tell(name.lower(), channel, len(subscribed))


def _encoded(reply: Reply) -> bytes:
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case Status():
            return b"+%s\r\n" % reply
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(reply), reply)
        case ModelError():
            return b"-%s\r\n" % str(reply).encode()
        case _:
            return b"*%d\r\n" % len(reply) + b"".join(map(_encoded, reply))


def _select(args: list[bytes]) -> Reply:
    if args != [b"0"]:
        raise ModelError("ERR DB index is out of range")
    return OK


def _hello(args: list[bytes]) -> Reply:
    if args and args[0] != b"2":
        raise ModelError("NOPROTO unsupported protocol version")
    return [b"server", b"redis", b"version", b"7.0.15", b"proto", 2]


def _ping(args: list[bytes]) -> Reply:
    return args[0] if args else Status(b"PONG")


def _client(args: list[bytes]) -> Reply:
    return 1 if args and args[0].upper() == b"ID" else OK


def _info(_args: list[bytes]) -> Reply:
    return b"redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\n"


_SUBSCRIPTIONS = {
    b"SUBSCRIBE": (b"message", True),
    b"UNSUBSCRIBE": (b"message", False),
    b"SSUBSCRIBE": (b"smessage", True),
    b"SUNSUBSCRIBE": (b"smessage", False),
}
_ABOUT_CONNECTIONS: dict[bytes, Callable[[list[bytes]], Reply]] = {
    b"AUTH": lambda _args: OK,
    b"CLIENT": _client,
    b"HELLO": _hello,
    b"INFO": _info,
    b"PING": _ping,
    b"SELECT": _select,
    b"WAIT": lambda _args: 0,
}
