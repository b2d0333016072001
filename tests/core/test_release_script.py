"""The release of a lock, where no face can see a rule: what its script does at the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.core.scripts_at import Server

from interlock._core.scripts.locks import ACQUIRE, ASK, RELEASE
from interlock._core.scripts.permits import LIMITED_ASK
from interlock._core.scripts.read_write_lock import WRITE_ASK

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

NAME, QUEUE, CHANNEL = "the name", "interlock_queue:{the name}", "redisson_lock__channel:{the name}"
ONE, TWO, THREE = [f"client:{number:012}" for number in (1, 2, 3)]
LEASE = 60_000


@pytest.mark.parametrize("java", [True, False])
def test_every_second_release_is_javas(redis_client: redis.Redis, java: bool) -> None:
    """Who was granted the lock by a release leaves it to Java, if that listens; the next one looks."""
    at = Server(redis_client, QUEUE, CHANNEL)
    at.listen("client", java=java)
    assert redis_client.eval(ACQUIRE.text, 1, NAME, LEASE, ONE, 1) is None
    assert at.run(ASK, [NAME, QUEUE], LEASE, TWO, CHANNEL)[3] == 1
    granted, news = at.run(RELEASE, [NAME, QUEUE], ONE, 0, CHANNEL)
    assert (granted, news[-2:]) == (TWO.partition(":")[2].encode(), b"|1")
    assert at.run(ASK, [NAME, QUEUE], LEASE, THREE, CHANNEL)[3] == 1
    answer = at.run(RELEASE, [NAME, QUEUE], TWO, 0, CHANNEL, "1")
    next_one = THREE.partition(":")[2]
    if java:
        assert answer == 1
        assert not redis_client.exists(NAME)
        assert at.heard() == [("java", "00"), ("client", next_one)]
    else:
        assert answer[0] == next_one.encode()
        assert redis_client.hgetall(NAME) == {THREE.encode(): b"1"}
    at.listening.close()


@pytest.mark.parametrize("depth", [1, 0])
def test_a_full_server_takes_each_release(fresh_server: RedisServer, depth: int) -> None:
    """Without memory for anything new a lock comes down to each depth."""
    with fresh_server.client() as client:
        at = Server(client, QUEUE, CHANNEL)
        for reached in (1, 2):
            assert client.eval(ACQUIRE.text, 1, NAME, LEASE, ONE, reached) is None
        client.config_set("maxmemory", 1)
        assert at.run(RELEASE, [NAME, QUEUE], ONE, depth, CHANNEL) == 1
        client.config_set("maxmemory", 0)
        assert client.hgetall(NAME) == ({ONE.encode(): b"1"} if depth else {})
        at.listening.close()


def test_a_full_server_lets_one_ask_that_was_granted_the_lock(fresh_server: RedisServer) -> None:
    """A waiter may ask just before it reads that it was granted the lock, a reader or writer, too."""
    rest = [LEASE, TWO, CHANNEL]
    writer = [LEASE, f"{TWO}:write", CHANNEL]
    with fresh_server.client() as client:
        client.hset(NAME, TWO, 1)
        client.hset("rw", mapping={"mode": "write", f"{TWO}:write": 1})
        client.zadd("permits", {f"{TWO}.0": 2 * 10**12})
        client.config_set("maxmemory", 1)
        try:
            held = client.eval(ASK["PUBLISH"].text, 2, NAME, QUEUE, *rest)
            wrote = client.eval(WRITE_ASK["PUBLISH"].text, 3, "rw", "coming", "queue", *writer)
            text, limit = LIMITED_ASK["PUBLISH"].text, f"{TWO}%1"
            let_in = client.eval(text, 2, "permits", "waits", LEASE, limit, CHANNEL, "1")
        finally:
            client.config_set("maxmemory", 0)
        assert held == wrote == let_in == [b"", b""]
