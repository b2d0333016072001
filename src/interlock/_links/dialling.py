"""Connecting in time, also while a name server gives no answer.

The system's resolver takes as long as it likes: 5 s and more for each name server that is silent.
Nothing can interrupt it, so another thread asks it, and is left behind when the time is up.
"""

from __future__ import annotations

import socket
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Dialled(Protocol):
    """A connection of ours or of redis-py's."""

    def connect(self) -> None:
        """Connect and log in."""
        ...

    def disconnect(self) -> None:
        """Close."""
        ...


def numeric(host: str) -> bool:
    """Return whether *host* is an IP address, which nobody need resolve."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            _ = socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


def connect_within(connection: Dialled, seconds: float) -> None:
    """Connect in another thread; close the connection if it comes too late.

    Args:
        connection: has a name to resolve.
        seconds: the time for all of it.

    Raises:
        TimeoutError: it is not connected after *seconds*.
        Exception: what connecting raised.
    """
    outcome: SimpleQueue[BaseException | None] = SimpleQueue()
    left = threading.Event()

    def dial() -> None:
        try:
            connection.connect()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            outcome.put(error)
        else:
            outcome.put(None)
        if left.is_set():
            connection.disconnect()

    if not _started(dial):
        connection.connect()
        return
    try:
        failure = outcome.get(timeout=seconds)
    except BaseException as error:
        left.set()  # first: one of the two threads closes the connection after this
        connection.disconnect()
        if isinstance(error, Empty):
            raise TimeoutError("timed out") from None
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # it keeps this frame alive, and must not be kept by it


def _started(target: Callable[[], None]) -> bool:
    """Start a thread; return False if there are too many, or the interpreter exits."""
    thread = threading.Thread(target=target, name="interlock-dial", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
