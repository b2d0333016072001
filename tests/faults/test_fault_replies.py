"""Whatever the network does to a request or reply, server and client agree afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import renewed, until
from tests.support.cards import own_keys
from tests.support.faults import (
    Action,
    command,
    delay,
    delay_reply,
    dribble,
    drop_reply,
    drop_request,
    duplicate,
    reset,
    swallow_reply,
)

from interlock import HoldLostError, ServerUnavailableError
from interlock._core.scripts import locks as scripts

if TYPE_CHECKING:
    from tests.lock.lock_like import Owner, Stage
    from tests.support.proxy import FaultProxy

ACQUIRE = scripts.ACQUIRE.sha
RELEASE = scripts.RELEASE["PUBLISH"].sha
RENEW = scripts.RENEW.sha
NOISE = 5.0
"""Seconds by which a call may end late on a machine that stalls."""

FAULTS = [
    drop_request,
    reset,
    drop_reply,
    swallow_reply,
    duplicate,
    dribble,
    delay(0.7),
    delay_reply(0.7),
]
"""A delay is longer than the time-out of one command here."""


@pytest.fixture(params=FAULTS, ids=lambda action: action.kind)
def fault(request: pytest.FixtureRequest) -> Action:
    """Give each fault in turn."""
    return request.param


async def _warm(stage: Stage, **options: Any) -> tuple[Any, Owner]:
    """Return a lock whose scripts the server knows and whose connection is open, and its owner."""
    lock, owner = stage.client(command_timeout=0.4, **options).lock("name"), stage.owner()
    for step in (lock.acquire, lock.acquire, lock.release, lock.release):
        await owner.do(step)
    return lock, owner


async def test_an_answer_that_comes_after_the_lease(stage: Stage, proxy: FaultProxy) -> None:
    """A re-entry that is answered after the lease that it asked for raises HoldLostError."""
    lock, owner = stage.client().lock("name", lease=0.5), stage.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.acquire)
    proxy.on_request(command("EVALSHA", nth=1), delay_reply(0.6))
    with pytest.raises(HoldLostError):
        await owner.do(lock.acquire)


async def test_one_fault_in_an_operation(stage: Stage, proxy: FaultProxy, fault: Action) -> None:
    """Acquire, re-entry and both releases each meet a fault; both sides count each once."""
    lock, owner = await _warm(stage)
    for script, step, depth in (
        (ACQUIRE, lock.acquire, 1),
        (ACQUIRE, lock.acquire, 2),
        (RELEASE, lock.release, 1),
        (RELEASE, lock.release, 0),
    ):
        proxy.clear_rules()
        proxy.clear_record()
        proxy.on_request(command("EVALSHA", script, nth=1), fault)
        await owner.do(step)
        assert len(proxy.fired) == 1
        hold = await owner.do(lambda: lock.hold)
        assert (0 if hold is None else hold.depth) == depth
        assert stage.redis.hvals("name") == ([str(depth).encode()] if depth else [])
        if fault.kind == "delay":
            # What was given up and sent again comes late, and again changes nothing.
            await asyncio.sleep(0.5)
            assert stage.redis.hvals("name") == ([str(depth).encode()] if depth else [])


# One thread renews for both faces.
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_one_fault_in_a_renewal(stage: Stage, proxy: FaultProxy, fault: Action) -> None:
    """A renewal that meets a fault is sent again, and the hold lives on."""
    lock, owner = await _warm(stage, lease=4)
    proxy.clear_record()
    proxy.on_request(command("EVALSHA", RENEW, nth=1), fault)
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    await until(lambda: proxy.fired, 10, "a renewal met the fault")
    await renewed(hold)
    assert len(proxy.fired) == 1
    assert hold.valid
    assert not hold.lost.is_set()
    assert stage.redis.pttl("name") > 0
    await owner.do(lock.release)
    assert not stage.redis.exists("name")


async def test_every_reply_of_an_acquire_is_lost(stage: Stage, proxy: FaultProxy) -> None:
    """When no reply comes, the acquire raises in time, and its possible grant is soon undone."""
    lock, owner = await _warm(stage)
    for timeout, action in ((0, swallow_reply), (0.4, drop_reply), (0.4, swallow_reply)):
        proxy.clear_record()
        proxy.on_request(command("EVALSHA", ACQUIRE), action)
        started = time.monotonic()
        with pytest.raises(ServerUnavailableError) as caught:
            await owner.do(lock.acquire, timeout=timeout)
        assert time.monotonic() - started < timeout + NOISE
        assert caught.value.sent
        assert proxy.fired
        assert await owner.do(lambda: lock.hold) is None
        await until(lambda: not stage.redis.exists("name"), 10, "what the server did is undone")
        proxy.clear_rules()
        assert await owner.do(lock.acquire, timeout=10)
        assert stage.redis.hvals("name") == [b"1"]
        await owner.do(lock.release)
    assert not stage.redis.exists("name")


async def test_every_reply_of_a_reentry_is_lost(stage: Stage, proxy: FaultProxy) -> None:
    """A re-entry without a reply raises; the depth stays as it was.

    That on the server is a copy, which may be too large.
    """
    lock, owner = await _warm(stage)
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    proxy.on_request(command("EVALSHA", ACQUIRE), swallow_reply)
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.acquire, timeout=0)
    assert (hold.depth, hold.valid) == (1, True)
    await owner.do(lock.release)
    assert not stage.redis.exists("name")


async def test_every_reply_of_a_release_is_lost(stage: Stage, proxy: FaultProxy) -> None:
    """A release without a reply raises after the outage time; the background goes on with it."""
    lock, owner = await _warm(stage, outage_timeout=0.3)
    for action in (drop_reply, swallow_reply, drop_request):
        assert await owner.do(lock.acquire)
        proxy.on_request(command("EVALSHA", RELEASE), action)
        with pytest.raises(ServerUnavailableError):
            await owner.do(lock.release)
        assert not await owner.do(lambda: bool(lock.hold))
        proxy.clear_rules()
        await until(lambda: not stage.redis.exists("name"), 10, "it is released")


async def test_an_acquire_that_is_executed_late(stage: Stage, proxy: FaultProxy) -> None:
    """A request that is executed after its caller gave up, and after the undo, is undone too."""
    lock, owner = await _warm(stage)
    stage.redis.config_resetstat()
    proxy.on_request(command("EVALSHA", ACQUIRE, nth=1), delay(1.8))
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.acquire, timeout=0)
    # Count the writes: the key may be gone again before anybody looks.
    assert "cmdstat_hset" not in stage.redis.info("commandstats")
    await until(
        lambda: "cmdstat_hset" in stage.redis.info("commandstats"), 10, "it is executed late"
    )
    await until(lambda: not stage.redis.exists("name"), 10, "the late request is undone")


async def test_a_reply_that_takes_longer_than_the_lease(stage: Stage, proxy: FaultProxy) -> None:
    """An acquire whose reply comes after its lease never succeeds with a hold that is over."""
    client, owner, other = stage.client(), stage.owner(), stage.owner()
    lock, theirs = client.lock("name", lease=1.0), stage.client().lock("name")
    for step in (lock.acquire, lock.release, theirs.acquire, theirs.release):
        await (other if step in (theirs.acquire, theirs.release) else owner).do(step)
    proxy.on_request(command("EVALSHA", ACQUIRE, nth=1), delay_reply(2.5))
    taking = asyncio.create_task(owner.do(lock.acquire))
    await until(lambda: stage.redis.exists("name"), 2, "it is granted")
    assert await other.do(theirs.acquire, timeout=10)
    tries = proxy.commands["EVALSHA"]
    await until(lambda: proxy.commands["EVALSHA"] >= tries + 2, 10, "it gives up and tries again")
    assert not taking.done(), "the other one has it"
    await other.do(theirs.release)
    assert await taking
    hold = await owner.do(lambda: lock.hold)
    assert hold.valid
    assert stage.redis.hkeys("name") == [hold.holder.encode()]
    await owner.do(lock.release)


async def test_a_late_reply_leaves_nothing_behind(stage: Stage, proxy: FaultProxy) -> None:
    """An acquire whose replies all come too late returns False or raises, and leaves no key.

    Each reply comes after the lease, until the caller's time is up.
    """
    client, owner = stage.client(command_timeout=2), stage.owner()
    lock, first = client.lock("name", lease=0.2), client.lock("name")
    for step in (first.acquire, first.release):
        await owner.do(step)
    proxy.on_request(command("EVALSHA"), delay_reply(0.3))
    started = time.monotonic()
    with contextlib.suppress(ServerUnavailableError):
        assert not await owner.do(lock.acquire, timeout=0.7)
    assert time.monotonic() - started < 0.7 + NOISE
    assert await owner.do(lambda: lock.hold) is None
    await until(lambda: not stage.redis.exists("name"), 10, "nothing is left")


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "leased_semaphore"])
async def test_a_lease_that_is_too_short_is_told(
    stage: Stage, proxy: FaultProxy, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that is over before the answer comes is told once, with what to do about it."""
    client, owner = stage.client(command_timeout=5), stage.owner()
    if kind == "leased_semaphore":
        semaphore = client.leased_semaphore("name", 1)
        await owner.do(semaphore.permits)
        act: Any = functools.partial(semaphore.try_acquire, timeout=1, lease=0.2)
    else:
        await owner.do(getattr(client, kind)("name").locked)
        act = functools.partial(getattr(client, kind)("name", lease=0.2).acquire, timeout=1)
    proxy.on_request(command("EVALSHA"), delay_reply(0.3))
    for _ in range(2):
        with contextlib.suppress(ServerUnavailableError):
            assert not await owner.do(act)
    (told,) = [each for each in caplog.records if each.levelname == "WARNING"]
    words = kind.replace("_", " ")
    assert f"an acquire of {words} 'name' came after its lease of 0.2 s" in told.getMessage()
    assert "must be longer than the way to the server and back" in told.getMessage()


async def test_an_unknown_script_is_told_once(stage: Stage, proxy: FaultProxy) -> None:
    """A server that forgot a script is sent its text once for each command, which runs once."""
    lock, owner = await _warm(stage)
    for script, step, depth in (
        (scripts.ACQUIRE, lock.acquire, 1),
        (scripts.ACQUIRE, lock.acquire, 2),
        (scripts.RELEASE["PUBLISH"], lock.release, 1),
        (scripts._QUERY, lock.locked, 1),
        (scripts.RELEASE["PUBLISH"], lock.release, 0),
    ):
        stage.redis.script_flush()
        proxy.clear_record()
        await owner.do(step)
        assert [(request.args[0], request.args[1]) for request in proxy.record] == [
            (b"EVALSHA", script.sha.encode()),
            (b"EVAL", script.text.encode()),
        ]
        assert stage.redis.hvals("name") == ([str(depth).encode()] if depth else [])


# One thread renews for both faces.
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_an_unknown_script_in_a_renewal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that forgets the scripts all the time costs no hold."""
    monkeypatch.setattr("interlock._core.upkeep.watchdog.BATCH", 2)
    client, owner = stage.client(renewed="soon"), stage.owner()
    locks = [client.lock(f"name-{number}") for number in range(5)]
    for lock in locks:
        await owner.do(lock.acquire)
    holds = [await owner.do(lambda lock=lock: lock.hold) for lock in locks]
    renewing = asyncio.create_task(renewed(*holds))
    while not renewing.done():
        stage.redis.script_flush()
        await asyncio.sleep(0.02)  # scripts are known in between
    await renewing
    for lock in locks:
        assert await owner.do(lock.owned)
        await owner.do(lock.release)
    assert not own_keys(stage.redis)


async def test_the_text_of_an_unknown_script_is_lost(stage: Stage, proxy: FaultProxy) -> None:
    """When the reply to the text is lost, the script is executed twice and counts once."""
    lock, owner = await _warm(stage)
    for step, depth in (
        (lock.acquire, 1),
        (lock.acquire, 2),
        (lock.release, 1),
        (lock.release, 0),
    ):
        stage.redis.script_flush()
        proxy.clear_rules()
        proxy.clear_record()
        proxy.on_request(command("EVAL", nth=1), drop_reply)
        await owner.do(step)
        assert len(proxy.fired) == 1
        assert stage.redis.hvals("name") == ([str(depth).encode()] if depth else [])


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "leased_semaphore"])
async def test_a_lease_that_ran_out_is_no_forced_release(stage: Stage, kind: str) -> None:
    """The reason for the end of a lease is that it expired, for permits and fair locks too."""
    client, owner = stage.client(), stage.owner()
    if kind == "leased_semaphore":
        semaphore = client.leased_semaphore("name", 1)
        hold = await owner.do(semaphore.acquire, lease=1.0)
        release = hold.release
    else:
        lock = getattr(client, kind)("name", lease=1.0)
        await owner.do(lock.acquire)
        hold, release = await owner.do(lambda: lock.hold), lock.release
    await until(lambda: not hold.valid, 10, "its lease is over")
    with pytest.raises(HoldLostError) as raised:
        await owner.do(release)
    assert raised.value.reason == "expired"
