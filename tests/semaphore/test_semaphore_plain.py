"""The counting semaphore: what its calls do, on both faces."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.interrupting import Blow
from tests.support.cards import own_keys
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock import WrongTypeError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage

BAD_NUMBERS = [(0, ValueError), (-1, ValueError), (2**31, ValueError), (1.0, TypeError)]
BAD_NUMBERS += [("1", TypeError), (True, TypeError), (None, TypeError)]


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


async def test_a_prefix_is_heeded(plain: Stage) -> None:
    """Key and channel have the prefix."""
    owner, client = plain.owner(), plain.client(prefix="app:")
    await owner.do(plain.lock(client).release)
    keys = {key.rsplit(":", 2 if "latch" in key else 1)[0] for key in own_keys(plain.redis)}
    assert keys == {"app", "redisson_unlock_latch:{app:name}"}
    assert plain.redis.get("app:name") == b"1"


@pytest.mark.filterwarnings("ignore:hold of:interlock.MisuseWarning")
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
    # Whoever tells of the block has done so before the next test, for which it would be an error.
    wait_until(lambda: not _callbacks_run(), 30, "the block is told of")


def _callbacks_run() -> bool:
    return any(thread.name == "interlock-callback" for thread in threading.enumerate())


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


def test_close_leaves_what_no_block_has(redis_url: str, redis_client: redis.Redis) -> None:
    """Another client may release what `acquire` took, so a close does not."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(5)
        with semaphore, semaphore.trying(2):
            semaphore.acquire()
    assert redis_client.get("name") == b"4"
