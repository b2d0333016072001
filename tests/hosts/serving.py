"""A real uvicorn for the applications of tests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from tests.support.servers import wait_until


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve *app* from a thread, and give its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, 20, "uvicorn serves")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
