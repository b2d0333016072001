"""A process that holds a peer's session and does what the lines on its standard input say.

Started as `python -m benchmarks.agent`. Each line in is a JSON object with `do`; each line out is
the answer, with `error` when it failed. Agents of other languages speak the same (peers/java,
peers/go). All times are seconds of the machine's monotonic clock.

* `open` peer kind url workers           a session for so many workers
* `acquire` name                         -> at: after the acquire returned
* `release`                              -> at: before the release was called
* `prepare` name workers work            workers that stand ready to contend
* `contend` opens closes                 -> workers: each one's turns
* `uncontended` name workers warmup seconds -> rate, total; the workers' names begin with `name`
* `close`                                ends the session and the process
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from benchmarks import peers
from benchmarks.contend import Tasks, Threads, as_rows, clock
from benchmarks.measure import RefusedError
from benchmarks.peer import AsyncPeer, ProgramPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import Generator

    from benchmarks.peer import AsyncLock, SyncLock


class _SyncAgent:
    """Serves a peer for threads; `acquire` and `release` are the main thread's."""

    def __init__(self, peer: SyncPeer) -> None:
        self._peer = peer

    def serve(self, opening: dict[str, Any]) -> None:
        with self._peer.open(opening["url"], opening["workers"]) as session:
            _answer({})
            lock: SyncLock | None = None
            threads: Threads | None = None
            for order in _orders():
                with _answering() as answer:
                    match order["do"]:
                        case "acquire":
                            lock = session.lock(order["name"])
                            if not lock.acquire():
                                raise RefusedError
                            answer["at"] = clock()
                        case "release" if lock is not None:
                            answer["at"] = clock()
                            lock.release()
                        case "prepare":
                            work = (order["name"], order["workers"], order["work"])
                            threads = Threads(session, *work)
                            threads.prepare()
                        case "contend" if threads is not None:
                            turns = threads.contend(order["opens"], order["closes"])
                            answer["workers"] = as_rows(turns)
                        case unknown:
                            raise ValueError(f"cannot {unknown} now")


class _AsyncAgent:
    """Serves a peer for tasks; the loop runs on while the next order is awaited."""

    def __init__(self, peer: AsyncPeer) -> None:
        self._peer = peer

    def serve(self, opening: dict[str, Any]) -> None:
        asyncio.run(self._serve(opening))

    async def _serve(self, opening: dict[str, Any]) -> None:
        async with self._peer.open(opening["url"], opening["workers"]) as session:
            _answer({})
            lock: AsyncLock | None = None
            tasks: Tasks | None = None
            orders = _orders()
            nothing: dict[str, Any] = {}
            while order := await asyncio.to_thread(next, orders, nothing):
                with _answering() as answer:
                    match order["do"]:
                        case "acquire":
                            lock = session.lock(order["name"])
                            if not await lock.acquire():
                                raise RefusedError
                            answer["at"] = clock()
                        case "release" if lock is not None:
                            answer["at"] = clock()
                            await lock.release()
                        case "prepare":
                            work = (order["name"], order["workers"], order["work"])
                            tasks = Tasks(session, *work)
                            await tasks.prepare()
                        case "contend" if tasks is not None:
                            turns = await tasks.contend(order["opens"], order["closes"])
                            answer["workers"] = as_rows(turns)
                        case unknown:
                            raise ValueError(f"cannot {unknown} now")


def _orders() -> Generator[dict[str, Any]]:
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if order["do"] == "close":
            return
        yield order


@contextlib.contextmanager
def _answering() -> Generator[dict[str, Any]]:
    """Collect an answer, and send it or what went wrong."""
    answer: dict[str, Any] = {}
    try:
        yield answer
    except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
        answer = {"error": f"{type(failure).__name__}: {failure}"}
    _answer(answer)


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve one session."""
    order = json.loads(sys.stdin.readline())
    try:
        match peers.find(order["peer"], order["kind"]):
            case SyncPeer() as peer:
                _SyncAgent(peer).serve(order)
            case AsyncPeer() as peer:
                _AsyncAgent(peer).serve(order)
            case ProgramPeer() as peer:
                raise TypeError(f"{peer.name} is not Python's")  # noqa: TRY301
    except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
        _answer({"error": f"{type(failure).__name__}: {failure}"})
    else:
        _answer({})


if __name__ == "__main__":
    main()
