"""How short a conversation with the server is: one EVALSHA for each call, and no other command."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.objects.awaited import Stage, until
from tests.objects.kinds import KINDS
from tests.support.proxy import FaultProxy

import interlock
from interlock import UpgradeError

LOCKS = [kind for kind in KINDS if kind.servers == 1 and kind.name not in ("lock-deaf", "together")]


def _sent(proxy: FaultProxy) -> list[bytes]:
    commands = [request.args[0] for request in proxy.record]
    proxy.clear_record()
    return commands


@pytest.mark.parametrize("kind", LOCKS, ids=lambda kind: kind.name)
async def test_a_lock(proxy: FaultProxy, plain: Stage, kind: Any) -> None:
    """Acquire and release of a free lock are one EVALSHA each, and a try in vain is one."""
    client, owner, other = plain.client(proxy.url()), plain.owner(), plain.owner()
    lock, theirs = kind.make(client, "name"), kind.make(plain.client(), "name")
    await owner.do(kind.make(client, "warm-up").acquire)
    await owner.do(kind.make(client, "warm-up").release)
    for options in ({}, {"timeout": 5, "lease": 5}):
        proxy.clear_record()
        assert await owner.do(lock.acquire, **options)
        await owner.do(lock.release)
        assert _sent(proxy) == [b"EVALSHA"] * 2
    if kind.shared:
        return
    await other.do(theirs.acquire)
    before = plain.left_behind()
    assert not await owner.do(lock.acquire, timeout=0)
    assert not await owner.do(lock.acquire, blocking=False)
    assert _sent(proxy) == [b"EVALSHA"] * 2
    assert plain.left_behind() == before, "nothing would have to be taken back"
    await other.do(theirs.release)


async def test_both_sides_of_a_read_write_lock(proxy: FaultProxy, plain: Stage) -> None:
    """So are re-entry and downgrade; an upgrade is refused without a question."""
    owner = plain.owner()
    lock = plain.client(proxy.url(), card=False).read_write_lock("name")
    await owner.do(lock.read.locked)
    proxy.clear_record()
    calls = (lock.write.acquire, lock.write.acquire, lock.read.acquire, lock.write.release)
    for call in (*calls, lock.write.release, lock.read.release):
        await owner.do(call)
    assert _sent(proxy) == [b"EVALSHA"] * 6
    await owner.do(lock.read.acquire)
    with pytest.raises(UpgradeError):
        await owner.do(lock.write.acquire)
    assert _sent(proxy) == [b"EVALSHA"]


async def test_semaphores_and_events(proxy: FaultProxy, plain: Stage) -> None:
    """So are acquires and releases of permits, however many, and all calls of an event."""
    owner, client = plain.owner(), plain.client(proxy.url(), card=False)
    semaphore, leased = client.semaphore("plain"), client.leased_semaphore("leased")
    await owner.do(semaphore.try_set_permits, 1)
    await owner.do(leased.try_set_permits, 9)
    event = client.event("event")
    await owner.do(event.is_set)
    proxy.clear_record()
    await owner.do(semaphore.acquire)
    assert not await owner.do(semaphore.acquire, timeout=0)
    await owner.do(semaphore.release)
    for number in (1, 9):
        await owner.do(leased.release, await owner.do(leased.acquire, number))
    for call in (event.set, event.wait, event.is_set, event.clear):
        await owner.do(call)
    assert _sent(proxy) == [b"EVALSHA"] * 11


async def test_idle_waiters_are_nearly_silent(proxy: FaultProxy, plain: Stage) -> None:
    """Fifty waiters of one client together send as much as one of them."""
    owner, client = plain.owner(), plain.client(proxy.url())
    await owner.do(plain.client().lock("orders").acquire)
    lock, waiters = client.lock("orders"), [plain.owner() for _ in range(50)]
    waiting = [asyncio.create_task(each.do(lock.acquire, timeout=60)) for each in waiters]
    await until(
        lambda: any(b"interlock_client:" in b" ".join(sent.args) for sent in proxy.record),
        5,
        "a card",
    )
    loop = asyncio.get_running_loop()
    proxy.clear_record()
    began = loop.time()
    await asyncio.sleep(4)  # what is sent in real time is counted
    took = loop.time() - began
    # A try per poll cap of 2 s less a quarter, and after each a look for dead clients. A PING each
    # half second, and one card per third of a lease. Each may fall into the first moment too.
    sent = [each for each in proxy.record if each.args[0] != b"EVAL"]  # the text comes once
    assert len(sent) <= sum(1 + took // period for period in (0.5, 1.5, 1.5, 5, 10))
    await plain.close(client)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {interlock.ClosedError}
