"""A client of any language, which is driven by lines of JSON."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, cast

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 30.0
"""Seconds that a call without a time-out of its own may take."""
UNSUPPORTED = "Unsupported"
"""The error of a client that does not have what is asked for."""


class ClientError(InterlockError):
    """The client could not be started, ended, or wrote what is not an answer."""


class RefusedError(Exception):
    """A call raised in the client.

    Attributes:
        kind: what, in the client's words.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Client:
    """One process. Each named thread of it is an owner of its own.

    Args:
        command: what to run.

    Attributes:
        client_id: what the client says that it is, the first half of its holder ids.

    Raises:
        ClientError: it cannot be started.
    """

    client_id = ""

    def __init__(self, command: Sequence[str]) -> None:
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._ended = ""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - what the user wants to run
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as error:
            raise ClientError(f"the client cannot be started: {error}") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # nobody reads what was written last

    def connect(self, url: str) -> None:
        """Tell it to connect to *url*.

        Raises:
            ClientError: it does not.
        """
        try:
            self.client_id = _told(self.ask("connect", "connect", url=url), "value")
        except RefusedError as error:
            raise ClientError(f"the client cannot connect: {error}") from error

    def owner(self, thread: str) -> str:
        """Return the holder id of *thread*."""
        return f"{self.client_id}:{_told(self.ask(thread, 'sleep', seconds=0), 'owner')}"

    def start(self, thread: str, do: str, **rest: Any) -> Future[dict[str, Any]]:
        """Send a call to *thread* without waiting for it."""
        number, future = next(self._ids), Future[dict[str, Any]]()
        self._pending[number] = future
        line = json.dumps({"id": number, "thread": thread, "do": do, **rest})
        try:
            print(line, file=self._process.stdin, flush=True)
            gone = not self._reader.is_alive()
        except OSError:
            gone = True
        if gone:
            self._reader.join(PATIENCE)  # it knows why
            raise ClientError(self._ended or "the client has closed its input")
        return future

    def ask(self, thread: str, do: str, **rest: Any) -> dict[str, Any]:
        """Send a call, and return its answer.

        Raises:
            RefusedError: it raised.
            ClientError: no answer.
        """
        return answer_of(self.start(thread, do, **rest))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                reply = cast("dict[str, Any]", json.loads(line))
                self._pending.pop(reply["id"]).set_result(reply)
            except (ValueError, LookupError, TypeError):
                self._ended = f"the client wrote {line[:200]!r}, which is no answer"
                break
        else:
            self._ended = f"the client has ended {self._how()}"
        for future in list(self._pending.values()):
            future.set_exception(ClientError(self._ended))

    def _how(self) -> str:
        """Return how the process ended, which has closed its stdout."""
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "its output, but not itself"
        if status < 0:
            return f"by signal {-status}"
        return f"with exit status {status}; what it wrote to stderr is above"


def _told(reply: dict[str, Any], field: str) -> str:
    """Return *field* of an answer that must have it."""
    if not isinstance(reply.get(field), str | int):
        raise ClientError(f"the client's answer {json.dumps(reply)} has no {field!r}")
    return str(reply[field])


def answer_of(ending: Future[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to a call, as `Client.ask` does."""
    try:
        reply = ending.result(PATIENCE)
    except TimeoutError as error:
        raise ClientError(f"the client has not answered for {PATIENCE:g} s") from error
    if "error" in reply:
        raise RefusedError(str(reply["error"]), str(reply.get("message", "")))
    return reply
