"""Cancellation of asyncio's operations at every single point where they wait."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.lock.interrupting import Moment, Points
from tests.lock.lock_like import kind_of, until
from tests.support.cards import waited_channels
from tests.support.patience import let_others_run

import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    import redis
    from tests.lock.lock_like import Kind

    Make = Callable[..., Any]
    Prepare = Callable[[Make], Awaitable[Coroutine[Any, Any, object]]]

pytestmark = [
    pytest.mark.parametrize("moment", get_args(Moment)),
    pytest.mark.parametrize(
        "kind",
        [kind_of(name) for name in ("lock", "fair", "write", "multi", "red")],
        indirect=True,
        ids=lambda kind: kind.name,
    ),
]

ENOUGH = 60
"""No operation waits at as many points as this."""


@contextlib.asynccontextmanager
async def opened(kind: Kind, urls: Sequence[str]) -> AsyncIterator[Make]:
    """Give what makes the lock, always of the same new clients."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(interlock.asyncio.connect(url, fair_wait=30))
            for url in urls
        ]
        yield functools.partial(kind.make, clients if kind.servers > 1 else clients[0], "name")


class Sweep:
    """Cancels an operation of one kind of lock at each of its waits."""

    def __init__(self, kind: Kind, urls: Sequence[str], moment: Moment) -> None:
        self.opened = functools.partial(opened, kind, urls)
        self._moment: Moment = moment

    async def run(
        self,
        prepare: Prepare,
        check: Callable[[Make, int], Awaitable[None]],
        aftermath: Callable[[], Awaitable[None]] | None = None,
    ) -> int:
        """Run what *prepare* returns once for each wait, and cancel it there.

        Return the number of waits.
        """
        for at in range(ENOUGH):
            # A task of its own, which is the owner of what it prepares, does and looks at.
            reached = await asyncio.create_task(self._try(at, prepare, check, aftermath))
            if not reached:
                return at
        raise AssertionError("it never ends")

    async def _try(
        self,
        at: int,
        prepare: Prepare,
        check: Callable[[Make, int], Awaitable[None]],
        aftermath: Callable[[], Awaitable[None]] | None,
    ) -> bool:
        """Cancel what *prepare* returns at wait *at*; return whether there was such a wait."""
        task = asyncio.current_task()
        assert task is not None
        async with self.opened() as make:
            points = Points(at, self._moment)
            struck = await prepare(make)
            try:
                await points.run(struck)
                await asyncio.sleep(0)  # the cancellation may come with its end
            except asyncio.CancelledError:
                assert points.reached
                task.uncancel()
            if aftermath is not None:
                await aftermath()
            if points.reached:
                await check(make, at)
        return points.reached


@pytest.fixture
def sweep(kind: Kind, urls: list[str], moment: Moment) -> Sweep:
    """Give what cancels operations of each kind of lock, at each moment."""
    return Sweep(kind, urls, moment)


@pytest.mark.parametrize("warm", [False, True], ids=["", "warm"])
async def test_an_acquire(sweep: Sweep, left: Callable[[], set[str]], *, warm: bool) -> None:
    """A cancelled acquire holds nothing, here or on the server, and the client goes on.

    This holds if it connects first, and if its connection is *warm*.
    """

    async def prepare(make: Make) -> Coroutine[Any, Any, object]:
        if warm:
            await make().locked()
        acquiring: Coroutine[Any, Any, object] = make().acquire()
        return acquiring

    async def check(make: Make, at: int) -> None:
        await until(lambda: not left(), 5, f"nothing is left after wait {at}")
        assert await make().acquire(timeout=5)
        await make().release()

    assert await sweep.run(prepare, check) >= 1


async def test_a_waiting_acquire(
    sweep: Sweep, left: Callable[[], set[str]], redis_client: redis.Redis
) -> None:
    """A cancelled waiter leaves no lock or subscription, and passes its wake-up to the next one."""
    async with sweep.opened() as others:

        async def prepare(make: Make) -> Coroutine[Any, Any, object]:
            lock, neighbour = others(), make()
            await lock.acquire()
            hold = lock.hold

            async def hand_over() -> None:
                await asyncio.sleep(0.03)  # until the other waits, or was cancelled
                await hold.release()

            async def acquire_beside_others() -> None:
                handing_over = asyncio.create_task(hand_over())
                beside = asyncio.create_task(visit(neighbour))
                tasks.extend((handing_over, beside))
                await neighbour.acquire()
                await neighbour.release()

            return acquire_beside_others()

        async def visit(lock: Any) -> None:
            async with lock:
                pass

        tasks: list[asyncio.Task[None]] = []

        async def neighbours() -> None:
            async with asyncio.timeout(10):
                await asyncio.gather(*tasks)
            tasks.clear()

        async def check(make: Make, at: int) -> None:
            assert make().hold is None
            await until(lambda: not left(), 5, f"nothing is left after wait {at}")
            await until(lambda: not waited_channels(redis_client), 5, "nobody listens")

        assert await sweep.run(prepare, check, neighbours) >= 3


async def test_a_release(sweep: Sweep, left: Callable[[], set[str]]) -> None:
    """A cancelled release still frees the lock."""

    async def prepare(make: Make) -> Coroutine[Any, Any, object]:
        lock = make()
        await lock.acquire()
        releasing: Coroutine[Any, Any, object] = lock.release()
        return releasing

    async def check(make: Make, at: int) -> None:
        await until(lambda: not left(), 5, f"wait {at} frees it")
        assert make().hold is None

    assert await sweep.run(prepare, check) >= 1


async def test_a_with_statement(sweep: Sweep, left: Callable[[], set[str]]) -> None:
    """A with statement that is cancelled at any await leaves the lock free."""

    async def prepare(make: Make) -> Coroutine[Any, Any, object]:
        async def body() -> None:
            async with make(timeout=1):
                await let_others_run()
                await asyncio.sleep(0.001)  # a wait that only the loop's clock ends

        return body()

    async def check(make: Make, at: int) -> None:
        await until(lambda: not left(), 5, f"nothing is left after wait {at}")

    assert await sweep.run(prepare, check) >= 3
