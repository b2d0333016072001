"""The check in Redis: one script that refuses who is older than the last and lets the others in."""

from __future__ import annotations

import pytest
import redis.asyncio
from redis.exceptions import ResponseError
from tests.support.proxy import FaultProxy

from interlock import ConfigError, fencing


@pytest.mark.promise("tokens")
def test_newer_and_equal_tokens_write_and_older_do_not(redis_client: redis.Redis) -> None:
    """A write with an equal or newer token succeeds; an older one is refused without effect."""
    for value, token in (("one", 4), ("two", 4), ("three", 9)):
        fencing.write(redis_client, "report", value, token)
        assert redis_client.get("report") == value.encode()
    for late in (8, 4, 1, 0, -1):
        with pytest.raises(fencing.StaleTokenError) as caught:
            fencing.write(redis_client, "report", "too late", late)
        assert (caught.value.token, caught.value.newest) == (late, 9)
    assert redis_client.get("report") == b"three"
    assert redis_client.get("{report}:fence") == b"9"


async def test_awaited_clients(redis_client: redis.Redis, redis_url: str) -> None:
    """`check_async` and `write_async` do the same with redis-py's asyncio clients."""
    async with redis.asyncio.from_url(redis_url) as awaited:
        await fencing.write_async(awaited, "report", "new", 9)
        await fencing.check_async(awaited, "report", 9)
        with pytest.raises(fencing.StaleTokenError):
            await fencing.write_async(awaited, "report", "too late", 8)
        with pytest.raises(fencing.StaleTokenError) as caught:
            await fencing.check_async(awaited, "report", 8)
        assert (caught.value.token, caught.value.newest) == (8, 9)
        with pytest.raises(ConfigError, match="fenced_lock"):
            await fencing.check_async(awaited, "report", None)
    assert redis_client.get("report") == b"new"


def test_large_tokens_are_told_apart(redis_client: redis.Redis) -> None:
    """Neighbouring tokens are compared as numbers, far beyond 32 bits and whatever their digits."""
    fencing.write(redis_client, "report", "a", 9)
    fencing.write(redis_client, "report", "b", 10)
    big = 2**53
    fencing.write(redis_client, "report", "c", big)
    with pytest.raises(fencing.StaleTokenError) as caught:
        fencing.write(redis_client, "report", "d", big - 1)
    assert caught.value.newest == big


@pytest.mark.parametrize(
    ("key", "fence"), [("report", "{report}:fence"), ("a{b}c", "a{b}c:fence"), ("{", "{:fence")]
)
def test_the_token_is_kept_in_the_keys_slot(
    redis_client: redis.Redis, key: str, fence: str
) -> None:
    """In a cluster what is protected and its token lie together."""
    assert fencing.fence_key(key) == fence
    fencing.write(redis_client, key, "x", 3)
    assert redis_client.get(fence) == b"3"


def test_a_write_is_one_round_trip(proxy: FaultProxy) -> None:
    """Check and write are one script, so that nothing comes in between."""
    with redis.Redis.from_url(proxy.url()) as client:
        client.ping()
        proxy.clear_record()
        fencing.write(client, "report", "x", 1)
        assert proxy.commands == {"EVAL": 1}


def test_a_fence_that_is_no_number_lets_nobody_in(redis_client: redis.Redis) -> None:
    """Whatever else stands where the token should be is neither overtaken nor overwritten."""
    redis_client.set("{report}:fence", "precious")
    with pytest.raises(ResponseError):
        fencing.write(redis_client, "report", "x", 10**6)
    assert redis_client.get("{report}:fence") == b"precious"
    assert not redis_client.exists("report")


def test_a_hold_without_token_is_refused(redis_client: redis.Redis) -> None:
    """A plain lock's hold protects nothing here: the error says which lock would."""
    with pytest.raises(ConfigError, match="fenced_lock"):
        fencing.check(redis_client, "report", None)
    assert redis_client.keys() == []
