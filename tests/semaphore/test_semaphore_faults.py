"""Lost replies, late copies and interruptions on a real server: no permit is lost or invented."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.faults import FAULTS
from tests.support.proxy import command, delay, drop_request, swallow_reply

from interlock import ServerUnavailableError
from interlock._core.model.names import latch_total

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_setting_up_counts_once(plain: Stage, proxy: FaultProxy, fault: Action) -> None:
    """The creator of a semaphore is told so even if the first reply was lost."""
    owner, client = plain.owner(), plain.client(proxy.url(), command_timeout=0.8)
    semaphore = plain.lock(client)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA", nth=1), fault)
    assert await owner.do(semaphore.try_set_permits, 5) is True
    assert plain.redis.get("name") == b"5"


@pytest.mark.parametrize("granted", [True, False])
async def test_a_stray_try_leaves_no_permit_taken(
    leased: Stage, proxy: FaultProxy, granted: bool
) -> None:
    """A late first try of an acquire takes a permit, which is soon given back.

    The try is executed when all is over. The permit comes back long before its lease ends.
    """
    owner, client = leased.owner(), leased.client(proxy.url(), command_timeout=0.3)
    semaphore = leased.lock(client)
    leased.redis.set("name", int(granted))
    await owner.do(semaphore.permits)
    proxy.on_request(command("EVALSHA", nth=1), delay(2.5))
    permit = await owner.do(semaphore.try_acquire, timeout=1.0)
    assert bool(permit) is granted
    if permit:
        await owner.do(permit.release)
    leased.redis.set("name", 1)
    leased.redis.config_resetstat()
    await until(lambda: "cmdstat_zadd" in leased.redis.info("commandstats"), 10, "it is executed")
    await until(lambda: leased.redis.get("name") == b"1", 10, "what it took is given back")


@pytest.mark.parametrize("call", ["release", "release_if_exists", "count_down"])
async def test_what_is_given_first_in_an_outage_counts(
    plain: Stage, proxy: FaultProxy, call: str
) -> None:
    """If a number cannot even be looked up before permits come back, the background brings them."""
    owner, name = plain.owner(), call.partition("_")[0]
    away = plain.client(proxy.url(), command_timeout=0.3, outage_timeout=2)
    await owner.do(away.lock("other").locked)
    for client in (plain.client(), away):
        if name == "count":
            joint: Any = client.count_down_latch(name, count=5)
            left = joint.count
        else:
            joint = client.semaphore(name, permits=5)
            left = joint.available_permits
        if client is not away:
            assert await owner.do(left) == 5
    proxy.on_request(command("EVALSHA"), drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(getattr(joint, call))
    assert plain.redis.get(name) == b"5"
    proxy.clear_rules()
    after = b"4" if name == "count" else b"6"
    await until(lambda: plain.redis.get(name) == after, 20, "it counts")


@pytest.mark.parametrize("call", ["count_down", "release"])
async def test_what_is_given_first_sets_up_what_is_missing(
    plain: Stage, proxy: FaultProxy, call: str
) -> None:
    """If nobody has set a latch up, the background sets its count before it counts down.

    The latch ends by itself as one that the client has set up. A release by who has acquired nothing
    adds to the number that it makes.
    """
    owner, name = plain.owner(), call.partition("_")[0]
    client = plain.client(proxy.url(), command_timeout=0.3, outage_timeout=2)
    await owner.do(client.lock("other").locked)
    if name == "count":
        joint: Any = client.count_down_latch(name, count=5, idle=900)
    else:
        joint = client.semaphore(name, permits=5)
    proxy.on_request(command("EVALSHA"), drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(getattr(joint, call))
    proxy.clear_rules()
    latch = "redisson_unlock_latch:{" + name + "}:*"
    await until(lambda: plain.redis.keys(latch), 20, "it was carried through")
    if name == "count":
        ends = [plain.redis.pttl(key) for key in (name, latch_total(name))]
        assert all(0 < each <= 900_000 for each in ends)
    left = joint.count if name == "count" else joint.available_permits
    assert await owner.do(left) == (4 if name == "count" else 6)


@pytest.mark.parametrize("call", ["acquire", "drain_permits", "release"])
async def test_an_outage_that_is_too_long(plain: Stage, proxy: FaultProxy, call: str) -> None:
    """If no reply comes at all, the call raises, and is settled when the server is back.

    Permits that were taken come back. Permits that were given stay.
    """
    client = plain.client(proxy.url(), command_timeout=0.8, outage_timeout=0.8)
    owner, semaphore = plain.owner(), plain.lock(client)
    plain.redis.set("name", 5)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA"), swallow_reply)
    with pytest.raises(ServerUnavailableError):
        await owner.do(getattr(semaphore, call))
    proxy.clear_rules()
    wanted = b"6" if call == "release" else b"5"
    await until(lambda: plain.redis.get("name") == wanted, 5, "it is settled")
    await asyncio.sleep(0.5)  # what comes late has come
    assert plain.redis.get("name") == wanted


@pytest.mark.parametrize("executed", [True, False])
async def test_an_unanswered_extension_makes_nothing_shorter(
    leased: Stage, proxy: FaultProxy, executed: bool
) -> None:
    """Without an answer it raises after the outage time-out, and the permit has its old lease."""
    client = leased.client(proxy.url(), command_timeout=0.3, outage_timeout=0.5)
    owner, semaphore = leased.owner(), leased.lock(client)
    leased.redis.set("name", 1)
    permit = await owner.do(semaphore.acquire, lease=100)
    proxy.on_request(command("EVALSHA"), swallow_reply if executed else drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(permit.extend, 200)
    proxy.clear_rules()
    assert 90 < permit.remaining < 100
    await owner.do(permit.release)


async def test_a_server_that_was_never_there(plain: Stage, proxy: FaultProxy) -> None:
    """A call that was never sent has nothing to undo: it fails, and nothing happens later."""
    proxy.stop_accepting()
    client = plain.client(proxy.url(), card=False, command_timeout=0.3, outage_timeout=0.5)
    owner, semaphore = plain.owner(), plain.lock(client)
    for call in (semaphore.acquire, semaphore.release):
        with pytest.raises(ServerUnavailableError):
            await owner.do(call)
    proxy.start_accepting()
    await asyncio.sleep(0.5)  # what comes late has come
    assert proxy.commands["EVALSHA"] == 0
