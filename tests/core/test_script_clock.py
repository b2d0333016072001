"""The clock of scripts, on a server that refuses TIME."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import redis
from tests.support.servers import RedisServer

import interlock
from interlock._core.scripts.source import sent

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOCK = sent("local key = KEYS[1]\nlocal time = redis.call('time') return time")
SOON = 10.0


@pytest.fixture(scope="module")
def timeless() -> Iterator[RedisServer]:
    """Give a server with a user that may not use TIME."""
    with RedisServer(users=["timeless on >pw ~* &* +@all -time"]) as server:
        yield server


@pytest.mark.parametrize("kept", ["missing", "lasting", "ending", "of another type"])
def test_a_key_tells_the_time(timeless: RedisServer, kept: str) -> None:
    """The time is that of TIME, and the key is as before."""
    user = redis.Redis(port=timeless.port, username="timeless", password="pw")
    with timeless.client() as server, user:
        server.delete("key")
        if kept == "of another type":
            server.hset("key", "field", "value")
        elif kept != "missing":
            server.set("key", "value")
        if kept == "ending":
            server.pexpire("key", 60_000)
        before = server.dump("key"), server.pttl("key")
        first = _milliseconds(server.time())
        seconds, rest = (int(part) for part in user.eval(CLOCK, 1, "key"))
        told = seconds * 1000 + rest // 1000
        assert first <= told <= _milliseconds(server.time())
        assert server.dump("key") == before[0]
        left = server.pttl("key")
        assert left == before[1] or 50_000 < left <= before[1]


def _milliseconds(of: tuple[int, int]) -> int:
    return of[0] * 1000 + of[1] // 1000


def test_objects_work_without_the_time(timeless: RedisServer) -> None:
    """Fair locks, groups, permits, barriers and elections need no right to TIME."""
    url = f"redis://timeless:pw@127.0.0.1:{timeless.port}"
    with interlock.connect(url) as client:
        with client.fair_lock("fair"), client.group_lock("group", ["a"]):
            assert 0 < client.fair_lock("fair").remaining() <= 30
        leased = client.leased_semaphore("leased", 2)
        with leased.acquire(timeout=SOON, lease=5) as permit:
            assert 0 < permit.remaining <= 5
            assert leased.available_permits() == 1
        assert client.barrier("barrier", 1).wait(SOON) == 0
        with client.election("election") as term:
            leader = client.election("election").leader()
            assert leader is not None
            assert abs((leader.since or 0) - time.time()) < 60
            assert term.valid
