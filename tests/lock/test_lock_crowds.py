"""Many at once: what holds for two owners holds for a thousand."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lock.lock_like import Face, Stage

pytestmark = pytest.mark.usefixtures("patient")
"""Short tries come by the hundred here: a machine that stalls for a moment is no silent server."""


def _in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run *work* in *count* threads that start at the same moment; return their results."""
    results: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _check_that_one_has_it(results: list[Any]) -> None:
    """Check that one is True, and that the others were refused or not answered in time."""
    assert [result for result in results if result is True] == [True]
    others = [result for result in results if result is not True]
    assert all(r is False or isinstance(r, interlock.ServerUnavailableError) for r in others)
    assert others.count(False) > len(others) / 2


async def _at_once(face: Face, count: int, work: Callable[[], Any]) -> list[Any]:
    """Call *work* in *count* threads or tasks at once; return the results and errors."""
    if face.is_async:

        async def task() -> Any:
            return await work()

        tasks = [asyncio.create_task(task()) for _ in range(count)]
        return await asyncio.gather(*tasks, return_exceptions=True)
    return await asyncio.to_thread(_in_threads, count, lambda _: work())


async def test_of_a_thousand_one_has_it(plain: Stage) -> None:
    """1,000 try at once for 10 ms (lease 10 s, no release): exactly one has it."""
    lock, owner = plain.lock(plain.client()), plain.owner()
    assert not await owner.do(lock.locked)  # a connection is there
    _check_that_one_has_it(
        await _at_once(plain.face, 1000, lambda: lock.acquire(timeout=0.010, lease=10))
    )
    assert await owner.do(lock.locked)
