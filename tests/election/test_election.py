"""The election on both faces: who leads, who follows, who is told, and what it costs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import sent_in, until
from tests.support.proxy import delay, drop_reply, drop_request

import interlock.asyncio
from interlock import (
    ConfigError,
    ServerUnavailableError,
)
from interlock._core.model.names import GRANT
from interlock._core.scripts.script import ReplyShapeError
from interlock._drivers import awaited, blocking, tasks
from interlock._drivers.process import lifecycle

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

KEY = "interlock_election:{name}"
LEADER = b"interlock_election_leader:{name}"
QUEUE = "interlock_queue:interlock_election:{name}"
NEWS = "interlock_election__news:{name}"
TOKEN = "redisson_lock_token:interlock_election:{name}"


async def test_an_observer_outlives_what_goes_wrong(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled or exiting callback and a damaged record are reported, and stop nothing."""
    owner, election = stage.owner(), stage.lock(stage.client(), candidate="a")
    seen: list[Any] = []
    reported: list[BaseException] = []
    for module in (awaited, blocking, tasks, lifecycle):
        monkeypatch.setattr(module, "report", lambda _, error: reported.append(error))
    for module in (awaited, blocking):
        monkeypatch.setattr(module, "RETRY", 0.05)

    def callback(info: Any) -> None:
        seen.append(info and info.token)
        if len(seen) == 1:
            raise asyncio.CancelledError
        if len(seen) == 2 and not stage.face.is_async:
            raise SystemExit

    watcher = stage.lock(stage.client())
    observation = await owner.do(watcher.observe, callback)
    await until(lambda: seen == [None], 20, "it is told of nobody")
    await owner.do(stage.face.enter, election)
    await until(lambda: seen == [None, 1], 20, "it is told of the leader")
    for field, value in (("token", "x"), ("pid", "-"), ("since", "-1")):
        kept, before = stage.redis.hget(LEADER, field), len(reported)
        stage.redis.hset(LEADER, field, value)
        await until(lambda n=before: len(reported) > n, 20, "it is reported")
        with pytest.raises(ServerUnavailableError, match="record of the leader"):
            await owner.do(watcher.leader)
        stage.redis.hset(LEADER, field, kept)
    stage.redis.hdel(LEADER, "host")
    with pytest.raises(ServerUnavailableError):
        await owner.do(watcher.leader)
    await owner.do(stage.face.leave, election)
    await until(lambda: seen == [None, 1, None], 20, "it is told of the end")
    kinds = {type(error) for error in reported}
    expected = {asyncio.CancelledError, ReplyShapeError}
    assert kinds == expected if stage.face.is_async else kinds == expected | {RuntimeError}
    await owner.do(observation.close)


def test_an_observer_goes_on_after_a_fork(redis_url: str) -> None:
    """In a forked child an observer tells of changes, and can be closed."""
    code = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
        client = interlock.connect(url)
        def tell(info):
            say(os.getpid() == parent, info and info.candidate)
        parent = os.getpid()
        observation = client.election("name").observe(tell)
        sys.stdin.readline()
        if os.fork():
            os.wait()
        else:
            sys.stdin.readline()
            observation.close()
            say("closed")
        client.close()
    """
    with Child(code, redis_url) as child, interlock.connect(redis_url) as client:
        assert child.hear() == "True None"
        child.tell("fork")
        with client.election("name", candidate="a"):
            heard = {child.hear(), child.hear()}
            if "False None" in heard:  # the forked child looked before there was a leader
                heard = heard - {"False None"} | {child.hear()}
            assert heard == {"True a", "False a"}
        assert {child.hear(), child.hear()} == {"True None", "False None"}
        child.tell("close")
        assert child.hear() == "closed"


async def test_observers_find_out_without_messages(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message an observer is told within two seconds, and costs one look in them."""
    proxy.drop_messages = True
    owner, election = stage.owner(), stage.lock(stage.client(), candidate="a")
    seen: list[Any] = []
    watcher = stage.lock(stage.client(proxy.url()))
    observation = await owner.do(watcher.observe, lambda info: seen.append(info and info.candidate))
    await owner.do(stage.face.enter, election)
    await until(lambda: seen[-1:] == ["a"], 10, "it looked")
    # A look in two seconds, which are shortened by up to a quarter, one at each end, and a late one.
    assert await _commands_a_second(proxy, 4.4) <= 0.5 / 0.75 + 3 / 4.4
    await owner.do(stage.face.leave, election)
    await until(lambda: seen[-1:] == [None], 10, "it looked")
    await owner.do(observation.close)


async def test_what_is_left(stage: Stage) -> None:
    """When nobody leads, only the counter of tokens and the last leader's record stay."""
    owner, election = stage.owner(), stage.lock(stage.client())
    await owner.do(stage.face.enter, election)
    assert 10 < stage.redis.ttl(KEY) <= 30
    await owner.do(stage.face.leave, election)
    left = {key.decode() for key in stage.redis.scan_iter()}
    assert left == {TOKEN, LEADER.decode()}


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


async def test_a_counter_that_was_lost_stops_no_term(stage: Stage) -> None:
    """A term is announced even if its token is smaller than that of the last leader."""
    owner, election = stage.owner(), stage.lock(stage.client())
    for _ in range(3):
        await owner.do(stage.face.enter, election)
        await owner.do(stage.face.leave, election)
    stage.redis.delete(TOKEN)
    newcomer = stage.lock(stage.client(), candidate="b")
    term = await owner.do(stage.face.enter, newcomer)
    info = await owner.do(election.leader)
    assert (info.token, info.candidate) == (term.token, "b")
    await owner.do(stage.face.leave, newcomer)


async def test_a_term_cannot_be_handed_over(stage: Stage) -> None:
    """A term belongs to the candidate that announced it."""
    owner, election = stage.owner(), stage.lock(stage.client())
    term = await owner.do(stage.face.enter, election)
    with pytest.raises(ConfigError):
        await owner.do(term.hand_over)
    await owner.do(stage.face.leave, election)


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


async def test_a_grant_that_ends_before_the_candidate_asks_is_no_term(
    stage: Stage, proxy: FaultProxy
) -> None:
    """A candidate that is next, but reaches the server too late, waits on until it leads."""
    first, second = stage.owner(), stage.owner()
    mine, theirs = stage.lock(stage.client()), stage.lock(stage.client(proxy.url()))
    await first.do(stage.face.enter, mine)
    waiting = asyncio.create_task(second.do(stage.face.enter, theirs))
    await until(lambda: stage.redis.zcard(QUEUE) == 1, 20, "it waits")
    proxy.on_request(lambda request: LEADER in request, delay(GRANT + 0.5))
    await first.do(stage.face.leave, mine)
    await until(lambda: not stage.redis.exists(KEY), 20, "its grant is over")
    proxy.clear_rules()
    term = await asyncio.wait_for(waiting, 20)
    assert term.valid
    assert (await first.do(mine.leader)).token == term.token
    await second.do(stage.face.leave, theirs)


async def test_candidates_of_a_name_in_braces_stand_in_the_same_queue(stage: Stage) -> None:
    """Both names have the same key, and a resignation goes from the one to the other."""
    first, second = stage.owner(), stage.owner()
    mine, theirs = stage.lock(stage.client()), stage.client().election("{name}")
    await first.do(stage.face.enter, mine)
    waiting = asyncio.create_task(second.do(stage.face.enter, theirs))
    await until(lambda: stage.redis.zcard(QUEUE) == 1, 20, "it waits")
    await first.do(stage.face.leave, mine)
    assert (await asyncio.wait_for(waiting, 20)).valid
    await second.do(stage.face.leave, theirs)


async def test_it_is_not_left_to_clients_without_a_place(stage: Stage) -> None:
    """A leader resigns seldom: the first candidate need not wait until others have looked."""
    owners, elections = zip(
        *[(stage.owner(), stage.lock(stage.client())) for _ in range(3)], strict=True
    )
    await owners[0].do(stage.face.enter, elections[0])
    with stage.redis.pubsub() as stranger:
        stranger.subscribe("redisson_lock__channel:interlock_election:{name}")
        waiting = []
        for number in (1, 2):
            waits = owners[number].do(stage.face.enter, elections[number])
            waiting.append(asyncio.create_task(waits))
            await until(lambda n=number: stage.redis.zcard(QUEUE) == n, 20, "it waits")
        for number in (0, 1):
            await owners[number].do(stage.face.leave, elections[number])
            await asyncio.wait_for(waiting[number], 20)
        await owners[2].do(stage.face.leave, elections[2])
        heard = [each["data"] for each in iter(lambda: stranger.get_message(timeout=0.2), None)]
    assert heard[1:] == [b"0"]


async def _commands_a_second(proxy: FaultProxy, seconds: float) -> float:
    """Return how many scripts the server is sent in each of the next *seconds*."""
    took = await sent_in(proxy, seconds)
    return proxy.commands["EVALSHA"] / took


@pytest.mark.parametrize("candidate", ["", "x" * 1001, 5])
async def test_bad_candidates(stage: Stage, candidate: Any) -> None:
    """A candidate that is no name raises before anything is sent."""
    with pytest.raises((ValueError, TypeError), match="candidate"):
        stage.lock(stage.client(), candidate=candidate)
