"""The election on both faces: who leads, who follows, who is told, and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.objects.awaited import Stage, stage_of, until
from tests.objects.kinds import Kind
from tests.support.proxy import FaultProxy, drop_reply, drop_request

from interlock import (
    ServerUnavailableError,
)

stage = stage_of(Kind("election", lambda client, name, **options: client.election(name, **options)))


KEY = "interlock_election:{name}"
LEADER = b"interlock_election_leader:{name}"
QUEUE = "interlock_queue:interlock_election:{name}"
NEWS = "interlock_election__news:{name}"


async def test_observers_find_out_without_messages(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message an observer is told within two seconds."""
    proxy.drop_messages = True
    owner, election = stage.owner(), stage.lock(stage.client(), candidate="a")
    seen: list[Any] = []
    watcher = stage.lock(stage.client(proxy.url()))
    observation = await owner.do(watcher.observe, lambda info: seen.append(info and info.candidate))
    await owner.do(stage.face.enter, election)
    await until(lambda: seen[-1:] == ["a"], 10, "it looked")
    await owner.do(stage.face.leave, election)
    await until(lambda: seen[-1:] == [None], 10, "it looked")
    await owner.do(observation.close)


@pytest.mark.parametrize("given", [False, True], ids=["taken", "given"])
async def test_a_term_is_announced_once(stage: Stage, proxy: FaultProxy, given: bool) -> None:
    """A candidate whose reply is lost finds its term, with the token that was announced."""
    client = stage.client(proxy.url(), command_timeout=0.5)
    owner, election = stage.owner(), stage.lock(client, candidate="a")
    first, other = stage.owner(), stage.lock(stage.client())
    if given:
        await first.do(stage.face.enter, other)
    entering = asyncio.create_task(owner.do(stage.face.enter, election))
    if given:
        await until(lambda: stage.redis.zcard(QUEUE) == 1, 20, "it waits")
    else:
        await entering
        await owner.do(stage.face.leave, election)
        entering = None
    with stage.redis.pubsub() as news:
        news.subscribe(NEWS)
        await until(lambda: stage.redis.pubsub_numsub(NEWS) == [(NEWS.encode(), 1)], 20, "it hears")
        once = iter([True])
        proxy.on_request(lambda request: LEADER in request and next(once, False), drop_reply)
        if entering is None:
            entering = asyncio.create_task(owner.do(stage.face.enter, election))
        else:
            await first.do(stage.face.leave, other)
        term = await asyncio.wait_for(entering, 20)
        info = await owner.do(other.leader)
        assert (info.holder, info.token, info.candidate) == (term.holder, term.token, "a")
        heard = [each["data"] for each in iter(lambda: news.get_message(timeout=0.2), None)]
    assert heard[1:] == ([b"0"] if given else []) + [b"1"]
    await owner.do(stage.face.leave, election)


async def test_a_term_that_the_server_does_not_announce_does_not_begin(
    stage: Stage, proxy: FaultProxy
) -> None:
    """Without an answer nobody leads, and soon another one may."""
    client = stage.client(proxy.url(), command_timeout=0.3, outage_timeout=0.3)
    owner, election, other = stage.owner(), stage.lock(client), stage.lock(stage.client())
    await owner.do(stage.face.enter, election)
    await owner.do(stage.face.leave, election)
    proxy.on_request(lambda request: LEADER in request, drop_reply)
    with pytest.raises(ServerUnavailableError):
        await owner.do(stage.face.enter, election)
    await owner.do(stage.face.enter, other)
    await owner.do(stage.face.leave, other)


async def test_who_was_granted_the_lock_does_not_lead_yet(stage: Stage, proxy: FaultProxy) -> None:
    """A candidate leads from when it has asked: the record before is another term's."""
    first, second = stage.owner(), stage.owner()
    mine, theirs = stage.lock(stage.client()), stage.lock(stage.client(proxy.url()))
    await first.do(stage.face.enter, mine)
    waiting = asyncio.create_task(second.do(stage.face.enter, theirs))
    await until(lambda: stage.redis.zcard(QUEUE) == 1, 20, "it waits")
    proxy.on_request(lambda request: LEADER in request, drop_request)
    await first.do(stage.face.leave, mine)
    assert stage.redis.hlen(KEY) == 1
    assert await first.do(mine.leader) is None
    proxy.clear_rules()
    term = await asyncio.wait_for(waiting, 20)
    assert (await first.do(mine.leader)).holder == term.holder
    await second.do(stage.face.leave, theirs)


@pytest.mark.parametrize("candidate", ["", "x" * 1001, 5])
async def test_bad_candidates(stage: Stage, candidate: Any) -> None:
    """A candidate that is no name raises before anything is sent."""
    with pytest.raises((ValueError, TypeError), match="candidate"):
        stage.lock(stage.client(), candidate=candidate)
