"""What holds for each wait for an event, a latch or a permit, on both faces.

Waits for locks have cases of their own: ``tests/lock``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.waited import WAITED, Waited
from tests.lock.lock_like import Face, Stage, queued, sent_in

from interlock import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.support.proxy import FaultProxy


@pytest.fixture(params=WAITED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Waited:
    """Give each thing that is waited for in turn."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def stage(
    face: Face, kind: Waited, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give each of them on each face in turn, in the state that makes a call wait."""
    set_up = Stage(face, kind, redis_url, loaded)
    await set_up.owner().do(kind.begin(set_up.lock(set_up.client())))
    yield set_up
    await set_up.end()


@pytest.mark.parametrize("timeout", [-2, -0.5, float("nan"), "1"])
async def test_bad_timeouts(stage: Stage, kind: Waited, timeout: Any) -> None:
    """Time-outs are checked before anything is taken."""
    before = stage.redis.get("name")
    with pytest.raises(ConfigError, match="timeout must be"):
        await stage.owner().do(kind.wait(stage.lock(stage.client())), timeout=timeout)
    assert stage.redis.get("name") == before


async def test_minus_one_waits_for_ever(stage: Stage, kind: Waited) -> None:
    """A timeout of -1 is none, as everywhere."""
    client = stage.client()
    waiting = asyncio.create_task(stage.owner().do(kind.wait(stage.lock(client)), timeout=-1))
    await queued(client)
    assert not waiting.done()
    await stage.owner().do(kind.go_on(stage.lock(stage.client())))
    assert await asyncio.wait_for(waiting, 20)


async def test_idle_waiters_are_nearly_silent(
    proxy: FaultProxy, stage: Stage, kind: Waited
) -> None:
    """Thirty waiters of one client cost about one command per poll cap together."""
    client = stage.client(proxy.url())
    waiting = [
        asyncio.create_task(stage.owner().do(kind.wait(stage.lock(client)), timeout=60))
        for _ in range(30)
    ]
    await queued(client, count=30)
    took = await sent_in(proxy, 1.5)
    polls = took / 0.5 + 1  # of two commands each: what it waits for, and whether others have died
    assert proxy.commands["EVALSHA"] <= 2 * polls, "each for itself would be thirty times that"
    await stage.close(client)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClosedError}
