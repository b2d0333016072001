"""TLS in front of a test server whose binary has none: it decrypts and passes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import threading
import warnings
from concurrent.futures import Future
from typing import TYPE_CHECKING

from tests.support.address import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.certificates import Certificates

_CHUNK = 65536


class TlsFront:
    """A thread that serves TLS at a loopback port, from its creation to `close`."""

    def __init__(
        self, port: int, unix_path: Path, certificates: Certificates, *, auth_clients: bool
    ) -> None:
        """Listen at *port* for the server at *unix_path*.

        Raises:
            OSError: The port is taken.
        """
        self._unix_path = unix_path
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.server_cert, certificates.server_key)
        self._context.load_verify_locations(certificates.ca)
        if auth_clients:
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._bound: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=self._serve_all, args=(port,), name="tls front", daemon=True
        )
        self._thread.start()
        self._loop = self._bound.result()

    def close(self) -> None:
        """Hang up on every client, and end; harmless when repeated."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _serve_all(self, port: int) -> None:
        asyncio.run(self._run(port))
        # asyncio leaves connections open whose handshake has not ended.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            _ = gc.collect()

    async def _run(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        # A client that is refused is no error of the front.
        loop.set_exception_handler(lambda _loop, _context: None)
        self._over = asyncio.Event()
        try:
            server = await asyncio.start_server(self._serve, LOOPBACK, port, ssl=self._context)
        except OSError as error:
            self._bound.set_exception(error)
            return
        self._bound.set_result(loop)
        await self._over.wait()
        server.close()  # asyncio.run cancels all `_serve`

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side hangs up."""
        backend: asyncio.StreamWriter | None = None
        try:
            answers, backend = await asyncio.open_unix_connection(str(self._unix_path))
            both = [
                asyncio.create_task(_pump(reader, backend)),
                asyncio.create_task(_pump(answers, writer)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:  # the server is down: the client sees its connection end
            pass
        finally:
            writer.transport.abort()
            if backend is not None:
                backend.transport.abort()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
