"""The server of the exporter: few threads, however many connect."""

from __future__ import annotations

import socket
import threading
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

MOST = 32
"""Scrapes at a time. Prometheus asks once in some seconds."""
PATIENCE = 5.0
"""Seconds for the next bytes of a request."""
ROOM = 1.0
"""Seconds that a connection waits for room before it is closed."""


class _Handler(WSGIRequestHandler):
    """Closes a connection that sends nothing, and logs nothing."""

    timeout = PATIENCE

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""


class Server(ThreadingMixIn, WSGIServer):
    """Answers up to `MOST` requests at a time, each in a thread."""

    daemon_threads = True

    def __init__(self, *args: Any, **how: Any) -> None:
        self._room = threading.BoundedSemaphore(MOST)
        super().__init__(*args, **how)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for *request*, or close it if there is no room."""
        if not self._room.acquire(timeout=ROOM):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can start
            self._room.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer *request*; it runs in the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that sent no request, or went away."""


def serve(host: str, port: int, app: WSGIApplication) -> tuple[Server, threading.Thread]:
    """Serve *app* in a thread; return the server, and the thread.

    Raises:
        OSError: it cannot listen there.
    """
    [family, *_], *_ = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound = type("BoundServer", (Server,), {"address_family": family})
    server: Server = make_server(host, port, app, bound, handler_class=_Handler)
    thread = threading.Thread(target=server.serve_forever, name="interlock-exporter", daemon=True)
    thread.start()
    return server, thread
