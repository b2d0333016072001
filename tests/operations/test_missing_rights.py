"""A right that an operator lacks is an error with the line that permits it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from interlock import connect
from interlock._core.insight.card import CARD, FORMAT, INDEX
from interlock.check import Requirements
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis


OTHER = "00000000-0000-0000-0000-00000000beef"


@pytest.fixture
def held(redis_client: redis.Redis) -> redis.Redis:
    """Give a server with a lock, and a card that tells of its holder."""
    redis_client.hset("orders", f"{OTHER}:1", 1)
    told = {"client": f'{{"format": {FORMAT}, "period": 9.0, "waits": 1}}', "written": time.time()}
    redis_client.hset(CARD.format(OTHER), mapping=told)
    redis_client.zadd(INDEX, {OTHER: int(time.time() * 1000) + 60_000})
    return redis_client


@pytest.mark.parametrize(
    "rules",
    [
        ("~interlock_*",),
        ("~orders", "~{orders*", "~redisson_lock*", "~interlock_*{orders*"),
        ("~*", "-pubsub|numsub"),
        ("~*", "-scan"),
        ("~*", "-evalsha"),
        ("~*", "-hget"),
    ],
    ids=["the lock", "cards", "listeners", "scan", "scripts", "commands in scripts"],
)
def test_a_missing_right_is_an_error_with_the_line(
    held: redis.Redis, narrow: Callable[..., str], rules: tuple[str, ...]
) -> None:
    """The error has what the server said, and the operator's line."""
    del held
    with connect(narrow(*rules), card=False) as client:
        with pytest.raises(ServerUnavailableError, match="lacks a right") as refused:
            list(client.locks())
        assert refused.value.code == "NOPERM"
        assert str(refused.value).endswith(Requirements(("operator",)).acl_line())
        if "-scan" not in rules:
            with pytest.raises(ServerUnavailableError, match=r" \+zscan "):
                client.describe("orders")


def test_names_that_the_user_may_read_can_be_listed(
    held: redis.Redis, narrow: Callable[..., str]
) -> None:
    """A tenant lists its own locks beside those of others."""
    held.hset("acme:1", f"{OTHER}:2", 1)
    with connect(narrow("~acme:*", "~*{acme:*", "~interlock_client*"), card=False) as client:
        assert [info.name for info in client.locks("acme:*")] == ["acme:1"]
        with pytest.raises(ServerUnavailableError):
            list(client.locks())
