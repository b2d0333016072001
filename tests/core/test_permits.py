"""The permits, where no face can see a rule: what its scripts do at the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.core import scripts_at

from interlock._core.scripts.permits import LEASED_ASK, LEASED_RELEASE, LEASED_TRY, permits_renew

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

NAME, PERMITS = "the name", "{the name}:timeout"
CHANNEL, QUEUE = "redisson_sc:{the name}", "interlock_leased_queue:{the name}"
CLIENTS = {each: f"{each * 8}-0000-4000-8000-000000000000" for each in "ab"}
"""The ids of two clients, by a letter."""
GRANT, LEASE = 3000, 60_000


class Leased(scripts_at.Server):
    """What clients' scripts do at the server, one by one, with a leased semaphore of two permits."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client, QUEUE, CHANNEL)
        self.total = 2

    def woken(self) -> list[tuple[str, str]]:
        """Return what was heard since the last call, each client by its letter."""
        return [(who if who == "java" else who[0], text) for who, text in self.heard()]

    def hold(self, client: str, number: int, n: int = 1, limit: int = 2) -> str:
        """Return the id of a hold of *n* permits; let *limit* be all there are."""
        self.total = limit
        return f"{CLIENTS[client]}:{number:012}" + (f"*{n}" if n > 1 else "")

    def acquire(self, who: str, lease: int = LEASE) -> Any:
        """Let *who* try, without a place."""
        return self.run(LEASED_TRY, [NAME, PERMITS, QUEUE], lease, who, CHANNEL, self.total, 0)

    def ask(self, who: str) -> Any:
        return self.run(LEASED_ASK, [NAME, PERMITS, QUEUE], LEASE, who, CHANNEL, self.total, 0, "1")

    def release(self, who: str, *how: str) -> Any:
        return self.run(LEASED_RELEASE, [NAME, PERMITS, QUEUE], who, CHANNEL, *how)

    def call(self, call: Any) -> Any:
        return self.client.eval(call.script.text, len(call.keys), *call.keys, *call.args)


@pytest.fixture
def leased(redis_client: redis.Redis) -> Iterator[Leased]:
    redis_client.flushall()
    server = Leased(redis_client)
    yield server
    server.listening.close()


def test_expired_permits_come_back_and_their_client_loses_its_places(leased: Leased) -> None:
    """A permit that was not given back in time is free; its client's waiters go, and are told."""
    leased.listen(CLIENTS["a"], CLIENTS["b"])
    late, other, next_one = leased.hold("a", 1, 2), leased.hold("a", 2), leased.hold("b", 3)
    assert leased.acquire(late, 500) is None
    assert leased.ask(other)[3] == 1
    assert leased.ask(next_one)[3] == 1
    time.sleep(0.55)
    assert leased.ask(next_one) == [b"", b""]
    assert not leased.client.exists(QUEUE)
    assert leased.woken() == [("a", "")]


def test_permits_end_with_their_number(leased: Leased) -> None:
    """A renewal by who gives no idle time lengthens that of neither key: the sum stays whole."""
    held = leased.hold("a", 1)
    leased.acquire(held)
    for key in (NAME, PERMITS):
        assert leased.client.pexpire(key, LEASE // 2)
    [permit] = leased.client.zrange(PERMITS, 0, -1)
    assert leased.call(permits_renew([PERMITS], LEASE / 1000, [permit.hex()])) == [1]
    assert max(leased.client.pttl(key) for key in (NAME, PERMITS)) <= LEASE // 2


def test_the_ids_are_made_of_the_holders(leased: Leased) -> None:
    """A permit's id is 16 bytes: of the client's id, the number and which one of several it is."""
    who = leased.hold("a", 17, 2)
    leased.acquire(who)
    found: Any = leased.client.zrange(PERMITS, 0, -1)
    assert [each.hex() for each in found] == [
        "aaaaaaaa000040000000000000170000",
        "aaaaaaaa000040000000000000170001",
    ]


def test_java_is_told_how_many_are_free(leased: Leased) -> None:
    """With nobody of ours in line a release tells the new number; of several, how many came back."""
    leased.listen(CLIENTS["a"], java=True)
    one, two = leased.hold("a", 1, 1, 5), leased.hold("a", 2, 3, 5)
    leased.acquire(one)
    leased.acquire(two)
    leased.release(one)
    leased.release(two)
    assert leased.woken() == [("java", "2"), ("java", "3")]


def test_every_second_release_is_javas(leased: Leased) -> None:
    """Who was let in by a release leaves permits free for Java, and tells the first to look."""
    leased.listen(CLIENTS["a"], CLIENTS["b"])
    other = leased.client.pubsub()
    other.subscribe(CHANNEL)
    while other.get_message(timeout=0.05):
        pass
    held, waits, last = leased.hold("a", 1, 2), leased.hold("b", 2), leased.hold("b", 3, 2)
    leased.acquire(held)
    leased.ask(waits)
    leased.release(held)
    leased.ask(last)
    leased.woken()
    assert leased.release(waits, "1") == 1
    assert leased.client.zcard(PERMITS) == 0
    assert leased.client.zrange(QUEUE, 0, -1) == [last.encode()]
    assert leased.woken() == [("java", "2"), ("b", last.partition(":")[2])]
    other.close()


def test_a_permit_of_anybody_is_given_back_by_its_id(leased: Leased) -> None:
    """Java's permits, too; the next one of ours is served by a message, also the breaker's own."""
    leased.listen(CLIENTS["a"])
    java = bytes(range(16))
    leased.client.set(NAME, 0)
    leased.client.zadd(PERMITS, {java: 922337203685477})
    waits = leased.hold("a", 2, 1, 1)
    assert leased.ask(waits)[0] == -1, "it never ends"
    assert [leased.release(java.hex(), "-") for _ in range(2)] == [1, None]
    [(_, end)] = leased.client.zrange(PERMITS, 0, -1, withscores=True)
    assert end <= leased.client.time()[0] * 1000 + GRANT + 1000
    assert [who for who, _ in leased.woken()] == ["a"]


def test_a_semaphore_that_ends_outlasts_its_permits(leased: Leased) -> None:
    """A number with a TTL does not end before a lease."""
    leased.client.set(NAME, 2, px=500)
    leased.acquire(leased.hold("a", 1), 5000)
    assert leased.client.pttl(NAME) > 4000
    assert leased.client.pttl(PERMITS) > 4000
