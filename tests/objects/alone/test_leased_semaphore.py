"""The semaphore with leases: permits, their ids and their ends, on both faces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.objects.awaited import Stage, until

from interlock import ConfigError, HoldLostError, NotHeldError


async def _counts(owner: Any, semaphore: Any) -> tuple[int, int, int]:
    return (
        await owner.do(semaphore.available_permits),
        await owner.do(semaphore.acquired_permits),
        await owner.do(semaphore.permits),
    )


async def test_a_lease_is_prolonged(leased: Stage) -> None:
    """A longer lease keeps the permit longer, also by its id; a shorter one changes nothing."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 3)
    one = await owner.do(semaphore.acquire, lease=2)
    two = await owner.do(semaphore.acquire, lease=2)
    three = await owner.do(semaphore.acquire)
    await owner.do(one.extend, 60)
    await owner.do(one.extend, 1)
    await owner.do(leased.lock(leased.client()).extend, two.ids[0], 60)
    await owner.do(semaphore.extend, three, 60)
    await asyncio.sleep(2.2)  # longer than the lease that two of them had first
    assert one
    assert one.remaining > 50
    assert three.remaining > 50
    assert await _counts(owner, semaphore) == (0, 3, 3)
    await owner.do(one.release)
    with pytest.raises(NotHeldError):
        await owner.do(one.extend, 60)


async def test_a_permit_that_is_gone_is_not_prolonged(leased: Stage) -> None:
    """To prolong what the server has no more tells that it is lost."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 1)
    permit = await owner.do(semaphore.acquire, lease=60)
    leased.redis.delete("{name}:timeout")
    for _ in range(2):
        with pytest.raises(HoldLostError):
            await owner.do(permit.extend, 60)
    assert permit.lost.is_set()


@pytest.mark.parametrize("number", [0, 10_001, 1.0, True])
async def test_bad_numbers_change_nothing(leased: Stage, number: Any) -> None:
    """A number of permits that cannot be raises a clear error before anything is sent."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 3)
    calls = [semaphore.acquire, semaphore.try_acquire]
    if number not in (0, 10_001):
        calls += [semaphore.set_permits, semaphore.try_set_permits]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match="permits"):
            await owner.do(call, number)
    with pytest.raises(ConfigError, match="lease"):
        await owner.do(semaphore.acquire, lease=0)
    assert await _counts(owner, semaphore) == (3, 0, 3)


async def test_a_number_that_was_evicted_alone(leased: Stage) -> None:
    """Whatever sets the number again counts the permits that are held: never too many work."""
    ours, theirs = leased.owner(), leased.owner()
    permit = await ours.do(leased.lock(leased.client(), permits=2).acquire, 2)
    leased.redis.delete("name")
    semaphore = leased.lock(leased.client(), permits=2)
    assert await theirs.do(semaphore.try_acquire, timeout=0) is None
    assert await _counts(theirs, semaphore) == (0, 2, 2)
    await theirs.do(semaphore.set_permits, 3)
    assert await _counts(theirs, semaphore) == (1, 2, 3)
    leased.redis.delete("name")
    assert await theirs.do(semaphore.try_set_permits, 2)
    assert await _counts(theirs, semaphore) == (0, 2, 2)
    leased.redis.delete("name")
    assert await theirs.do(semaphore.try_set_permits, 1)
    assert await _counts(theirs, semaphore) == (-1, 2, 1)
    assert not await theirs.do(semaphore.try_set_permits, 5)
    await theirs.do(semaphore.set_permits, 2)
    await ours.do(permit.release)
    assert await _counts(theirs, semaphore) == (2, 0, 2)


CHANNEL = "redisson_sc:{name}"
PERMANENT = 922337203685477
JAVAS = bytes(range(240, 256))
"""The id of a permit that a Java process has."""


async def test_expired_permits_of_java_come_back(leased: Stage) -> None:
    """Any question takes back expired permits of all holders and announces the new number.

    Permanent permits stay.
    """
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    leased.redis.set("name", 0)
    now = int(leased.redis.time()[0] * 1000)
    leased.redis.zadd("{name}:timeout", {JAVAS: now - 5, b"p" * 16: PERMANENT, b"q" * 16: now - 1})
    with leased.redis.pubsub() as heard:
        heard.subscribe(CHANNEL)
        assert await owner.do(semaphore.available_permits) == 2
        messages: list[Any] = []
        await until(
            lambda: messages.append(heard.get_message()) or len([m for m in messages if m]) == 2,
            5,
            "the message came",
        )
    assert [each["data"] for each in messages if each] == [1, b"2"]
    assert leased.redis.zrange("{name}:timeout", 0, -1) == [b"p" * 16]
    assert await owner.do(semaphore.acquired_permits) == 1
    assert await owner.do(semaphore.permits) == 3
