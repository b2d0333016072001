"""Many at once: what holds for two owners holds for a thousand."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cards import own_keys
from tests.support.patience import let_others_run

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
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


async def test_three_owners_in_turn(stage: Stage) -> None:
    """A, B and C take turns with the lock; only one of them has it at a time."""
    client = stage.client()
    owners, inside, turns = [stage.owner() for _ in range(3)], set[int](), list[int]()

    async def go_round(number: int) -> None:
        lock = stage.lock(client)
        for _ in range(10):
            assert await owners[number].do(lock.acquire)
            assert not inside
            inside.add(number)
            turns.append(number)
            await let_others_run(5)
            inside.discard(number)
            await owners[number].do(lock.release)

    await asyncio.gather(*map(go_round, range(3)))
    assert sorted(turns) == [0] * 10 + [1] * 10 + [2] * 10
    assert stage.left_behind() == set()


@pytest.mark.parametrize("clients", [1, 4], ids=["one-client", "four-clients"])
def test_a_counter_loses_nothing(redis_url: str, redis_client: redis.Redis, clients: int) -> None:
    """What is read and written under the lock by many threads of several clients adds up."""
    together = [interlock.connect(redis_url) for _ in range(clients)]

    def add(number: int) -> None:
        for _ in range(10):
            with together[number % clients].lock("guard"):
                seen = int(redis_client.get("sum") or 0)
                redis_client.set("sum", seen + 1)

    try:
        assert _in_threads(16, add) == [None] * 16
        assert redis_client.get("sum") == b"160"
        assert own_keys(redis_client) == {"sum"}
    finally:
        for client in together:
            client.close()


async def _at_once(face: Face, count: int, work: Callable[[], Any]) -> list[Any]:
    """Call *work* in *count* threads or tasks at once; return the results and errors."""
    if face.is_async:
        tasks = [asyncio.create_task(work()) for _ in range(count)]
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


async def test_a_hundred_all_get_it(plain: Stage) -> None:
    """100 each wait up to 10 s with a lease of 5 s and release at once: all get it."""
    lock = plain.lock(plain.client())

    def visit() -> bool:
        taken = lock.acquire(timeout=10, lease=5)
        lock.release()
        return taken  # type: ignore[no-any-return]

    async def visit_in_task() -> bool:
        taken = await lock.acquire(timeout=10, lease=5)
        await lock.release()
        return taken  # type: ignore[no-any-return]

    visits = await _at_once(plain.face, 100, visit_in_task if plain.face.is_async else visit)
    assert visits == [True] * 100
    assert plain.left_behind() == set()
