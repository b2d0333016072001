"""Many at once: threads, tasks and processes that want permits, and some that die with them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.lock.children import Child
from tests.support.patience import let_others_run

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis


def test_threads_and_tasks_together(redis_url: str, redis_client: redis.Redis) -> None:
    """Threads, tasks and processes that mix acquires and releases keep the number of permits."""
    child = """
        with interlock.connect(url) as client:
            semaphore = client.semaphore("name")
            for _ in range(100):
                with semaphore:
                    pass
        say("done")
    """

    async def tasks() -> None:
        async with interlock.asyncio.connect(redis_url) as client:

            async def turn() -> None:
                for _ in range(10):
                    async with client.semaphore("name"):
                        await let_others_run()

            await asyncio.gather(*(turn() for _ in range(10)))

    def turns() -> None:
        with interlock.connect(redis_url) as client:
            for number in range(50):
                assert client.semaphore("name").acquire(1 + number % 2)
                client.semaphore("name").release(1 + number % 2)

    redis_client.set("name", 3)
    threads = [threading.Thread(target=turns) for _ in range(4)]
    with ExitStack() as stack:
        children = [stack.enter_context(Child(child, redis_url)) for _ in range(2)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks())
        for thread in threads:
            thread.join()
        assert [each.hear(60) for each in children] == ["done", "done"]
    assert redis_client.get("name") == b"3"


def test_the_objects_say_what_they_are(redis_url: str) -> None:
    """Semaphores and permits show their names, and a permit its state and ids."""
    with interlock.connect(redis_url) as client:
        semaphore: Any = client.leased_semaphore("name")
        semaphore.try_set_permits(1)
        permit = semaphore.acquire()
        assert repr(client.semaphore("name")) == "<Semaphore 'name'>"
        assert repr(semaphore) == "<LeasedSemaphore 'name'>"
        assert repr(permit) == f"<Permit 'name' valid ids={permit.ids}>"
        permit.release()
        assert repr(permit) == f"<Permit 'name' over ids={permit.ids}>"
