"""Many at once: what holds for two holds for a crowd, beside Redisson's clients too."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cards import own_keys

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis
    from tests.read_write.wire import Wire

CROWD = 32


async def test_readers_that_leave_together_look_at_nobody(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """However many of them there are, each release costs the server as little."""
    async with interlock.asyncio.connect(redis_url) as client:
        inside, leave = asyncio.Semaphore(0), asyncio.Event()

        async def visit() -> None:
            lock = client.read_write_lock("name").read
            await lock.acquire()
            inside.release()
            await leave.wait()
            await lock.release()

        visits = [asyncio.create_task(visit()) for _ in range(4 * CROWD)]
        for _ in visits:
            await inside.acquire()
        with redis_client.pipeline() as together:
            for key in redis_client.keys("*name*"):
                together.pexpire(key, 30_000)
            together.config_resetstat()
            together.execute()
        leave.set()
        await asyncio.gather(*visits)
    runs = redis_client.info("commandstats")["cmdstat_hlen"]["calls"]
    assert runs == len(visits)
    assert redis_client.keys("*name*") == []


@pytest.mark.parametrize("clients", [1, 4], ids=["one-client", "four-clients"])
def test_readers_see_no_half_written_thing(
    redis_url: str, redis_client: redis.Redis, clients: int
) -> None:
    """Readers see whole what writers change in two steps, and no change is lost.

    Writers come down to look at their change.
    """
    together = [interlock.connect(redis_url) for _ in range(clients)]
    state, failures = {"left": 0, "right": 0}, list[BaseException]()

    def work(number: int) -> None:
        lock = together[number % clients].read_write_lock("name")
        try:
            for turn in range(12):
                if (number + turn) % 4:
                    with lock.read:
                        assert state["left"] == state["right"]
                        continue
                with lock.write:
                    state["left"] += 1
                    seen = state["left"]
                    together[0].lock("other").locked()
                    state["right"] += 1
                    lock.read.acquire()
                assert state["left"] == state["right"] == seen
                lock.read.release()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in together:
        client.close()
    assert failures == []
    assert state == {"left": 48, "right": 48}
    assert not own_keys(redis_client)


JAVAS = ["2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38", "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:39"]


class _Ours:
    """One of our owners: a context of this thread."""

    def __init__(self, client: interlock.Client) -> None:
        self.flow, both = contextvars.copy_context(), client.read_write_lock("name")
        self.sides = both.read, both.write


@pytest.mark.parametrize("seed", range(6))
def test_random_conversations_with_redisson(redis_url: str, wire: Wire, seed: int) -> None:
    """Two Java threads and two of our owners come and go at random.

    No writer ever shares the lock, each owner knows its depth, and the lock ends free.
    """
    rng = random.Random(seed)
    with interlock.connect(redis_url) as client:
        ours = [_Ours(client) for _ in "ab"]
        depths: dict[Any, list[int]] = {who: [0, 0] for who in (*JAVAS, *ours)}

        def act(who: Any, side: int, *, take: bool) -> None:
            depth = depths[who]
            if take and (side == 0 or depth[0] == 0 or depth[1] > 0):
                depth[side] += _takes(wire, who, side)
            elif not take and depth[side]:
                _leaves(wire, who, side)
                depth[side] -= 1

        for _ in range(150):
            act(rng.choice(list(depths)), rng.randrange(2), take=rng.random() < 0.5)
            _check(wire, depths)
        for who in depths:
            for side in (0, 1):
                while depths[who][side]:
                    act(who, side, take=False)
                    _check(wire, depths)
        assert not own_keys(wire.redis)


def _takes(wire: Wire, who: Any, side: int) -> bool:
    if isinstance(who, str):
        answer = (wire.java_writes if side else wire.java_reads)(java=who)
        return answer is None
    return bool(who.flow.run(who.sides[side].acquire, timeout=0))


def _leaves(wire: Wire, who: Any, side: int) -> None:
    if isinstance(who, str):
        assert (wire.java_stops_writing if side else wire.java_stops_reading)(java=who) is not None
    else:
        who.flow.run(who.sides[side].release)


def _check(wire: Wire, depths: dict[Any, list[int]]) -> None:
    writers = [who for who, (_, writing) in depths.items() if writing]
    inside = [who for who, (reading, writing) in depths.items() if reading or writing]
    assert not writers or inside == writers
    assert len(writers) <= 1
    fields = wire.hash()
    assert fields.pop("mode", "free") == ("write" if writers else "read" if inside else "free")
    on_server = sorted(int(depth) for depth in fields.values())
    assert on_server == sorted(depth for pair in depths.values() for depth in pair if depth)
    assert not inside or wire.left() > 0
