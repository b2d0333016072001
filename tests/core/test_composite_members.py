"""Locks that are members of a composite, and are used alone beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

NAME = "name"


@pytest.fixture
def client(redis_url: str) -> Iterator[interlock.Client]:
    """Return a client."""
    with interlock.connect(redis_url) as client:
        yield client


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads that wait."""
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.mark.parametrize("make", ["multi_lock", "red_lock"])
@pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
def test_a_composite_of_it(client: interlock.Client, pool: ThreadPoolExecutor, make: str) -> None:
    """Who has one keeps it away, and it keeps others away."""
    names = ("a", "b", "c")
    locks = [client.lock(each) for each in names]
    composite = getattr(client, make)(*locks)
    with composite:
        assert not any(pool.submit(each.acquire, timeout=0).result(20) for each in locks)
    assert locks[0].acquire()
    assert locks[1].acquire()
    assert not pool.submit(composite.acquire, timeout=0.2).result(20)
    waits = pool.submit(_turn, composite)
    locks[0].release()
    locks[1].release()
    assert waits.result(20)


def test_a_reader_does_not_wait_for_its_own_reading(
    client: interlock.Client, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """It enters, though a writer waits until the composite of the same owner is left."""
    both = client.read_write_lock(NAME)
    with client.multi_lock(both.read):
        waits = pool.submit(_turn, both.write)
        wait_until(lambda: redis_client.zcard("interlock_rw_queue:{name}") == 1, 10, "one waits")
        assert both.read.acquire(timeout=5)
        both.read.release()
        assert not waits.done()
    assert waits.result(20)


def _turn(lock: Any) -> bool:
    with lock:
        return True
