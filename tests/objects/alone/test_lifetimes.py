"""What nobody uses any more leaves the server: ``idle=``."""

from __future__ import annotations

import asyncio

import pytest
from tests.objects.awaited import Stage, until

from interlock import ConfigError, LatchDeletedError

TOTAL, LEASES = "interlock_semaphore_total:{name}", "{name}:timeout"


async def test_no_lease_outlasts_its_semaphore(leased: Stage) -> None:
    """A lease that is longer than the semaphore stays is refused, or a permit ended too early."""
    owner, client = leased.owner(), leased.client(lease=10)
    semaphore = leased.lock(client, permits=2, idle=20)
    for call in (semaphore.acquire, semaphore.try_acquire):
        with pytest.raises(ConfigError, match="removed after 20 s, and a lease of 21 s is longer"):
            await owner.do(call, lease=21)
    permit = await owner.do(semaphore.acquire, lease=20)
    for target in (permit, permit.ids[0]):
        with pytest.raises(ConfigError, match="give a longer idle="):
            await owner.do(semaphore.extend, target, 21)
    with pytest.raises(ConfigError, match="removed after 9 s"):
        leased.lock(client, permits=2, idle=9)


async def test_waiters_are_told_of_an_idle_latch_that_has_ended(plain: Stage) -> None:
    """A waiter that could not look in time hears that the latch is gone, not that it is open."""
    client, owners = plain.client(), [plain.owner() for _ in range(2)]
    latch = client.count_down_latch("name", count=1, idle=1.5)
    waits = [asyncio.ensure_future(owner.do(latch.wait, timeout=30)) for owner in owners]
    places = client._driver.session.queues.places
    await until(lambda: len(places) == 2, 10, "both wait")
    plain.redis.execute_command("CLIENT", "PAUSE", "2500", "ALL")
    for ended in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(ended, LatchDeletedError)
        assert "the idle time of latch 'name' ended" in str(ended)


async def test_what_cannot_end_is_refused(plain: Stage) -> None:
    """An end without a number, and spans that cannot be are told."""
    client = plain.client()
    with pytest.raises(ConfigError, match="give permits= too"):
        client.semaphore("name", idle=1)
    with pytest.raises(ConfigError, match="give count= too"):
        client.count_down_latch("name", idle=1)
    for bad in (0, -1, float("nan"), "1"):
        with pytest.raises((ConfigError, TypeError), match="idle"):
            client.leased_semaphore("name", permits=1, idle=bad)
        with pytest.raises((ConfigError, TypeError), match="idle"):
            client.event("name", idle=bad)
