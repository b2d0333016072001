"""Who has it: acquire and release of every lock-like, on both faces."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS

import interlock
from interlock import ReentryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

    from interlock import Client

SLACK = 8.0
"""Seconds that a busy machine may take for next to nothing."""


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if not kind.reentrant],
    indirect=True,
    ids=lambda kind: kind.name,
)
async def test_one_that_is_not_reentrant_refuses_without_asking(
    proxy: FaultProxy, stage: Stage
) -> None:
    """Taken again by its owner, it raises at once, changes nothing and sends nothing."""
    lock, owner = stage.lock(stage.client(proxy.url())), stage.owner()
    await owner.do(lock.acquire)
    before = stage.redis.dump("name"), stage.left_behind()
    proxy.clear_record()
    with pytest.raises(ReentryError):
        await owner.do(lock.acquire)
    assert proxy.record == []
    assert (stage.redis.dump("name"), stage.left_behind()) == before
    await owner.do(lock.release)


def test_a_forced_release_is_no_loss_of_who_comes_next(redis_url: str) -> None:
    """Another thread of the same client may have the lock before the answer has been read."""
    make: list[Callable[[Client], Any]] = [
        lambda client: client.lock("name"),
        lambda client: client.fenced_lock("name"),
        lambda client: client.fair_lock("name"),
        lambda client: client.read_write_lock("name").write,
        lambda client: client.read_write_lock("name").read,
        lambda client: client.group_lock("name", ["a", "b"]),
    ]
    for lock_of in make:
        with interlock.connect(redis_url) as client, ThreadPoolExecutor(2) as pool:
            lock = lock_of(client)

            def hold(lock: Any = lock) -> Any:
                lock.acquire()
                return lock.hold

            former = pool.submit(hold).result()
            operation = lock._core.force_release()
            call = next(operation)
            while not call.script.name.endswith("force_release"):  # it asks who holds the lock
                call = operation.send(lock._driver.eval(call))
            answer = lock._driver.eval(call)
            lock.acquire()
            with pytest.raises(StopIteration):
                operation.send(answer)
            assert former.lost.is_set()
            assert lock.owned()
            lock.release()
