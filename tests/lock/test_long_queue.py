"""Many clients wait for one lock: most of them look more rarely, and none is forgotten."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

import interlock.asyncio
from interlock._core.scripts import read_write_lock
from interlock._core.scripts.fenced_lock import fenced_lock_acquire
from interlock._core.scripts.lock import lock_acquire, stand_in_queue
from interlock._core.scripts.script import Crowd, Grant, Shortage, clients_of
from interlock._core.scripts.semaphore import semaphore_acquire
from interlock._core.scripts.semaphore import stand_in_queue as stand_in_queue_for_permits
from interlock._core.waiters import FEW, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from interlock._core.effects import Eval

QUEUE = "interlock_queue:{name}"
MANY = 160
"""Clients that wait."""

ACQUIRES: dict[str, Callable[[], Eval[Any]]] = {
    "lock": lambda: lock_acquire("name", 30, "me:1", 1),
    "fenced_lock": lambda: fenced_lock_acquire("name", "token:{name}", 30, "me:1", 1, 0, 0),
    "write_lock": lambda: read_write_lock.write_lock_acquire(
        "name", "{name}:", 30, "me:1:write", 1
    ),
    "read_lock": lambda: read_write_lock.read_lock_acquire("name", "{name}:", 30, "me:1", 1, ""),
}
"""What a client sends that waits, by the kind of lock."""


def answers(store: redis.Redis, kind: str, *, waiting: int) -> list[Grant | float]:
    """Return what a client of a queue of *waiting* clients is told at each of many tries."""
    store.hset("name", mapping={"mode": "write", "other:1:write": 1})
    store.pexpire("name", 20_000)
    store.zadd(QUEUE, {"me": 1, **{f"client-{number}": number for number in range(2, waiting + 1)}})
    call = ACQUIRES[kind]()
    stand_in_queue(call, "me", QUEUE, more=False, keep=10)
    texts = (call.script.text, len(call.keys), *call.keys, *call.args)
    return [call.script.decode(store.eval(*texts)) for _ in range(400)]


@pytest.mark.parametrize("kind", ACQUIRES)
def test_some_clients_of_a_long_queue_learn_the_lease_and_most_the_length(
    redis_client: redis.Redis, kind: str
) -> None:
    """Which ones these are is left to chance: about 32 of all learn when the lease ends."""
    told = answers(redis_client, kind, waiting=100)
    crowds = [answer.clients for answer in told if isinstance(answer, Crowd)]
    others = [answer for answer in told if not isinstance(answer, Crowd)]
    assert set(crowds) == {100}
    assert 0.3 < len(crowds) / len(told) < 0.95  # 0.68 on average
    assert all(isinstance(answer, float) and 10 < answer <= 20 for answer in others)


@pytest.mark.parametrize("kind", ACQUIRES)
def test_all_clients_of_a_short_queue_learn_the_lease(redis_client: redis.Redis, kind: str) -> None:
    """Up to 32 clients look as usual."""
    told = answers(redis_client, kind, waiting=FEW)
    assert all(isinstance(answer, float) and 10 < answer <= 20 for answer in told)


def test_a_longer_queue_makes_looks_rarer_up_to_a_limit() -> None:
    """A short lease is no reason to look early, and each answer counts for itself."""
    place = Place("channel:{name}", "me")
    seen = list[float]()
    for answer in (Crowd(48), Shortage(10_000), 0.25, Crowd(33)):
        place.refused(answer, clients_of(answer))
        seen.append(place.rarity)
    assert seen == [1.5, 3.0, 1.0, 33 / 32]
    assert place.left == float("inf")


def test_most_clients_of_a_long_queue_for_permits_learn_its_length(
    redis_client: redis.Redis,
) -> None:
    """A refused request for permits tells it too, and takes none."""
    queue, channel = "interlock_semaphore_queue:{name}", "redisson_sc:{name}"
    redis_client.set("name", 0)
    waiting = {f"client-{number}": number for number in range(1, 100)}
    redis_client.zadd(queue, waiting)
    told = list[int]()
    for number in range(400):
        call = semaphore_acquire("name", f"latch:{{name}}:{number}", "none:{name}", 1, 10)
        stand_in_queue_for_permits(call, "me", channel, "PUBLISH", more=False, keep=10)
        texts = (call.script.text, len(call.keys), *call.keys, *call.args)
        told.append(call.script.decode(redis_client.eval(*texts)))
    assert not any(told)
    assert {clients_of(answer) for answer in told} == {0, 100}
    assert 0.3 < sum(clients_of(answer) > 0 for answer in told) / len(told) < 0.95
    assert redis_client.zcard(queue) == 100


class Fleet:
    """Clients that wait for one lock, each with connections of its own."""

    def __init__(self, url: str, server: redis.Redis, poll_cap: float) -> None:
        self.url = url
        self.server = server
        self.poll_cap = poll_cap
        self.had: list[float] = []

    async def run(self, meanwhile: Callable[[], Any]) -> Any:
        """Make all wait, and call *meanwhile*, which ends their wait; return its result."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    interlock.asyncio.connect(self.url, poll_cap=self.poll_cap)
                )
                for _ in range(MANY)
            ]
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                for client in clients:
                    _ = group.create_task(self._turn(client))
                while self.server.zcard(QUEUE) < MANY:  # noqa: ASYNC110 - it is on the server
                    await asyncio.sleep(0.05)
                return await asyncio.to_thread(meanwhile)

    async def _turn(self, client: interlock.asyncio.Client) -> None:
        async with client.lock("name"):
            self.had.append(time.monotonic())


def test_a_long_queue_looks_more_rarely(redis_url: str, redis_client: redis.Redis) -> None:
    """All clients together look less often than once per poll cap each."""
    poll_cap, seconds = 0.5, 3.0
    fleet = Fleet(redis_url, redis_client, poll_cap)

    def looks() -> int:
        return int(redis_client.info("commandstats")["cmdstat_evalsha"]["calls"])

    def count() -> int:
        time.sleep(poll_cap)  # the first look of each, which came before the queue was long
        before = looks()
        time.sleep(seconds)
        counted = looks() - before
        redis_client.delete("name")
        redis_client.publish("redisson_lock__channel:{name}", "0")
        return counted

    redis_client.hset("name", "other:1", 1)
    counted = asyncio.run(fleet.run(count))
    assert 0 < counted < MANY * seconds / poll_cap
    assert len(fleet.had) == MANY


def test_the_end_of_a_lease_is_seen_in_a_long_queue(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Somebody looks then, although each one's next look is far away; and all have their turns."""
    fleet = Fleet(redis_url, redis_client, 60)
    redis_client.hset("name", "dead:1", 1)
    redis_client.pexpire("name", 5000)
    ends = time.monotonic() + 5
    asyncio.run(fleet.run(lambda: None))
    assert len(fleet.had) == MANY
    assert 0 <= fleet.had[0] - ends + 0.1 < 1
