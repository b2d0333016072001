"""Connecting in time, also while a name server gives no answer; and other questions in threads.

The system's resolver takes as long as it likes: 5 s and more for each name server that is silent.
Nothing can interrupt it, so another thread asks it, and is left behind when the time is up. All who
need the same name meanwhile wait for that thread, so there is never more than one for each name.
The same is done for credentials, and for the map of a cluster (`Shared`).
"""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

LEAST = 0.01
"""Seconds that an address has in any case."""


def connect_to(host: str, seconds: float, connect: Callable[[str, float], T]) -> T:
    """Return what *connect* returns for the first address of *host* that can be reached.

    Args:
        host: a name or an IP address.
        seconds: the time for all addresses together. None may use up the share of the others.
        connect: connects to an address within so many seconds.

    Raises:
        TimeoutError: no name server has answered in time.
        OSError: there is no such name, or what *connect* raised for the last address.
    """
    deadline = monotonic() + seconds
    addresses = _addresses(host, seconds)
    while True:
        address = addresses.pop(0)
        share = (deadline - monotonic()) / (len(addresses) + 1)
        try:
            return connect(address, max(share, LEAST))
        except OSError:
            if not addresses:
                raise


async def in_thread(work: Callable[[], T]) -> T:
    """Return what *work* returns in a thread of its own; if nobody waits any more, drop it.

    Not in the loop's pool of threads, for which the end of a program would wait.
    """
    import asyncio  # noqa: PLC0415 - threads do without it

    try:
        done = Shared[T]("interlock-connect").begin(None, work)
    except RuntimeError:  # too many threads
        return work()
    return await asyncio.wrap_future(done)


class _Work(Future[T]):
    """What is under way; *thread* does it, once that has begun."""

    thread = 0


class Shared(Generic[T]):
    """Work in threads: one for each key at a time, for all who want its result meanwhile.

    No mutex: a signal handler or ``__del__`` may strike anywhere, and want the same. A forked child
    has none of its parent's threads, so it begins its own.

    Args:
        name: that of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[tuple[int, object], _Work[T]] = {}

    def running(self, key: object) -> Future[T] | None:
        """Return the future of the work for *key* if that has begun."""
        return self._running.get((os.getpid(), key))

    def begin(self, key: object, work: Callable[[], T]) -> Future[T]:
        """Return the future of *work*, or that of the work for *key* which has begun already.

        Raises:
            RuntimeError: there are too many threads, or the interpreter exits.
        """
        future = _Work[T]()

        def run() -> None:
            future.thread = threading.get_ident()
            try:
                tell = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001 - those who wait raise it
                error.__traceback__ = None  # which would keep this thread
                tell = partial(future.set_exception, error)
            self.leave(key, future)
            with suppress(InvalidStateError):  # nobody waits any more
                tell()

        try:
            # `setdefault` lets one caller in, wherever a signal strikes.
            running = self._running.setdefault((os.getpid(), key), future)
            # A finalizer may strike in the very thread that works, and must not wait for that.
            if running is not future and running.thread != threading.get_ident():
                return running
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except BaseException as error:
            # No thread can start, or a signal struck: the next caller must be able to begin.
            self.leave(key, future)
            if isinstance(error, RuntimeError):
                future.set_exception(error)
            raise
        return future

    def leave(self, key: object, future: Future[T]) -> None:
        """Let the next caller begin work for *key*, unless another one has begun since."""
        if self.running(key) is future:
            _ = self._running.pop((os.getpid(), key), None)


def answer_of(shared: Future[T], seconds: float) -> T:
    """Return the result of *shared*, or raise a copy of its error.

    Raises:
        TimeoutError: it is not there within *seconds*.
    """
    if (error := shared.exception(seconds)) is not None:
        raise copied(error)
    return shared.result()


def copied(error: E) -> E:
    """Return *error* for one more caller, who keeps neither others' frames nor what these refer to."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again


_resolving = Shared[list[str]]("interlock-resolver")


def _addresses(host: str, seconds: float) -> list[str]:
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return [host]  # no name server is asked for that
    try:
        resolved = _resolving.begin(host, partial(_resolve, host))
    except RuntimeError:
        return _resolve(host)
    return answer_of(resolved, seconds).copy()


def _resolve(host: str) -> list[str]:
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    # This also writes the interface behind an address that is good on one link only.
    return [socket.getnameinfo(each[4], numeric)[0] for each in found]
