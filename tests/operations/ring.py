"""A ring of five that wait for each other: two threads, two tasks and a process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Self

from tests.lock.children import Child
from tests.support.patience import GIVE_UP

import interlock
import interlock.asyncio
from interlock import InterlockError

if TYPE_CHECKING:
    from types import TracebackType

    from interlock import Lock

FIVE = 5
PROCESS = """
with interlock.connect(url) as client:
    try:
        with client.lock("ring:4"):
            say("holds")
            sys.stdin.readline()
            with client.read_write_lock("ring:0").write:
                pass
    except interlock.InterlockError as error:
        say(type(error).__name__)
    else:
        say("done")
"""


class Ring:
    """Five that hold ``ring:0`` to ``ring:4``, and each wait for the next one's lock.

    The first lock is held by a reader; the process waits as its writer. Use it in a ``with``
    statement: it is closed when the block begins. At the end it is broken by force.

    Args:
        url: of the server.

    Attributes:
        pid: of the process.
        ended: how each one ended: "done", or the name of an error.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._holding = threading.Barrier(FIVE, timeout=GIVE_UP)
        self._child = Child(PROCESS, url)
        self._client = interlock.connect(url)
        self.pid = self._child.pid
        self.ended: list[str] = []

    def __enter__(self) -> Self:
        first, second = (self._client.lock(f"ring:{number}") for number in (1, 2))
        reader = self._client.read_write_lock("ring:0").read
        self._threads = [
            threading.Thread(target=self._take, args=(reader, first), name="first"),
            threading.Thread(target=self._take, args=(first, second), name="second"),
            threading.Thread(target=lambda: asyncio.run(self._tasks()), name="tasks"),
        ]
        for thread in self._threads:
            thread.start()
        assert self._child.hear() == "holds"
        _ = self._holding.wait()
        self._child.tell()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if len(self.ended) < FIVE:
            # In a thread: tests of pages have an event loop in theirs.
            breaker = threading.Thread(target=self._break)
            breaker.start()
            breaker.join()
        self.join()
        self._child.__exit__(kind, error, trace)
        self._client.close()

    def join(self) -> None:
        """Wait until all five have ended."""
        for thread in self._threads:
            thread.join(GIVE_UP)
        if len(self.ended) < FIVE:
            self.ended.append(self._child.hear())

    def _take(self, held: Lock, wanted: Lock) -> None:
        try:
            with held:
                _ = self._holding.wait()
                with wanted:
                    pass
        except InterlockError as error:
            self.ended.append(type(error).__name__)
        else:
            self.ended.append("done")

    def _break(self) -> None:
        _ = self._client.read_write_lock("ring:0").read.force_release()

    async def _tasks(self) -> None:
        async with interlock.asyncio.connect(self._url) as client:

            async def take(number: int) -> None:
                try:
                    async with client.lock(f"ring:{number}"):
                        _ = await asyncio.to_thread(self._holding.wait)
                        async with client.lock(f"ring:{number + 1}"):
                            pass
                except InterlockError as error:
                    self.ended.append(type(error).__name__)
                else:
                    self.ended.append("done")

            _ = await asyncio.gather(take(2), take(3))
