"""What goes over the wire: the conversation that Java takes part in, and how short it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import ON_ONE_SERVER, sent_in, until

import interlock

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy


on_one_server = pytest.mark.parametrize(
    "kind", ON_ONE_SERVER, indirect=True, ids=lambda kind: kind.name
)


@on_one_server
async def test_uncontended_is_two_round_trips(proxy: FaultProxy, stage: Stage) -> None:
    """Acquire and release of a free lock are one EVALSHA each: no subscription, no second look."""
    client, owner = stage.client(proxy.url()), stage.owner()
    await owner.do(stage.lock(client, "warm-up").acquire)
    await owner.do(stage.lock(client, "warm-up").release)
    lock = stage.lock(client)
    for options in ({}, {"timeout": 5, "lease": 5}):
        proxy.clear_record()
        assert await owner.do(lock.acquire, **options)
        await owner.do(lock.release)
        assert [request.args[0] for request in proxy.record] == [b"EVALSHA", b"EVALSHA"]


@on_one_server
async def test_a_refused_single_try_is_one_round_trip(proxy: FaultProxy, stage: Stage) -> None:
    """A try without waiting asks once, and writes nothing that would have to be taken back."""
    owner, other = stage.owner(), stage.owner()
    lock = stage.lock(stage.client(proxy.url()))
    await owner.do(stage.lock(stage.client()).acquire)
    await other.do(lock.locked)
    before = stage.left_behind()
    proxy.clear_record()
    assert not await other.do(lock.acquire, timeout=0)
    assert not await other.do(lock.acquire, blocking=False)
    assert proxy.commands == {"EVALSHA": 2}
    assert stage.left_behind() == before


async def test_an_idle_waiter_is_nearly_silent(proxy: FaultProxy, plain: Stage) -> None:
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
    took = await sent_in(proxy, 4)
    # A try per poll cap of 2 s less a quarter, and after each a look for dead clients. A PING each
    # half second, and one card per third of a lease. Each may fall into the first moment too.
    sent = [each for each in proxy.record if each.args[0] != b"EVAL"]  # the text comes once
    assert len(sent) <= sum(1 + took // period for period in (0.5, 1.5, 1.5, 5, 10))
    await plain.close(client)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {interlock.ClosedError}
