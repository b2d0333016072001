"""Connecting in time, also while a name server gives no answer.

The system's resolver takes as long as it likes: 5 s and more for each name server that is silent.
Nothing can interrupt it, so another thread asks it, and is left behind when the time is up. All who
need the same name meanwhile wait for that thread, so there is never more than one for each name.
"""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

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

    done = Future[T]()

    def run() -> None:
        with suppress(InvalidStateError):  # the task was cancelled
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - the task raises it
                done.set_exception(error)

    try:
        threading.Thread(target=run, name="interlock-connect", daemon=True).start()
    except RuntimeError:  # too many threads
        run()
    return await asyncio.wrap_future(done)


def _addresses(host: str, seconds: float) -> list[str]:
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return [host]  # no name server is asked for that
    with _asked.mutex:
        question = _asked.questions.get(host)
        if question is None or not question.is_alive():
            question = _asked.questions[host] = _Question(host)
            with suppress(RuntimeError):
                question.start()
    if question.ident is None:  # too many threads, or the interpreter exits
        question.run()
    if question.is_alive():
        question.join(seconds)
    if question.is_alive():
        raise TimeoutError("timed out")
    if question.error is not None:
        raise copy(question.error)  # others may raise it too
    return question.addresses.copy()


class _Question(threading.Thread):
    """The thread that asks for the addresses of *host*."""

    def __init__(self, host: str) -> None:
        super().__init__(name="interlock-resolver", daemon=True)
        self._host = host
        self.addresses: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Ask."""
        numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        try:
            found = socket.getaddrinfo(self._host, 0, type=socket.SOCK_STREAM)
            # This also writes the interface behind an address that is good on one link only.
            self.addresses = [socket.getnameinfo(each[4], numeric)[0] for each in found]
        except Exception as error:  # noqa: BLE001 - those who wait raise it
            self.error = error.with_traceback(None)  # which would keep this thread alive
        finally:
            _ = _asked.questions.pop(self._host, None)


class _Asked:
    """What is being asked, by host; a forked child begins anew."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.questions: dict[str, _Question] = {}
        self.mutex = threading.RLock()  # a signal handler may come in anywhere


_asked = _Asked()
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_asked.forget)
