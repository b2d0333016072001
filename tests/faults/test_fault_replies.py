"""Whatever the network does to a request or reply, server and client agree afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import renewed
from tests.support.cards import own_keys
from tests.support.faults import (
    command,
    delay_reply,
    drop_reply,
    swallow_reply,
)

from interlock import HoldLostError, ServerUnavailableError
from interlock._core.scripts import locks as scripts

if TYPE_CHECKING:
    from tests.lock.lock_like import Owner, Stage
    from tests.support.proxy import FaultProxy

ACQUIRE = scripts.ACQUIRE.sha
RELEASE = scripts.RELEASE["PUBLISH"].sha


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
