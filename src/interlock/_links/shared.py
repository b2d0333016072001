"""Questions that are asked in threads: of name servers, Sentinels, clusters, providers.

Nothing can interrupt some of them: the system's resolver takes 5 s and more for each name server
that is silent. So another thread asks, and is left behind when the time is up. All who want to know
the same meanwhile wait for that thread, so there is never more than one for each question.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Shared(Generic[T]):
    """Work in threads: one for each key at a time, for all who want its result meanwhile.

    No mutex: a signal handler or ``__del__`` may strike anywhere, and want the same. A forked child
    has none of its parent's threads, so it begins its own.

    Args:
        name: that of the threads.
        here: whether the caller does the work if no thread can start; else it has failed.
    """

    def __init__(self, name: str, *, here: bool = True) -> None:
        self._name, self._here = name, here
        self._running: dict[tuple[int, object], Future[T]] = {}

    def running(self, key: object) -> Future[T] | None:
        """Return the future of the work for *key* if that has begun."""
        return self._running.get((os.getpid(), key))

    def begin(self, key: object, work: Callable[[], T]) -> Future[T]:
        """Return the future of *work*, or that of the work for *key* which has begun already."""
        future, begun = Future[T](), False

        def run() -> None:
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
            if running is not future:
                return running
            threading.Thread(target=run, name=self._name, daemon=True).start()
            begun = True
        except RuntimeError as error:  # there are too many, or the interpreter exits
            if not self._here:
                failure = ServerUnavailableError(f"no thread can start: {error}", transient=True)
                future.set_exception(failure)
                return future
            run()
        finally:
            if not begun:  # a signal may have struck: the next caller must be able to begin
                self.leave(key, future)
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


async def in_thread(work: Callable[[], T]) -> T:
    """Return what *work* returns in a thread of its own; if nobody waits any more, drop it.

    Not in the loop's pool of threads, for which the end of a program would wait.
    """
    import asyncio  # noqa: PLC0415 - threads do without it

    return await asyncio.wrap_future(Shared[T]("interlock-connect").begin(None, work))
