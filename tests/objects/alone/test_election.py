"""The election on both faces: who leads, who follows, who is told, and what it costs."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import Kind, stage_of, until
from tests.support.proxy import FaultProxy, drop_reply, drop_request
from tests.support.servers import wait_until

import interlock
from interlock import (
    ServerUnavailableError,
)

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.servers import RedisServer

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


LEASE = 2.0
SOON = 10.0
"""Seconds after the end of a lease within which another candidate leads on a busy machine.

The simulator tells the promised second: tests/core/test_elections_simulated.py.
"""
CANDIDATE = """
    import redis
    resource = redis.Redis.from_url(RESOURCE)
    write = resource.register_script(\'\'\'
        if tonumber(ARGV[1]) < tonumber(redis.call('get', KEYS[1]) or 0) then return 0 end
        redis.call('set', KEYS[1], ARGV[1])
        redis.call('rpush', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
        return 1
    \'\'\')
    def lead(term):
        while not term.lost.is_set():
            term.ensure()
            if not write(["{r}:fence", "{r}:log"], [term.token, os.getpid()]):
                resource.incr("{r}:refused")
            time.sleep(0.005)  # a leader writes in real time
    say("ready")
    while True:
        try:
            with interlock.connect(url, lease=2, command_timeout=0.5) as client:
                client.election("name").run(lead)
        except interlock.InterlockError:
            time.sleep(0.1)  # the server is away
"""


def test_terms_never_overlap(server: RedisServer, redis_client: redis.Redis) -> None:
    """Another candidate leads soon after the lease, and no older token writes after a newer one."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(("127.0.0.1", server.port))) for _ in range(4)]
        code = CANDIDATE.replace("RESOURCE", repr(server.url())).replace("\\'", "'")
        children = [stack.enter_context(Child(code, proxy.url())) for proxy in proxies]
        assert [child.hear() for child in children] == ["ready"] * 4
        client = stack.enter_context(interlock.connect(server.url()))
        election = client.election("name")

        def leading(but: int | None = None) -> int | None:
            info = election.leader()
            return info.pid if info and info.pid != but else None

        def successor(pid: int) -> float:
            """Return after which time another one leads."""
            began = time.monotonic()
            wait_until(lambda: leading(pid), 20, "another one leads")
            return time.monotonic() - began

        by_pid = {child.pid: number for number, child in enumerate(children)}
        gaps = {}
        for fault in ("freeze", "cut", "kill"):
            wait_until(leading, 20, "somebody leads")
            pid = leading()
            assert pid is not None
            number = by_pid[pid]
            written = redis_client.llen("{r}:log")
            wait_until(lambda n=written: redis_client.llen("{r}:log") > n + 5, 20, "it writes")
            if fault == "freeze":
                children[number].signal(signal.SIGSTOP)
            elif fault == "cut":
                proxies[number].stop_accepting()
                proxies[number].disconnect()
            else:
                children[number].kill()
            gaps[fault] = successor(pid)
            if fault == "freeze":
                children[number].signal(signal.SIGCONT)
            elif fault == "cut":
                proxies[number].start_accepting()
        wait_until(leading, 20, "somebody leads")
        lines = [line.decode().split() for line in redis_client.lrange("{r}:log", 0, -1)]
    tokens = [int(token) for token, _ in lines]
    assert tokens == sorted(tokens)
    assert len({token for token, _ in lines}) == len({(token, pid) for token, pid in lines})
    assert len(set(tokens)) >= 3
    assert max(gaps.values()) <= LEASE + SOON, gaps
