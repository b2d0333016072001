"""Cancellation of asyncio's operations at every single point where they wait."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, get_args

import pytest
from tests.objects.acts import of_kinds
from tests.objects.awaited import until
from tests.objects.interrupting import Moment, Points
from tests.objects.kinds import Kind
from tests.objects.places import Place
from tests.objects.stage import NAME
from tests.support.patience import let_others_run

import interlock.asyncio

Make = Callable[..., Any]


pytestmark = [
    pytest.mark.usefixtures("patient"),
    pytest.mark.parametrize("moment", get_args(Moment)),
    of_kinds(lambda kind: kind.name in ("lock", "fair", "write", "multi", "red")),
]
ENOUGH = 60
"""No operation waits at as many points as this."""


async def _block(lock: Any) -> None:
    async with lock:
        await let_others_run()
        await asyncio.sleep(0.001)  # a wait that only the loop's clock ends


OPERATIONS: dict[str, tuple[Callable[[Any], Awaitable[object]], Callable[[Any], Any], int]] = {
    "first-acquire": (lambda _: let_others_run(), lambda lock: lock.acquire(), 1),
    "acquire": (lambda lock: lock.locked(), lambda lock: lock.acquire(), 1),
    "release": (lambda lock: lock.acquire(), lambda lock: lock.release(), 1),
    "block": (lambda _: let_others_run(), _block, 3),
}
"""What goes before, what is cancelled, and at how many points it waits at least."""


@contextlib.asynccontextmanager
async def _opened(place: Place, kind: Kind) -> AsyncIterator[Make]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(interlock.asyncio.connect(url, fair_wait=30))
            for url in place.urls[: kind.servers]
        ]
        yield functools.partial(kind.make, clients, NAME)


async def _swept(attempt: Callable[[int], Coroutine[Any, Any, bool]], least: int) -> None:
    """Cancel at one wait after the other, until an attempt has no more."""
    for at in range(ENOUGH):
        # A task of its own, which is the owner of what it prepares, does and looks at.
        if not await asyncio.create_task(attempt(at)):
            assert at >= least
            return
    raise AssertionError("it never ends")


async def _struck(points: Points, call: Any) -> None:
    """Make *call*, and swallow the cancellation that it was struck by."""
    task = asyncio.current_task()
    assert task is not None
    try:
        await points.run(call)
        await asyncio.sleep(0)  # the cancellation may come with its end
    except asyncio.CancelledError:
        assert points.reached
        task.uncancel()


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_it_leaves_nothing(place: Place, kind: Kind, operation: str, moment: Moment) -> None:
    """Whatever a cancelled operation waited for, the lock is soon free, and the client goes on."""
    prepare, act, least = OPERATIONS[operation]

    async def attempt(at: int) -> bool:
        points = Points(at, moment)
        async with _opened(place, kind) as make:
            await prepare(make())
            await _struck(points, act(make()))
            if points.reached:
                await until(lambda: not place.keys_left(), 5, f"nothing is left after wait {at}")
                assert make().hold is None
                assert await make().acquire(timeout=5)
                await make().release()
        return points.reached

    await _swept(attempt, least)


async def test_a_waiter_passes_its_turn_on(place: Place, kind: Kind, moment: Moment) -> None:
    """A cancelled waiter leaves no lock, and those beside it in its client have their turns."""
    async with _opened(place, kind) as others:

        async def attempt(at: int) -> bool:
            points = Points(at, moment)
            async with _opened(place, kind) as make, asyncio.timeout(20):
                lock = others()
                await lock.acquire()
                hold, tasks = lock.hold, list[asyncio.Task[None]]()

                async def hand_over() -> None:
                    await asyncio.sleep(0.03)  # until the other waits, or was cancelled
                    await hold.release()

                async def acquire_beside_others() -> None:
                    tasks.append(asyncio.create_task(hand_over()))
                    tasks.append(asyncio.create_task(_block(make())))
                    await make().acquire()
                    await make().release()

                await _struck(points, acquire_beside_others())
                await asyncio.gather(*tasks)
                if points.reached:
                    assert make().hold is None
                    await until(lambda: not place.keys_left(), 5, f"nothing is left: {at}")
            return points.reached

        await _swept(attempt, 3)
