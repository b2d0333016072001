"""The server cuts connections: nobody hangs, no lock has two holders, and everybody goes on."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import renewed, until
from tests.support.patience import let_others_run

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage

SEED = 20


def _kill(server: redis.Redis, what: str) -> int:
    """Kill all connections of the clients under test; return how many."""
    killed = 0
    for line in server.client_list():
        kinds = ("all", "pubsub" if int(line["sub"]) else "normal")
        if line["name"] == "victim" and what in kinds:
            killed += server.client_kill_filter(_id=line["id"])
    return killed


@pytest.mark.parametrize(
    ("face", "what"),
    [("sync", "normal"), ("sync", "pubsub"), ("sync", "all"), ("asyncio", "all")],
    indirect=["face"],
)
async def test_connections_killed_at_every_step(stage: Stage, what: str) -> None:
    """Connections that are killed cost a reconnection each and nothing else.

    They are killed before acquire, re-entry, wait, renewal and release.
    """
    url = f"{stage.url}?client_name=victim"
    client, owner, waiter = stage.client(url, renewed="soon"), stage.owner(), stage.owner()
    lock = client.lock("name")
    for timeout in (2, 0):
        for step in (lock.acquire, lock.release):
            await owner.do(step)
        _kill(stage.redis, what)
        # A single try too is not lost to a connection that was dead already.
        assert await owner.do(lock.acquire, timeout=timeout)
        _kill(stage.redis, what)
        assert await owner.do(lock.acquire, timeout=timeout)
        assert stage.redis.hvals("name") == [b"2"]
        hold = await owner.do(lambda: lock.hold)
        waiting = asyncio.create_task(waiter.do(lock.acquire, timeout=10))
        renewing = asyncio.create_task(renewed(hold))
        for _ in range(3):
            await asyncio.sleep(0.15)  # kills at several moments of a renewal
            _kill(stage.redis, what)
        await renewing
        _kill(stage.redis, what)
        assert not waiting.done()
        await owner.do(lock.release)
        assert stage.redis.hvals("name") == [b"1"]
        _kill(stage.redis, what)
        await owner.do(lock.release)
        assert await waiting
        _kill(stage.redis, what)
        await waiter.do(lock.release)
        assert not stage.redis.exists("name")


async def test_a_storm_of_kills(stage: Stage) -> None:
    """Under random kills, many owners in three clients each get the lock, one at a time."""
    clients = [stage.client(f"{stage.url}?client_name=victim", lease=20) for _ in range(3)]
    inside: list[int] = []
    overlaps: list[tuple[int, ...]] = []
    taken = [0] * 9
    ended = threading.Event()
    killed = 0

    async def work(number: int, client: Any) -> None:
        lock, owner = client.lock("name"), stage.owner()
        while not ended.is_set():
            assert await owner.do(lock.acquire)
            inside.append(number)
            if len(inside) > 1:
                overlaps.append(tuple(inside))
            await let_others_run(5)
            inside.remove(number)
            await owner.do(lock.release)
            taken[number] += 1

    workers = [asyncio.create_task(work(n, clients[n % 3])) for n in range(9)]
    dice = random.Random(SEED)
    least, most = time.monotonic() + 1.5, time.monotonic() + 30
    while time.monotonic() < least or (
        not (killed > 10 and all(taken)) and time.monotonic() < most
    ):
        victims = [c["id"] for c in stage.redis.client_list() if c["name"] == "victim"]
        for victim in dice.sample(victims, k=min(2, len(victims))):
            killed += stage.redis.client_kill_filter(_id=victim)
        await asyncio.sleep(dice.uniform(0.01, 0.1))  # kills at random moments
    ended.set()
    await asyncio.wait_for(asyncio.gather(*workers), 20)
    assert not overlaps
    assert killed > 10
    assert all(taken), taken
    await until(lambda: not stage.redis.exists("name"), 10, "nothing is left")
