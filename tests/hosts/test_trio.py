"""The trio face: what trio's loops, tasks and cancel scopes have of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import trio
import trio.testing
from tests.objects.awaited import resting
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock._drivers.trio
import interlock.trio


def run(main: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run *main* in a loop of trio's that ends in time."""

    async def limited() -> None:
        with trio.fail_after(30):
            await main(*args)

    trio.run(limited)


def test_two_loops_share_a_client(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of one loop that must wait for a thread are not woken by the other loop."""
    monkeypatch.setattr(interlock._drivers.trio, "THREADS", 1)
    client, worked = interlock.trio.connect(redis_url), list[int]()

    async def work(number: int) -> None:
        for _ in range(20):
            async with client.lock(f"name {number}"):
                pass
        worked.append(number)

    async def main(first: int) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(first, first + 5):
                nursery.start_soon(work, number)

    # A loop that is broken may never end.
    loops = [threading.Thread(target=run, args=(main, first), daemon=True) for first in (0, 5)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(GIVE_UP)
    assert sorted(worked) == list(range(10))
    run(client.close)


async def test_a_loop_inside_a_task_of_asyncio_is_refused(redis_url: str) -> None:
    """All tasks of that loop would be one owner; in a thread of its own each is one."""
    refused: list[str] = []

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            try:
                assert await client.lock("name").acquire(timeout=5)
            except RuntimeError as error:
                refused.append(str(error))
            else:
                await client.lock("name").release()

    run(main)
    assert ["inside a task of asyncio" in text for text in refused] == [True]
    await asyncio.to_thread(run, main)
    assert len(refused) == 1


class CancelsAfter(trio.abc.Instrument):
    """Cancels the scope that a task enters first, when the task has made so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_a_task_is_cancelled_at_each_wait(
    *, held: bool, loaded: redis.Redis, redis_url: str
) -> None:
    """Wherever a task is cancelled that acquires, works and releases, nothing is left behind."""

    async def work(client: interlock.asyncio.Client, strike: CancelsAfter) -> None:
        strike.task = trio.lowlevel.current_task()
        with strike.scope:
            async with client.lock("name", timeout=GIVE_UP):
                await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with (
            interlock.trio.connect(redis_url) as client,
            interlock.trio.connect(redis_url) as other,
        ):
            taken, steps, struck = other.lock("name"), 0, True
            while struck:
                steps += 1
                strike = CancelsAfter(steps)
                if held:
                    assert await taken.acquire(timeout=0)
                async with trio.open_nursery() as nursery:
                    trio.lowlevel.add_instrument(strike)
                    nursery.start_soon(work, client, strike)
                    rests = resting(client)
                    while held and not (rests() or strike.scope.cancelled_caught):
                        await trio.lowlevel.checkpoint()
                    if held:
                        await taken.release()
                trio.lowlevel.remove_instrument(strike)
                struck = strike.left <= 0
                assert await taken.acquire(timeout=5), steps
                await taken.release()
            assert steps > 3

    run(main)
    assert loaded.keys("*") == []


def test_a_loss_cancels_a_scope(redis_url: str, redis_client: redis.Redis) -> None:
    """A task learns of its lock's loss by the event, and by a callback that cancels its scope."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            renews_soon(client)
            with pytest.raises(interlock.HoldLostError):
                async with client.lock("name") as hold:
                    with trio.CancelScope() as scope:
                        hold.on_lost(scope.cancel)
                        redis_client.delete("name")
                        await trio.sleep_forever()
                    assert scope.cancelled_caught
                    assert await hold.lost.wait()
                    hold.ensure()
            with pytest.raises(interlock.ConfigError, match=r"on_lost\(scope.cancel\)"):
                async with client.lock("name", cancel_on_lost=True):
                    pass
            wait_until(lambda: not redis_client.exists("name"), 5, "what was refused is released")

    run(main)
