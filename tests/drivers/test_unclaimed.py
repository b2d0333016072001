"""Holds and permits that a program does not keep, on both faces, threads' ends and exits."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import KINDS, Stage, grows, until
from tests.support.patience import let_others_run
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock import MisuseWarning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.objects.awaited import Face


@pytest.fixture
async def stage(
    face: Face, redis_client: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    async with Stage(face, KINDS[0], redis_url, redis_client) as set_up:
        yield set_up


async def _drop(owner: Any, call: Any, *args: Any) -> None:
    assert await owner.do(call, *args)
    await owner.do(gc.collect)  # by now the owner has dropped it


async def _ticket(stage: Stage) -> str:
    giver, lock = stage.owner(), stage.client().lock("name")
    assert await giver.do(lock.acquire)
    hold = await giver.do(lambda: lock.hold)
    return str(await giver.do(hold.hand_over))


async def test_a_dropped_hold_is_its_owners(stage: Stage) -> None:
    """A hold that nobody keeps is renewed, and its owner can release it by the lock."""
    client, owner, other = stage.client(renewed="soon"), stage.owner(), stage.owner()
    await _drop(owner, client.adopt, await _ticket(stage))
    for _ in range(2):
        await until(grows(stage.redis, "name"), 10, "it is renewed")
    assert not await other.do(stage.client().lock("name").acquire, timeout=0)
    assert await owner.do(client.lock("name").hold_count) == 1


async def test_a_dropped_permit_is_its_owners(stage: Stage) -> None:
    """A permit that nobody keeps is renewed as long as the one who took it is there."""
    client, owner, other = stage.client(renewed="soon"), stage.owner(), stage.owner()
    semaphore, theirs = client.leased_semaphore("name"), stage.client().leased_semaphore("name")
    await owner.do(semaphore.try_set_permits, 1)
    await _drop(owner, semaphore.acquire)
    for _ in range(2):
        ends = _ends(stage)
        await until(lambda before=ends: _ends(stage) > before, 10, "it is renewed")
    assert await other.do(theirs.try_acquire, timeout=0) is None


def _ends(stage: Stage) -> float:
    """Return when the only permit of "name" ends, in milliseconds."""
    [(_, ends)] = stage.redis.zrange("{name}:timeout", 0, -1, withscores=True)
    return float(ends)


@pytest.mark.parametrize("what", ["adopt", "permit"])
async def test_the_end_of_an_owner_frees_at_once(stage: Stage, what: str) -> None:
    """If a thread or task ends, its dropped hold is free long before the lease ends."""
    client, owner, other = stage.client(), stage.owner(), stage.owner()
    theirs: Any = stage.client()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if what == "permit":
            semaphore = client.leased_semaphore("name")
            await owner.do(semaphore.try_set_permits, 1)
            await _drop(owner, semaphore.acquire)
            take = theirs.leased_semaphore("name").try_acquire
        else:
            take = theirs.lock("name").acquire
            await _drop(owner, client.adopt, await _ticket(stage))
        await owner.end()
        assert await other.do(take, timeout=10)
        await until(lambda: told, 10, "it is told")


async def test_a_permit_got_for_another_task(redis_url: str) -> None:
    """A permit that a helper task acquired lasts as long as somebody keeps it, and no longer."""
    async with renews_soon(interlock.asyncio.connect(redis_url)) as client:
        semaphore = client.leased_semaphore("name")
        assert await semaphore.try_set_permits(1)
        permit = await asyncio.create_task(semaphore.acquire())
        await let_others_run()  # the loop has dropped the task
        assert await semaphore.available_permits() == 0
        del permit
        with pytest.warns(MisuseWarning, match="was never released") as warned:
            await until(lambda: len(warned) > 0, 20, "a thread of its own warns")
        await (await semaphore.acquire(timeout=20)).release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_exit_and_fork(redis_url: str, redis_client: redis.Redis) -> None:
    """An exit releases what was not kept; a forked child holds nothing and releases nothing."""
    program = """if True:
        import os, sys, interlock
        client = interlock.connect(sys.argv[1])
        semaphore = client.leased_semaphore("name")
        semaphore.try_set_permits(1)
        if semaphore.try_acquire():
            child = os.fork()
            if not child:
                os._exit(semaphore.try_acquire() is not None)
            _, status = os.waitpid(child, 0)
            print(status, semaphore.available_permits())
    """
    command = [sys.executable, "-W", "ignore", "-c", program, redis_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["0", "0"], "")
    assert not redis_client.zcard("{name}:timeout")
