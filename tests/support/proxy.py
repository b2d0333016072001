"""A proxy in front of a Redis server that loses, delays and repeats exactly what a test names.

```python
with FaultProxy(("127.0.0.1", server.port)) as proxy:
    proxy.on_request(command("EVALSHA", nth=1), drop_reply)
    ...  # a client of proxy.url() sees its first script executed and its connection gone
    assert proxy.fired
```

It runs in a thread of its own, so that threads, asyncio and other processes may all be clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from typing import TYPE_CHECKING, TypeVar

from tests.support.address import LOOPBACK, free_port, server_url
from tests.support.faults import (
    Action,
    Matcher,
    Request,
    Script,
    blackhole,
    command,
    delay,
    delay_reply,
    drop_reply,
    drop_request,
    duplicate,
    reset,
    swallow_reply,
)
from tests.support.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, Self

__all__ = [
    "Action",
    "FaultProxy",
    "Matcher",
    "Request",
    "blackhole",
    "command",
    "delay",
    "delay_reply",
    "drop_reply",
    "drop_request",
    "duplicate",
    "reset",
    "swallow_reply",
]

_T = TypeVar("_T")
_TIMEOUT = 10.0


class FaultProxy(Script):
    """Relays loopback TCP connections to a Redis server, by the script of a test.

    Without rules it only records. See `Script` for what it can tell.

    Attributes:
        port: Where it listens, once entered; it stays the same to the end.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        """Describe the proxy of the host and port *target*, without TLS; it starts on entering."""
        super().__init__()
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._listener: socket.socket | None = None
        self._open: dict[asyncio.Task[None], socket.socket] = {}
        self._connections = 0
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._listen())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up on everybody and end the thread.

        Raises:
            BaseExceptionGroup: Some connection did not carry RESP.
        """
        try:
            self._call(self._refuse())
            self._call(self._hang_up())
        finally:
            self._end()
        if self._errors:
            raise BaseExceptionGroup("connections that the proxy could not relay", self._errors)

    def url(self, db: int = 0, username: str | None = None, password: str | None = None) -> str:
        return server_url(self.port, db, username, password)

    def disconnect(self) -> None:
        """Close all connections that are open now; new ones are welcome."""
        self._call(self._hang_up())

    def stop_accepting(self) -> None:
        self._call(self._refuse())

    def start_accepting(self) -> None:
        self._call(self._listen())

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        while self._listener is None:
            port = self.port or free_port()
            try:
                self._listener = socket.create_server((LOOPBACK, port))
            except OSError as error:
                if self.port or error.errno != errno.EADDRINUSE:
                    raise
            else:
                self.port = port
                self._listener.setblocking(False)
                self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        self._listener = None

    async def _hang_up(self) -> None:
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone again
            return
        connection.setblocking(False)
        self._connections += 1
        task = self._loop.create_task(self._serve(self._connections, connection))
        # Whatever becomes of the task, even if it never runs, the callback closes the socket.
        self._open[task] = connection
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task).close()
        error = None if task.cancelled() else task.exception()
        # OSError: the target did not answer, and the client saw its connection closed.
        if error is not None and not isinstance(error, OSError):
            self._errors.append(error)

    async def _serve(self, number: int, connection: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            server = await asyncio.open_connection(*self._target)
            stack.callback(server[1].transport.abort)
            client = await asyncio.open_connection(sock=connection)
            stack.callback(client[1].transport.abort)
            await Relay(number, self, client, server).run()
