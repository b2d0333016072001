"""The counting semaphore: what its calls do, on both faces."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.interrupting import Blow
from tests.support.cards import own_keys
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock import AcquireTimeoutError, WrongTypeError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage

BAD_NUMBERS = [(0, ValueError), (-1, ValueError), (2**31, ValueError), (1.0, TypeError)]
BAD_NUMBERS += [("1", TypeError), (True, TypeError), (None, TypeError)]


async def test_permits_are_taken_and_given_back(plain: Stage) -> None:
    """A permit is missing until it is released; an acquire that finds too few takes none."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    assert await owner.do(semaphore.available_permits) == 0
    assert await owner.do(semaphore.try_set_permits, 3)
    assert await owner.do(semaphore.acquire)
    assert await owner.do(semaphore.acquire, 2)
    assert not await owner.do(semaphore.acquire, blocking=False)
    await owner.do(semaphore.release, 2)
    assert not await owner.do(semaphore.acquire, 3, timeout=0)
    assert await owner.do(semaphore.available_permits) == 2
    await owner.do(semaphore.release)
    assert await owner.do(semaphore.available_permits) == 3


async def test_it_is_set_up_once(plain: Stage) -> None:
    """Of those who set the number of permits the first one decides."""
    owner, one, two = plain.owner(), plain.lock(plain.client()), plain.lock(plain.client())
    assert await owner.do(one.try_set_permits, 3)
    assert not await owner.do(two.try_set_permits, 5)
    assert await owner.do(two.available_permits) == 3


async def test_permits_are_added_and_taken_away(plain: Stage) -> None:
    """Adding may go below zero, and then releases make up for it before anybody gets one."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.add_permits, 2)
    await owner.do(semaphore.add_permits, -3)
    assert await owner.do(semaphore.available_permits) == -1
    await owner.do(semaphore.release)
    assert not await owner.do(semaphore.acquire, timeout=0)
    await owner.do(semaphore.release)
    assert await owner.do(semaphore.acquire, timeout=0)


async def test_draining_takes_what_is_free(plain: Stage) -> None:
    """Draining returns how many were free, and leaves none."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    assert await owner.do(semaphore.drain_permits) == 0
    await owner.do(semaphore.try_set_permits, 5)
    await owner.do(semaphore.acquire, 2)
    assert await owner.do(semaphore.drain_permits) == 3
    assert await owner.do(semaphore.drain_permits) == 0
    assert await owner.do(semaphore.available_permits) == 0


async def test_a_missing_one_is_made_by_release_alone(plain: Stage) -> None:
    """Releasing makes a semaphore that is missing; releasing one if it exists does not."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    assert await owner.do(semaphore.release_if_exists) is False
    assert plain.redis.exists("name") == 0
    await owner.do(semaphore.release, 2)
    assert await owner.do(semaphore.release_if_exists, 3) is True
    assert await owner.do(semaphore.available_permits) == 5


async def test_a_with_statement_holds_one_permit(plain: Stage) -> None:
    """In the block one permit is missing, and the block's own exception goes on.

    Without a permit the block is not entered.
    """
    owner, semaphore = plain.owner(), plain.lock(plain.client(), timeout=0.05)
    await owner.do(semaphore.try_set_permits, 1)
    assert await owner.do(plain.face.enter, semaphore) is semaphore
    with pytest.raises(AcquireTimeoutError, match="'name' did not have a permit to give") as caught:
        await plain.owner().do(plain.face.enter, semaphore)
    assert (caught.value.name, caught.value.timeout) == ("name", 0.05)
    await owner.do(plain.face.leave, semaphore, ValueError("the body's"))
    assert await owner.do(semaphore.available_permits) == 1


async def test_trouble_at_the_end_does_not_mask_the_bodys(plain: Stage) -> None:
    """If the release at the end of a block fails, the block's own exception goes on with a note."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.try_set_permits, 1)
    await owner.do(plain.face.enter, semaphore)
    plain.redis.delete("name")
    plain.redis.hset("name", "a", "b")
    error = ValueError("the body's")
    assert not await owner.do(plain.face.leave, semaphore, error)
    assert "is in use by something else" in error.__notes__[0]
    with pytest.raises(WrongTypeError):
        await owner.do(plain.face.leave, semaphore)


@pytest.mark.parametrize(("number", "error"), BAD_NUMBERS, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(
    "call", ["acquire", "release", "release_if_exists", "try_set_permits", "add_permits"]
)
async def test_bad_numbers_change_nothing(
    plain: Stage, call: str, number: Any, error: type[Exception]
) -> None:
    """A number of permits that cannot be raises a clear error before anything is sent."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.try_set_permits, 3)
    if call == "add_permits" and number == -1 and not isinstance(number, bool):
        return  # takes one away
    if call == "try_set_permits" and number == 0 and isinstance(number, int):
        number = -1  # none is a number of permits to begin with
    with pytest.raises(error, match="permits"):
        await owner.do(getattr(semaphore, call), number)
    assert plain.redis.get("name") == b"3"


async def test_a_timeout_without_blocking(plain: Stage) -> None:
    """A single try that has a timeout raises, as of threading's locks, and takes nothing."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.try_set_permits, 1)
    with pytest.raises(ValueError, match="timeout"):
        await owner.do(semaphore.acquire, blocking=False, timeout=1)
    assert await owner.do(semaphore.available_permits) == 1


async def test_a_name_mapper_is_heeded(plain: Stage) -> None:
    """Key and channel are those of the mapped name."""
    owner, client = plain.owner(), plain.client(name_mapper=lambda name: f"app:{name}")
    await owner.do(plain.lock(client).release)
    keys = {key.rpartition(":")[0] for key in own_keys(plain.redis)}
    assert keys == {"app", "redisson_unlock_latch:{app:name}"}
    assert plain.redis.get("app:name") == b"1"


def test_close_gives_back_the_permits_of_open_blocks(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """They do not stay taken: the end of the block could not give them back any more."""
    client = interlock.connect(redis_url)
    semaphore = client.semaphore("name")
    semaphore.try_set_permits(5)
    with ExitStack() as stack:
        stack.enter_context(semaphore)
        permits = stack.enter_context(semaphore.trying(3))
        assert permits.n == 3
        client.close()
        assert redis_client.get("name") == b"5"
        assert not permits
    assert redis_client.get("name") == b"5", "leaving the blocks gives nothing back again"


async def test_close_gives_back_the_permits_of_blocks_in_tasks(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """As with threads, whichever task closes the client."""
    client = interlock.asyncio.connect(redis_url)
    semaphore = client.semaphore("name")
    await semaphore.try_set_permits(5)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(semaphore)
        permits = await stack.enter_async_context(semaphore.trying(3))
        await asyncio.create_task(client.close())
        assert redis_client.get("name") == b"5"
        assert not permits
    assert redis_client.get("name") == b"5", "leaving the blocks gives nothing back again"


@pytest.mark.filterwarnings("ignore:a block of:interlock.MisuseWarning")
@pytest.mark.parametrize("close_first", [False, True], ids=["it comes back", "closed at once"])
def test_close_gives_nothing_back_twice(
    redis_url: str, redis_client: redis.Redis, *, close_first: bool
) -> None:
    """A block that nothing leaves gives its permit back once, whether or not the client closes.

    A Ctrl-C that strikes the first instruction of its end leaves such a block.
    """
    client = interlock.connect(redis_url)
    semaphore = client.semaphore("name")
    semaphore.try_set_permits(1)
    end = semaphore.__exit__
    semaphore.__enter__()
    assert redis_client.get("name") == b"0"
    del end
    if not close_first:
        wait_until(lambda: redis_client.get("name") == b"1", 30, "the permit is back")
    client.close()
    assert redis_client.get("name") == b"1"


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers
def test_an_interrupted_close_gives_back_what_is_left(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Wherever Ctrl-C strikes a close, the next one gives back the permits of open blocks, once."""
    blow = Blow(1, returns=False)
    while blow.struck:
        client = interlock.connect(redis_url)
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(2)
        with ExitStack() as stack:
            stack.enter_context(semaphore)
            stack.enter_context(semaphore.trying())
            with suppress(KeyboardInterrupt), blow:
                client.close()
            client.close()
            assert redis_client.get("name") == b"2", str(blow)
        blow = blow.next()
    assert blow.at > 60


def test_close_looks_after_those_that_get_its_permits(redis_url: str) -> None:
    """As after any release: the first in the queue may be stopped."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(1)
        stack = ExitStack()
        stack.enter_context(semaphore)
    [block] = client._driver.session.released_on_close
    assert block.looked_at is semaphore._recipe.queue
    stack.close()


def test_close_leaves_what_no_block_has(redis_url: str, redis_client: redis.Redis) -> None:
    """Another client may release what `acquire` took, so a close does not."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(5)
        with semaphore, semaphore.trying(2):
            semaphore.acquire()
    assert redis_client.get("name") == b"4"
