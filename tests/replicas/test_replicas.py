"""What replicas acknowledge of a lock: the policy of the client, and its consequences."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.objects.awaited import KINDS, renewed, until
from tests.replicas.conftest import PROMPT, Bed
from tests.support.binary import main_version
from tests.support.proxy import FaultProxy
from tests.support.servers import RedisServer

import interlock
from interlock import ConfigError, ReplicationError
from interlock.errors import QuorumError
from interlock.options import ReplicaPolicy

PATIENCE = 0.3
"""Seconds that stopped replicas are waited for."""
TELLING = 1.0
"""Seconds for the same, where it counts that the other replica has answered meanwhile."""
LONG = 15.0
"""Seconds that replicas are given which answer at once, but for a machine that stalls."""
SINGLE = [kind for kind in KINDS if kind.servers == 1 and kind.reentrant]
of_one_version = pytest.mark.parametrize("replicated", [main_version()], indirect=True)


@pytest.mark.parametrize("kind", SINGLE, ids=lambda kind: kind.name)
@of_one_version
async def test_too_few_give_the_lock_back(bed: Bed) -> None:
    """Without enough acknowledgements an acquire raises with the counts, and leaves nothing."""
    bed.stop(1)
    client = bed.client(replicas=interlock.required(2, TELLING))
    me, lock = bed.owner(), bed.lock(client)
    with pytest.raises(ReplicationError, match="1 of 2 replicas") as caught:
        await me.do(lock.acquire)
    assert (caught.value.wanted, caught.value.acknowledged) == (2, 1)
    assert await me.do(lambda: lock.hold) is None
    await until(lambda: not bed.left_behind(), 10, "it is given back")
    bed.resume()
    assert await me.do(lock.acquire)
    await me.do(lock.release)
    assert bed.left_behind() == set()


@of_one_version
async def test_too_few_are_waited_for_once(bed: Bed) -> None:
    """Also by a server that does not know the script yet, like the next primary."""
    seconds, me = 2.0, bed.owner()
    with RedisServer() as lonely:
        client = bed.client(lonely.url(), replicas=interlock.required(1, seconds))
        began = time.monotonic()
        with pytest.raises(ReplicationError, match="0 of 1 replicas"):
            await me.do(bed.lock(client).acquire)
        assert seconds <= time.monotonic() - began < 1.9 * seconds
        await bed.close(client)


@of_one_version
async def test_all_of_none_is_too_few(bed: Bed) -> None:
    """A primary without replicas satisfies a best effort, and no policy that requires some."""
    me = bed.owner()
    with RedisServer() as lonely:
        effort = bed.client(lonely.url(), replicas=interlock.best_effort("all", 60))
        lock = bed.lock(effort)
        assert await asyncio.wait_for(me.do(lock.acquire), 30)
        assert (await me.do(lambda: lock.hold)).replicas == 0
        await me.do(lock.release)
        demand = bed.client(lonely.url(), replicas=interlock.required("all", PATIENCE))
        with pytest.raises(ReplicationError, match="0 of 1 replicas"):
            await me.do(bed.lock(demand).acquire)
        for client in (effort, demand):
            await bed.close(client)


async def test_renewals_go_on_without_replicas(bed: Bed) -> None:
    """A hold is renewed, and stays valid, while no replica acknowledges anything."""
    client = bed.client(replicas=interlock.required(2, LONG), renewed="soon")
    me, lock = bed.owner(), bed.lock(client)
    assert await me.do(lock.acquire)
    bed.stop(0, 1)
    hold = await me.do(lambda: lock.hold)
    for _ in range(2):
        await renewed(hold)
    assert hold.valid
    assert not hold.lost.is_set()
    await me.do(lock.release)


async def test_a_waiter_has_the_lock_on_the_replicas(bed: Bed) -> None:
    """If too few have it, the waiter raises, and the next one gets the lock."""
    holder, *owners = [bed.owner() for _ in range(4)]
    policies = [interlock.required(2, LONG), interlock.required(2, PATIENCE)]
    policies.append(interlock.best_effort(2, PATIENCE))
    first, *locks = [bed.lock(bed.client(replicas=policy)) for policy in (policies[0], *policies)]
    assert await holder.do(first.acquire)
    waits = []
    for number, (owner, lock) in enumerate(zip(owners, locks, strict=True), 1):
        waits.append(asyncio.create_task(owner.do(lock.acquire, timeout=20)))
        await bed.waits(number)
        await asyncio.sleep(0.1)
    await holder.do(first.release)
    assert await waits[0]
    assert (await owners[0].do(lambda: locks[0].hold)).replicas == 2
    assert [each.execute("HLEN", "name") for each in bed.servers.replicas] == [1, 1]
    bed.stop(0)
    await owners[0].do(locks[0].release)
    with pytest.raises(ReplicationError):
        await waits[1]
    assert await waits[2]


async def test_only_a_grant_is_waited_for(bed: Bed) -> None:
    """Re-entry, extension and release do not wait for replicas, which stand still; nor a refusal."""
    me, other = bed.owner(), bed.owner()
    lock, theirs = [bed.lock(bed.client(replicas=interlock.required(2, LONG))) for _ in range(2)]
    assert await me.do(lock.acquire)
    bed.stop(0, 1)
    began = time.monotonic()
    assert await me.do(lock.acquire)
    await me.do(lock.extend, 40)
    assert not await other.do(theirs.acquire, timeout=0)
    for _ in range(2):
        await me.do(lock.release)
    assert time.monotonic() - began < PROMPT


async def test_the_question_goes_out_with_the_script(bed: Bed) -> None:
    """Script and WAIT go out in one write, and with ``all`` INFO for the number of replicas too."""
    me = bed.owner()
    with FaultProxy(("127.0.0.1", bed.servers.primary.port)) as proxy:
        for count, asked in ((2, {"WAIT": 5}), ("all", {"WAIT": 5, "INFO": 5})):
            client = bed.client(proxy.url(), replicas=interlock.required(count, LONG))
            lock = bed.lock(client)
            # The connections are there, the scripts loaded, the number of replicas known.
            assert await me.do(lock.acquire)
            await me.do(lock.release)
            proxy.clear_record()
            for _ in range(5):
                assert await me.do(lock.acquire)
                await me.do(lock.release)
            assert dict(proxy.commands) == {"EVALSHA": 10, **asked}
            assert proxy.round_trips == 10
            await bed.close(client)


async def test_semaphores_are_given_back(bed: Bed) -> None:
    """Permits of either kind that too few replicas know of are given back, and the call raises."""
    bed.stop(1)
    client = bed.client(replicas=interlock.required(2, TELLING))
    me, plain, leased = bed.owner(), client.semaphore("plain"), client.leased_semaphore("leased")
    await me.do(plain.try_set_permits, 3)
    await me.do(leased.try_set_permits, 3)
    for call in (plain.acquire, plain.drain_permits, leased.acquire):
        with pytest.raises(ReplicationError, match="1 of 2 replicas"):
            await me.do(call)
    assert await me.do(plain.available_permits) == 3

    async def is_whole() -> bool:
        return bool(await me.do(leased.available_permits) == 3)

    await until(is_whole, 10, "the leased one is given back")
    bed.resume()
    assert await me.do(plain.acquire)
    permit = await me.do(leased.acquire)
    assert permit.replicas == 2
    await me.do(permit.release)


async def test_a_member_of_a_red_lock_that_is_not_replicated_does_not_count(bed: Bed) -> None:
    """Such a server counts as failed: a quorum of others is enough, else it is an error."""
    strict = [bed.client(replicas=interlock.required(2, PATIENCE)) for _ in range(2)]
    easy = [bed.client() for _ in range(2)]
    me, red = bed.owner(), bed.face.module.RedLock
    with pytest.warns(UserWarning, match="on 1 servers"):
        good = red(easy[0].lock("a"), easy[1].lock("b"), strict[0].lock("c"))
    with pytest.warns(UserWarning, match="on 1 servers"):
        bad = red(easy[0].lock("a"), strict[0].lock("b"), strict[1].lock("c"))
    bed.stop(0, 1)
    assert await me.do(good.acquire)
    # It does not wait for the third server, whose grant is given back in the background.
    await until(lambda: bed.left_behind() == {"a", "b"}, 10, "two servers are left")
    await me.do(good.release)
    with pytest.raises(QuorumError, match="0 of 2 replicas"):
        await me.do(bad.acquire, timeout=0)
    await until(lambda: bed.left_behind() == set(), 10, "all are given back")


@pytest.mark.parametrize(
    "make",
    [
        lambda: interlock.required(0),
        lambda: interlock.required(-1),
        lambda: interlock.required(True),
        lambda: interlock.required("some"),  # type: ignore[arg-type]  # what users may try
        lambda: interlock.required(1, 0),
        lambda: interlock.best_effort(1, float("inf")),
        lambda: interlock.best_effort(-1, fsync=True),
        lambda: ReplicaPolicy("sometimes"),  # type: ignore[arg-type]  # what users may try
    ],
)
def test_a_policy_that_cannot_work_is_refused(make: Callable[[], object]) -> None:
    """A policy that makes no sense is refused when it is made."""
    with pytest.raises(ConfigError):
        make()
