"""A process that has as many threads as it may have."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

import interlock
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let no thread of ours start from the moment that the test appends to this list."""
    full: list[bool] = []
    real = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if full and self.name.startswith("interlock-"):
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    return full


async def test_waiters_poll_without_a_subscriber(
    stage: Stage, redis_client: redis.Redis, crowded: list[bool]
) -> None:
    """If the subscriber thread cannot start, a waiter polls, and close() still releases all."""
    client, owner = stage.client(lease=3), stage.owner()
    held, wanted = client.lock("held"), client.lock("wanted")
    assert await owner.do(held.acquire)
    redis_client.hset("wanted", "somebody:1", 1)
    crowded.append(True)
    redis_client.pexpire("wanted", 400)
    assert await owner.do(wanted.acquire, timeout=10)
    assert redis_client.pubsub_channels() == []
    await stage.close(client)
    assert redis_client.keys() == []


async def test_a_later_subscription_starts_the_thread(
    stage: Stage, redis_client: redis.Redis, crowded: list[bool]
) -> None:
    """When threads can start again, the next waiter subscribes."""
    client, owner = stage.client(), stage.owner()
    lock = client.lock("name")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    redis_client.hset("name", "somebody:1", 1)
    crowded.append(True)
    assert not await owner.do(lock.acquire, timeout=0.2)
    crowded.clear()
    waiting = asyncio.create_task(owner.do(lock.acquire, timeout=20))
    await until(redis_client.pubsub_channels, 10, "it has subscribed")
    redis_client.delete("name")
    assert await waiting
    await owner.do(lock.release)


def test_nothing_is_held_without_renewal(redis_url: str, crowded: list[bool]) -> None:
    """If the renewal thread cannot start, an acquire raises and nothing is held."""
    crowded.append(True)
    with interlock.connect(redis_url) as client:
        with pytest.raises(ServerUnavailableError, match="'interlock-renewer' cannot be started"):
            client.lock("name").acquire()
        assert client.lock("name").hold is None
