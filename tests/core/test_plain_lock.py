"""What no face can see: strikes, and what a client leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.strikes import strike
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock._core.model.highway_hash import field
from interlock._drivers.flow import current_owner
from interlock.errors import NotHeldError
from interlock.sync.lock import adopt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.mark.parametrize("others", [(), ("other",)])
def test_what_a_closed_client_has_lost_makes_no_flows_one(
    redis_url: str, redis_client: redis.Redis, others: tuple[str, ...]
) -> None:
    """Nothing is left of it in the thread, whose contexts are owners of their own then."""
    with interlock.connect(redis_url) as client:
        locks = [client.lock(name) for name in ("lost", *others)]
        lost = client.multi_lock(*locks) if others else locks[0]
        assert lost.acquire(lease=0.2)
        hold = lost.hold
        assert hold is not None
        wait_until(hold.lost.is_set, 5, "it is lost")
    one, another = contextvars.copy_context(), contextvars.copy_context()
    with interlock.connect(redis_url) as client:
        lock = client.lock("name")
        assert one.run(lock.acquire)
        assert not another.run(lock.acquire, timeout=0)
        one.run(lock.release)
    assert not redis_client.exists("name")


def test_a_client_has_one_session(redis_url: str) -> None:
    """Threads that ask at once get the same one: two would release each other's grants."""
    for _ in range(10):
        with interlock.connect(redis_url) as client, ThreadPoolExecutor(8) as pool:
            locks = [client.lock(str(number)) for number in range(8)]
            ready = threading.Barrier(8)

            def ask(lock: Any, ready: threading.Barrier = ready) -> int:
                ready.wait()
                return id(lock._core.session)

            assert len(set(pool.map(ask, locks))) == 1


@pytest.fixture
def lock(redis_url: str) -> Iterator[Any]:
    with interlock.connect(redis_url) as client:
        made = client.lock("the name")
        for _ in range(3):
            with made:
                pass
        yield made


def _block(lock: Any) -> None:
    with lock:
        pass


def _is_soon_free(lock: Any, at: int) -> None:
    state, deadline = lock._core.session, time.monotonic() + 5
    while lock.locked() or state.live or current_owner().table or any(current_owner().cell[0]):
        assert time.monotonic() < deadline, at
        time.sleep(0.001)
    state.garbage.dead.clear()  # an unanswered try is released for a whole lease


@pytest.mark.filterwarnings("ignore::interlock.MisuseWarning")  # of a block that never began
@pytest.mark.parametrize("way", ["acquire", "with", "release"])
def test_a_strike_anywhere_leaves_nothing(lock: Any, way: str) -> None:
    """Soon after the error is seen nothing is held, here and on the server."""
    calls = {"acquire": lock.acquire, "with": lambda: _block(lock), "release": lock.release}
    for at in range(3, 5000, 7):
        if way == "release":
            assert lock.acquire(timeout=5)
        struck = strike(calls[way], at)
        gc.collect()
        if struck and way == "release" and lock.hold is not None:
            lock.release()  # it was struck before it began
        if not struck:
            break
        _is_soon_free(lock, at)
    assert at > 100
    if way == "acquire":
        lock.release()


@pytest.mark.parametrize("way", ["hand over", "adopt"])
def test_a_strike_anywhere_gives_to_nobody(lock: Any, way: str) -> None:
    """A hold that is struck on its way to another process is soon nobody's."""
    at = 0
    for at in range(3, 5000, 7):
        assert lock.acquire(timeout=5), at
        hold = lock.hold
        ticket = None if way == "hand over" else hold.hand_over()
        again = partial(adopt, lock._driver, ticket)
        struck = strike(hold.hand_over if ticket is None else again, at)
        if not struck:
            break
        if ticket is None and lock.hold is not None:
            lock.release()  # it was struck before it began
        if ticket is not None:
            with contextlib.suppress(NotHeldError):
                again().release()
        _is_soon_free(lock, at)
    assert at > 100
    assert (lock.hold is None) is (way == "hand over")


def test_a_block_that_is_being_left_is_not_dropped(redis_url: str) -> None:
    """The end of a task's block begins late, when Python has dropped what the block looked up."""

    async def leave_late() -> None:
        async with interlock.asyncio.connect(redis_url) as client:
            lock = client.lock("the name")
            leave = lock.__aexit__
            hold = await lock.__aenter__()
            leaving = leave(None, None, None)
            del leave
            await asyncio.sleep(0.1)  # the upkeep would hear of it
            assert hold
            await leaving
            assert not await lock.locked()

    asyncio.run(leave_late())


@pytest.mark.parametrize("kind", ["fenced_lock", "read_write_lock"])
def test_no_name_changes_a_command(redis_url: str, kind: str) -> None:
    """It may look like a part of one."""
    name = "name$1\r\n\1\r\n"
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        held, waits = [getattr(each, kind)(name) for each in (client, other)]
        if kind == "read_write_lock":
            held, waits = held.write, waits.read
        with held:
            waiting = threading.Thread(target=_block, args=[waits])
            waiting.start()
            time.sleep(0.1)
        waiting.join(10)
        assert not waiting.is_alive()
        assert held.acquire(timeout=5)
        held.release()


def test_no_name_is_that_of_a_group_with_its_values(redis_url: str) -> None:
    """Each has a hold of its own, also in one thread."""
    with interlock.connect(redis_url) as client:
        lock = client.lock(f"group {field('value')}")
        with client.group_lock("group", ["value"]):
            assert lock.hold is None
            with lock as hold:
                assert hold.depth == 1
                assert client.lock(lock.name).locked()


QUEUE = "interlock_queue:{the name}"


def test_joins_keep_the_queue(redis_url: str, redis_client: redis.Redis) -> None:
    """A join renews the queue, also if others join all the time: or all would lose their places."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        held, first, next_one = (each.lock("the name") for each in (client, other, other))
        with held:
            waiting = threading.Thread(target=_block, args=[first])
            waiting.start()
            wait_until(lambda: redis_client.zcard(QUEUE) == 1, 5, "it stands in the queue")
            redis_client.pexpire(QUEUE, 5000)
            assert not next_one.acquire(timeout=0.5)
            left = redis_client.pttl(QUEUE)
        waiting.join()
    assert left > 5000
