"""The release of a lock, where no face can see a rule: what its script does at the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.scripts.locks import ACQUIRE, ASK, RELEASE
from interlock._core.scripts.permits import LIMITED_ASK
from interlock._core.scripts.read_write_lock import WRITE_ASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.support.servers import RedisServer

NAME, QUEUE = "the name", "interlock_queue:{the name}"
CHANNEL, WAITING = "redisson_lock__channel:{the name}", "interlock_waiting:{the name}"
ONE, TWO, THREE = [f"client:{number:012}" for number in (1, 2, 3)]
LEASE = 60_000


class Server:
    """What the scripts of a lock do at a server that hears its waiters, and perhaps Java."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self._java, self._ours = client.pubsub(), client.pubsub()

    def listen(self, *, java: bool) -> None:
        """Subscribe as a client whose waiters stand in the queue does, and as Java does."""
        self._ours.subscribe(CHANNEL, WAITING, "interlock_wake:{the name}:client")
        if java:
            self._java.subscribe(CHANNEL)
        self.heard()
        self.javas()

    def javas(self) -> list[bytes]:
        """Return what Java heard since the last call."""
        return [data for _, data in _messages(self._java)]

    def heard(self) -> list[bytes]:
        """Return what woke our waiters since the last call."""
        return [data for channel, data in _messages(self._ours) if b"wake" in channel]

    def acquire(self, who: str) -> Any:
        """Let *who* try."""
        return self.client.eval(ACQUIRE.text, 1, NAME, LEASE, who, 1)

    def ask(self, who: str) -> Any:
        """Let *who* ask for the lock, or a place."""
        return self.client.eval(ASK["PUBLISH"].text, 2, NAME, QUEUE, LEASE, who, CHANNEL)

    def release(self, who: str, depth: int = 0, *how: str) -> Any:
        """Let *who* go down to *depth*."""
        return self.client.eval(RELEASE["PUBLISH"].text, 2, NAME, QUEUE, who, depth, CHANNEL, *how)

    def close(self) -> None:
        """Listen no more."""
        self._java.close()
        self._ours.close()


def _messages(listening: Any) -> list[tuple[bytes, bytes]]:
    messages = iter(lambda: listening.get_message(timeout=0.05), None)
    return [(each["channel"], each["data"]) for each in messages if each["type"] == "message"]


@pytest.fixture
def at(redis_client: redis.Redis) -> Iterator[Server]:
    """Give an empty server."""
    redis_client.flushall()
    server = Server(redis_client)
    yield server
    server.close()


@pytest.mark.parametrize("java", [True, False])
def test_every_second_release_is_javas(at: Server, java: bool) -> None:
    """Who was granted the lock by a release leaves it to Java, if that listens; the next one looks."""
    at.listen(java=java)
    assert at.acquire(ONE) is None
    assert at.ask(TWO)[3] == 1
    granted, news = at.release(ONE)
    assert (granted, news[-2:]) == (TWO.partition(":")[2].encode(), b"|1")
    assert at.ask(THREE)[3] == 1
    answer = at.release(TWO, 0, "1")
    next_one = THREE.partition(":")[2].encode()
    if java:
        assert answer == 1
        assert not at.client.exists(NAME)
        assert (at.javas(), at.heard()) == ([b"00"], [next_one])
    else:
        assert answer[0] == next_one
        assert at.client.hgetall(NAME) == {THREE.encode(): b"1"}


@pytest.mark.parametrize("depth", [1, 0])
def test_a_full_server_takes_each_release(fresh_server: RedisServer, depth: int) -> None:
    """Without memory for anything new a lock comes down to each depth."""
    with fresh_server.client() as client:
        at = Server(client)
        assert at.acquire(ONE) is None
        assert client.eval(ACQUIRE.text, 1, NAME, LEASE, ONE, 2) is None
        client.config_set("maxmemory", 1)
        try:
            assert at.release(ONE, depth) == 1
        finally:
            client.config_set("maxmemory", 0)
        assert client.hgetall(NAME) == ({ONE.encode(): b"1"} if depth else {})
        at.close()


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
