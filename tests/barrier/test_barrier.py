"""The barrier on both faces: who passes, what breaks it, and what is left."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import until
from tests.support.proxy import (
    command,
    swallow_reply,
)

import interlock
from interlock import BrokenBarrierError, ConfigError
from interlock._core.objects import barrier
from interlock._core.scripts import barrier as scripts
from interlock._core.scripts.script import Request

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

    from interlock._core.model.effects import Eval

PARTIES = "interlock_barrier_parties:{name}"
SLACK = 10.0
"""Seconds that a busy machine may take for what is due."""


async def _ask(barrier: Any, what: str) -> Any:
    """Return what a property of *barrier* is."""
    loop = asyncio.get_running_loop()
    if inspect.isawaitable(answer := await loop.run_in_executor(None, getattr, barrier, what)):
        return await answer
    return answer


async def _arrive(stage: Stage, barrier: Any, waiting: int, **options: Any) -> asyncio.Task[Any]:
    """Return a wait that has arrived as the one with the number *waiting*."""
    task = asyncio.create_task(stage.owner().do(barrier.wait, **options))

    async def arrived() -> bool:
        return await _ask(barrier, "n_waiting") == waiting

    await until(arrived, 20, "it has arrived")
    return task


@pytest.mark.parametrize("how", ["abort", "reset"])
async def test_who_waits_is_told(stage: Stage, proxy: FaultProxy, how: str) -> None:
    """An abort or reset reaches every party within the poll cap, though no message comes."""
    proxy.drop_messages = True
    barrier, owner = stage.lock(stage.client(proxy.url(), poll_cap=0.5)), stage.owner()
    waiting = [await _arrive(stage, barrier, number) for number in (1, 2)]
    await owner.do(getattr(barrier, how))
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
    assert all(isinstance(each, BrokenBarrierError) for each in outcomes)
    assert await _ask(barrier, "broken") is (how == "abort")


@pytest.mark.parametrize("how", ["kill", "freeze", "cut"])
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_dead_party_breaks_it(stage: Stage, proxy: FaultProxy, how: str) -> None:
    """A party that dies breaks the barrier within its lease; until then it is renewed."""
    code = """
        with interlock.connect(url, lease=3) as client:
            client.barrier("name", 3).wait()
    """
    barrier = stage.lock(stage.client(lease=3))
    with Child(code, proxy.url()) as child:

        async def arrived() -> bool:
            return await _ask(barrier, "n_waiting") == 1

        await until(arrived, 20, "the child waits")
        waiting = await _arrive(stage, barrier, 2)
        ends = stage.redis.zscore(PARTIES, first := stage.redis.zrange(PARTIES, 0, 0)[0])

        def renewed() -> bool:
            return (stage.redis.zscore(PARTIES, first) or ends) > ends

        await until(renewed, 20, "it is renewed")
        died = time.monotonic()
        if how == "kill":
            child.kill()
        elif how == "freeze":
            child.signal(signal.SIGSTOP)
        else:
            proxy.stop_accepting()
            proxy.disconnect()
        with pytest.raises(BrokenBarrierError):
            await asyncio.wait_for(waiting, 30)
        assert time.monotonic() - died < 3 + SLACK


def test_an_arrival_ends_in_time(fresh_server: RedisServer) -> None:
    """A party that gets no answer to its arrival gives up when its time is up."""
    with interlock.connect(fresh_server.url(), command_timeout=1) as client:
        barrier = client.barrier("name", 2)
        assert barrier.n_waiting == 0
        fresh_server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(interlock.ServerUnavailableError):
                barrier.wait(timeout=0.5)
            assert time.monotonic() - began < 0.5 + SLACK
        finally:
            fresh_server.resume()


@pytest.mark.parametrize("refusal", ["broken", "other parties"])
async def test_a_late_copy_of_a_refused_arrival(
    stage: Stage, proxy: FaultProxy, refusal: str
) -> None:
    """A copy of an arrival that was refused counts at no later time."""
    owner, direct = stage.owner(), stage.lock(stage.client(), parties=2)
    parties, error = (2, BrokenBarrierError) if refusal == "broken" else (3, ConfigError)
    barrier = stage.lock(stage.client(proxy.url(), command_timeout=0.8), parties=parties)
    waiting = await _arrive(stage, direct, 1)
    if refusal == "broken":
        await owner.do(direct.abort)
    proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
    with pytest.raises(error):
        await owner.do(barrier.wait)
    await owner.do(direct.reset)
    with pytest.raises(BrokenBarrierError):
        await waiting
    stage.redis.execute_command(*proxy.fired[0][1])
    assert await _ask(direct, "n_waiting") == 0


async def test_what_is_left(stage: Stage) -> None:
    """Of a barrier that nobody waits at, all keys expire."""
    barrier, owner = stage.lock(stage.client(), parties=1), stage.owner()
    assert await owner.do(barrier.wait) == 0
    await owner.do(barrier.reset)
    _check_keys(stage)


def _check_keys(stage: Stage) -> None:
    """Check that there are keys, and that each is ours and expires."""
    keys = {key.decode() for key in stage.redis.scan_iter()}
    keys -= {key for key in keys if key.startswith("interlock_client")}
    assert keys
    assert all(key.startswith("interlock_") for key in keys)
    assert all(0 < stage.redis.ttl(key) <= 3700 for key in keys)


async def test_every_key_expires(stage: Stage) -> None:
    """Keys of parties that wait, of a broken barrier and of those who find it broken expire."""
    barrier, owner = stage.lock(stage.client(poll_cap=0.2)), stage.owner()
    waiting = await _arrive(stage, barrier, 1)
    _check_keys(stage)
    for key in stage.redis.scan_iter("interlock_barrier*"):
        stage.redis.expire(key, 60)
    await until(lambda: stage.redis.ttl(PARTIES) > 60, 20, "a look keeps them")
    _check_keys(stage)
    await owner.do(barrier.abort)
    with pytest.raises(BrokenBarrierError):
        await waiting
    _check_keys(stage)
    with pytest.raises(BrokenBarrierError):
        await owner.do(barrier.wait)
    _check_keys(stage)


@pytest.mark.parametrize("parties", [0, -1, 1_000_001, 1.0, True, "2", None])
async def test_bad_numbers(stage: Stage, parties: Any) -> None:
    """A number of parties that cannot be raises before anything is sent."""
    with pytest.raises((ValueError, TypeError), match="parties"):
        stage.lock(stage.client(), parties=parties)


async def test_the_last_party_acts_while_the_others_wait(stage: Stage) -> None:
    """The action runs once, before any party passes; the last party runs it, time after time."""
    acted: list[bool] = []
    others: list[asyncio.Task[Any]] = []

    def act() -> None:
        acted.append(any(task.done() for task in others))

    barriers = [stage.lock(stage.client(poll_cap=60), action=act) for _ in range(2)]
    for turn in range(1, 3):
        others[:] = [await _arrive(stage, barriers[0], 1), await _arrive(stage, barriers[1], 2)]
        assert await asyncio.wait_for(stage.owner().do(barriers[1].wait), 20) == 2
        assert await asyncio.wait_for(asyncio.gather(*others), 20) == [0, 1]
        assert acted == [False] * turn
    assert not await _ask(barriers[0], "broken")
    assert stage.redis.zcard(PARTIES) == 0


async def test_an_action_that_raises_breaks_the_barrier(stage: Stage) -> None:
    """The party that ran the action gets its exception; the others get BrokenBarrierError."""

    def act() -> None:
        raise ZeroDivisionError

    barrier = stage.lock(stage.client(poll_cap=60), parties=2, action=act)
    other = await _arrive(stage, barrier, 1)
    with pytest.raises(ZeroDivisionError):
        await stage.owner().do(barrier.wait)
    with pytest.raises(BrokenBarrierError):
        await asyncio.wait_for(other, 20)
    assert await _ask(barrier, "broken")
    assert stage.redis.zcard(PARTIES) == 0
    await stage.owner().do(barrier.reset)
    assert not await _ask(barrier, "broken")


@pytest.mark.parametrize("passes", [True, False])
async def test_parties_that_come_and_go_while_one_acts(stage: Stage, passes: bool) -> None:
    """A party that comes meanwhile joins the next generation; one that leaves breaks this one."""
    client, begun, go_on = stage.client(poll_cap=60), threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        assert go_on.wait(20)

    async def act_in_task() -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait, 20)

    action = act_in_task if stage.face.is_async else act
    barrier = stage.lock(client, parties=2, action=action)
    other = await _arrive(stage, barrier, 1, timeout=None if passes else 3)
    actor = asyncio.create_task(stage.owner().do(barrier.wait))
    await asyncio.to_thread(begun.wait, 20)
    late = asyncio.create_task(stage.owner().do(barrier.wait, timeout=20))
    if passes:
        assert not other.done()
    else:
        with pytest.raises(BrokenBarrierError):
            await other
    go_on.set()
    if not passes:
        for each in (actor, late):
            with pytest.raises(BrokenBarrierError):
                await asyncio.wait_for(each, 20)
        return
    assert await asyncio.wait_for(asyncio.gather(other, actor), 20) == [0, 1]
    last = asyncio.create_task(stage.owner().do(barrier.wait))
    # The two arrive in either order.
    assert sorted(await asyncio.wait_for(asyncio.gather(last, late), 20)) == [0, 1]


async def test_a_party_that_dies_while_it_acts(stage: Stage) -> None:
    """If the lease of the party that acts ends, as of a dead process, the barrier is broken."""

    def act() -> None:
        first, second = stage.redis.zrange(PARTIES, 0, 1)
        dead = second if second != waiting else first
        stage.redis.zadd(PARTIES, {dead: 1})

    client = stage.client(poll_cap=0.2)
    other = await _arrive(stage, stage.lock(client, parties=2), 1)
    waiting = stage.redis.zrange(PARTIES, 0, 0)[0]
    with pytest.raises(BrokenBarrierError):
        await stage.owner().do(stage.lock(client, parties=2, action=act).wait)
    with pytest.raises(BrokenBarrierError):
        await asyncio.wait_for(other, 20)


async def test_time_is_up_while_another_party_acts(stage: Stage) -> None:
    """A party that comes while one acts gets BrokenBarrierError in time, and breaks nothing."""
    begun, go_on = threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        assert go_on.wait(20)

    async def act_in_task() -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait, 20)

    client = stage.client(poll_cap=60)
    action = act_in_task if stage.face.is_async else act
    barrier = stage.lock(client, parties=1, action=action)
    actor = asyncio.create_task(stage.owner().do(barrier.wait))
    await asyncio.to_thread(begun.wait, 20)
    try:
        before = stage.redis.info()["total_commands_processed"]
        late = stage.owner().do(barrier.wait, timeout=0.3)
        with pytest.raises(BrokenBarrierError, match="another party still acts"):
            await asyncio.wait_for(late, 20)
        assert stage.redis.info()["total_commands_processed"] - before < 50
    finally:
        go_on.set()
    assert await asyncio.wait_for(actor, 20) == 0


def test_a_client_forgets_early_generations() -> None:
    """It remembers as many ends as the server, though its parties never all leave."""
    ends = barrier._Ends()
    for number in range(3 * barrier.REMEMBERED):
        ends.note(str(number), passed=True)
    assert ends.passed(str(2 * barrier.REMEMBERED))
    assert ends.knows(str(3 * barrier.REMEMBERED - 1))
    assert not ends.knows("0")


def test_a_late_end_of_who_has_left(redis_client: redis.Redis) -> None:
    """A copy of the end that comes when its party has left ends nothing: another party acts."""
    place = scripts.Barrier("{b}", "{b}:waiting", "{b}:passed", "PUBLISH", "{b}:channel")

    def run(call: Eval[Any]) -> Any:
        reply = redis_client.eval(call.script.text, len(call.keys), *call.keys, *call.args)
        return call.script.decode(reply)

    def arrive(party: str) -> scripts.Arrival:
        request = Request(f"{{b}}:{party}", "{b}:none", 60)
        return run(scripts.barrier_arrive(place, request, party, 2, 60, 60, acts=True))

    generation, _ = arrive("first")
    assert arrive("gave up").place == 1
    assert run(scripts.barrier_leave(place.waiting, "{b}:gave up", "gave up", 60)) == 1
    assert arrive("acts") == (generation, 1)
    assert not run(scripts.barrier_pass(place, generation, "gave up", 60))
    assert run(scripts.barrier_query(place)) == (2, False)
    assert run(scripts.barrier_pass(place, generation, "acts", 60))


async def test_an_action_is_checked(stage: Stage) -> None:
    """An action that cannot be called is refused at once."""
    with pytest.raises(TypeError):
        stage.lock(stage.client(), action=5)
