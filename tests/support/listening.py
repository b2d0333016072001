"""A server that a test writes itself."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Generator[int]:
    """Serve each connection by *serve* in a thread; give the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=run, args=(server.accept()[0],), daemon=True).start()

        def run(sock: socket.socket) -> None:
            with suppress(OSError), sock:
                serve(sock)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
