"""Lost replies, late copies and interruptions on a real server: no permit is lost or invented."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.lock.interrupting import Moment, Points, interrupt_after
from tests.lock.lock_like import until, waiters
from tests.support.faults import FAULTS
from tests.support.proxy import (
    command,
    delay,
    delay_reply,
    drop_request,
    swallow_reply,
)
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import ServerUnavailableError
from interlock._core.model.names import latch_total
from interlock._core.scripts import semaphore as scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy

    from interlock._core.model.effects import Eval

PLAIN_CALLS: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "acquire": (lambda semaphore: semaphore.acquire(2), True, 3),
    "acquire-in-time": (lambda semaphore: semaphore.acquire(2, timeout=60), True, 3),
    "release": (lambda semaphore: semaphore.release(2), None, 7),
    "release-if-exists": (lambda semaphore: semaphore.release_if_exists(2), True, 7),
    "add": (lambda semaphore: semaphore.add_permits(2), None, 7),
    "take-away": (lambda semaphore: semaphore.add_permits(-2), None, 3),
    "drain": (lambda semaphore: semaphore.drain_permits(), 5, 0),
}
"""What is called on a semaphore of 5, what it returns, and how many are free then."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("call", PLAIN_CALLS)
async def test_a_call_counts_once(
    plain: Stage, proxy: FaultProxy, call: str, fault: Action
) -> None:
    """Whatever happens to its request or reply, a call takes or gives exactly once.

    It returns what it did.
    """
    make, result, free = PLAIN_CALLS[call]
    plain.redis.set("name", 5)
    owner, client = plain.owner(), plain.client(proxy.url(), command_timeout=0.8)
    semaphore = plain.lock(client)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA", nth=1), fault)
    assert await owner.do(make, semaphore) == result
    assert len(proxy.fired) == 1
    assert plain.redis.get("name") == str(free).encode()


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


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_leased_call_counts_once(leased: Stage, proxy: FaultProxy, fault: Action) -> None:
    """Whatever happens to its request or reply, a call for leased permits counts once.

    The calls take, prolong, add and give back permits.
    """
    owner, client = leased.owner(), leased.client(proxy.url(), command_timeout=0.8)
    semaphore = leased.lock(client)
    leased.redis.set("name", 5)
    await owner.do(semaphore.permits)

    async def once(call: Callable[..., Any], *arguments: Any) -> Any:
        proxy.clear_rules()
        proxy.on_request(command("EVALSHA", nth=1), fault)
        return await owner.do(call, *arguments)

    permit = await once(semaphore.acquire, 2)
    assert leased.redis.get("name") == b"3"
    assert leased.redis.zcard("{name}:timeout") == 2
    await once(semaphore.update_lease, permit, 60)
    assert permit
    await once(semaphore.add_permits, 4)
    assert leased.redis.get("name") == b"7"
    await once(semaphore.set_permits, 3)
    assert leased.redis.get("name") == b"1"
    await once(permit.release)
    assert leased.redis.get("name") == b"3"
    assert leased.redis.exists("{name}:timeout") == 0
    other = await once(semaphore.acquire)
    await once(semaphore.release, other.ids[0])
    assert leased.redis.get("name") == b"3"


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

    The latch ends by itself as one that the client has set up. The full number of permits is set
    later: so it has those that came back.
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
    assert await owner.do(left) == (4 if name == "count" else 5)


@pytest.mark.parametrize("call", ["acquire", "drain", "add"])
@pytest.mark.parametrize("anew", [False, True])
def test_an_undo_changes_no_later_number(redis_client: redis.Redis, call: str, anew: bool) -> None:
    """An undo does nothing to a number that was made anew since the call that it undoes."""
    (name, own), ttl, told = ("name", "own"), 60.0, ("PUBLISH", "channel:{name}")

    def run(script: Eval[Any]) -> None:
        redis_client.eval(script.script.text, len(script.keys), *script.keys, *script.args)

    def make(request: str) -> None:
        redis_client.delete(name)
        run(scripts.semaphore_try_set(name, request, "-", 5, ttl, *told))

    make("first")
    made = {
        "acquire": scripts.semaphore_acquire(name, own, "-", 3, ttl, *told),
        "drain": scripts.semaphore_drain(name, own, "-", ttl),
        "add": scripts.semaphore_add(name, own, "-", 3, 1, ttl, *told),
    }[call]
    run(made)
    if anew:
        make("second")
    added = call == "add"
    run(scripts.semaphore_undo(name, own, ttl, *told, total=True, added=added))
    assert redis_client.get(name) == b"5"
    assert redis_client.get("interlock_semaphore_total:{name}").startswith(b"5 ")
    run(made)  # a copy that comes late
    assert redis_client.get(name) == b"5"


async def test_a_copy_that_arrives_after_the_end(plain: Stage, proxy: FaultProxy) -> None:
    """A late copy of a given-up acquire, an answered acquire or a release changes nothing."""
    owner, client = plain.owner(), plain.client(proxy.url(), command_timeout=0.8)
    semaphore = plain.lock(client)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
    proxy.clear_record()
    assert not await owner.do(semaphore.acquire, timeout=2)
    copy = proxy.record[0].args
    plain.redis.set("name", 5)
    await until(lambda: _latches(plain.redis) == {b"0"}, 5, "it was undone")
    assert plain.redis.execute_command(*copy) == 0
    assert plain.redis.get("name") == b"5"
    for call in (semaphore.acquire, semaphore.release, semaphore.drain_permits):
        proxy.clear_rules()
        proxy.clear_record()
        proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
        await owner.do(call)
        before = plain.redis.get("name")
        plain.redis.execute_command(*proxy.record[0].args)
        assert plain.redis.get("name") == before


async def test_a_late_copy_of_a_refused_call(plain: Stage, proxy: FaultProxy) -> None:
    """A copy of a release or a set-up that did nothing changes no later semaphore."""
    owner, client = plain.owner(), plain.client(proxy.url(), command_timeout=0.8)
    semaphore = plain.lock(client)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
    assert not await owner.do(semaphore.release_if_exists, 3)
    plain.redis.set("name", 2)
    assert plain.redis.execute_command(*proxy.fired[0][1]) == 0
    assert plain.redis.get("name") == b"2"
    proxy.clear_rules()
    proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
    assert not await owner.do(semaphore.try_set_permits, 5)
    plain.redis.delete("name")
    assert plain.redis.execute_command(*proxy.fired[1][1]) == 0
    assert plain.redis.get("name") is None


def _latches(client: redis.Redis) -> set[bytes | None]:
    return {client.get(key) for key in client.keys("redisson_unlock_latch:*")}


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
async def test_an_update_without_an_answer(
    leased: Stage, proxy: FaultProxy, executed: bool
) -> None:
    """An unanswered update of a lease raises after the outage time-out.

    The permit is lost when the shorter lease ends, whether or not the server has executed it.
    """
    client = leased.client(proxy.url(), command_timeout=0.3, outage_timeout=0.5)
    owner, semaphore = leased.owner(), leased.lock(client)
    leased.redis.set("name", 1)
    permit = await owner.do(semaphore.acquire, lease=590)
    proxy.on_request(command("EVALSHA"), swallow_reply if executed else drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(permit.update_lease, 2)
    proxy.clear_rules()
    assert permit
    assert permit.remaining < 2
    await until(permit.lost.is_set, 5, "the loss is told")


async def test_a_server_that_was_never_there(plain: Stage, proxy: FaultProxy) -> None:
    """A call that was never sent has nothing to undo: it fails, and nothing happens later."""
    proxy.stop_accepting()
    client = plain.client(proxy.url(), command_timeout=0.3, outage_timeout=0.5)
    owner, semaphore = plain.owner(), plain.lock(client)
    for call in (semaphore.acquire, semaphore.release):
        with pytest.raises(ServerUnavailableError):
            await owner.do(call)
    proxy.start_accepting()
    await asyncio.sleep(0.5)  # what comes late has come
    assert proxy.commands["EVALSHA"] == 0


@pytest.mark.parametrize("moment", get_args(Moment))
@pytest.mark.parametrize("call", ["acquire", "wait", "release", "drain", "add", "leased", "permit"])
async def test_cancelled_at_every_wait(
    redis_url: str, loaded: redis.Redis, call: str, moment: Moment
) -> None:
    """A task that is cancelled at any of its waits leaves every permit where it belongs."""
    at = 0
    while True:
        loaded.flushall()
        loaded.set("name", 0 if call == "wait" else 3)
        async with interlock.asyncio.connect(redis_url) as client:
            points = Points(at, moment)
            operation = await _operation(client, call)
            task = asyncio.create_task(_run(points, operation))
            if call == "wait":
                await until(
                    lambda points=points, task=task: (
                        waiters(client) or points.reached or task.done()
                    ),
                    10,
                    "it waits",
                )
                loaded.incrby("name", 3)
                loaded.publish("redisson_sc:{name}", 3)
            try:
                await asyncio.wait_for(asyncio.shield(task), 10)
            except asyncio.CancelledError:
                assert points.reached
            if not points.reached:
                break
            wanted = 4 if call == "release" else 3  # a release is carried through
            if not task.cancelled():
                wanted += {"acquire": -1, "wait": -1, "drain": -3, "add": 2, "leased": -1}.get(
                    call, 0
                )
            await until(
                lambda wanted=wanted: int(loaded.get("name") or 0) == wanted,
                5,
                f"{wanted} are free, cancelled at {at}",
            )
        at += 1
    assert at > 0


async def _operation(client: interlock.asyncio.Client, call: str) -> Coroutine[Any, Any, object]:
    plain, leased = client.semaphore("name"), client.leased_semaphore("name")
    await plain.available_permits()
    if call == "permit":
        return (await leased.acquire(2)).release()
    made: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "acquire": plain.acquire,
        "wait": plain.acquire,
        "release": plain.release,
        "drain": plain.drain_permits,
        "add": lambda: plain.add_permits(2),
        "leased": leased.acquire,
    }
    return made[call]()


async def _run(points: Points, coroutine: Coroutine[Any, Any, object]) -> object:
    return await points.run(coroutine)


@pytest.mark.parametrize("kind", ["semaphore", "leased_semaphore"])
def test_ctrl_c_in_an_acquire(proxy: FaultProxy, loaded: redis.Redis, kind: str) -> None:
    """A signal that raises in the wait for a reply leaves no permit taken; the next call works."""
    loaded.set("name", 3)
    with interlock.connect(proxy.url()) as client:
        semaphore = getattr(client, kind)("name")
        semaphore.available_permits()
        proxy.on_request(command("EVALSHA", nth=1), delay_reply(1))
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.3):
            semaphore.acquire(2)
        wait_until(lambda: loaded.get("name") == b"3", 5, "no permit is taken")
        assert semaphore.available_permits() == 3
        assert semaphore.acquire(3)
