"""A server for unit tests that needs no server program: Redis' model, served on a loopback port.

```python
with FakeServer() as fake, interlock.connect(fake.url) as client, client.lock("orders:42"):
    ...
```

The client's own code runs: both faces, its connections, its Lua scripts, its messages. Only the
server is imitated. It is for tests that want locks to work. The faults of a network or a server are
for `tests.support.simulator`. It needs lupa: ``pip install interlock[testing]``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, cast

from interlock._links.resp import Replies
from interlock.testing._model_keyspace import OK, Status
from interlock.testing.redis_model import ModelError, RedisModel, Stored
from interlock.testing.strict import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from interlock.testing.redis_model import Reply

_TIMEOUT = 10.0
_LOOPBACK = "127.0.0.1"


class FakeServer:
    """One imitated server with one database, in a thread of its own.

    Threads, event loops and child processes may all be its clients. It speaks RESP2, as its URL
    tells redis-py, and takes any password.

    Args:
        strict: a service whose rules the server enforces, one of `interlock.testing.strict.MODES`.
            It refuses the scripts and commands that the service refuses.

    Attributes:
        url: where it is, once entered.

    Raises:
        LookupError: no mode has that name.
    """

    def __init__(self, *, strict: str | None = None) -> None:
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None  # one that is never run would leak
        self._connections: set[_Connection] = set()
        self._ahead = 0.0
        rules = self._rules = None if strict is None else Rules(strict)
        self._model = RedisModel(
            now=lambda: time.time() + self._ahead,
            on_publish=lambda channel, payload: self._publish(b"message", channel, payload),
            on_spublish=lambda channel, payload: self._publish(b"smessage", channel, payload),
            listeners=lambda channel: len(self._hearing(b"message", channel)),
            rules=rules,
        )

    def __enter__(self) -> Self:
        """Start listening."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="interlock-fake", daemon=True
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

    def clear(self) -> None:
        """Delete everything; holders are told at their next renewal."""
        self._call(lambda: self._model.execute("FLUSHALL"))

    def delete(self, *keys: str) -> None:
        """Delete *keys*, as an operator would; a holder is told at its next renewal."""
        self._call(lambda: self._model.execute("DEL", *keys))

    def advance(self, seconds: float) -> None:
        """Move the server's clock, and no other one, ahead by *seconds*: leases end there."""

        def advance() -> None:
            self._ahead += seconds

        self._call(advance)

    def stored(self) -> dict[str, Stored]:
        """Return a copy of all keys that have not expired."""
        found: dict[bytes, Stored] = {}
        self._call(lambda: found.update(self._model.dump()))
        return {key.decode(): value for key, value in found.items()}

    def _call(self, work: Callable[[], object]) -> None:
        """Do *work* in the server's thread, between two commands.

        Raises:
            RuntimeError: the server does not run.
        """
        if self._loop is None:
            raise RuntimeError("this server does not run: use it as a context manager")

        async def call() -> None:
            work()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(_TIMEOUT)

    async def _listen(self) -> int:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self._model, self._connections, self._rules), _LOOPBACK, 0
        )
        return cast("int", self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
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

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
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
