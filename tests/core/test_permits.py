"""The permits, where no face can see a rule: what its scripts do at the server."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis.exceptions

from interlock._core.scripts.permits import (
    LEASED_ASK,
    LEASED_RELEASE,
    LEASED_TRY,
    LIMITED_ASK,
    LIMITED_RELEASE,
    LIMITED_TRY,
    limited_query,
    permits_renew,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "the name"
CLIENTS = {each: f"{each * 8}-0000-4000-8000-000000000000" for each in "abc"}
"""The ids of three clients, by a letter."""
GRANT, KEEP, LEASE = 3000, 10_000, 60_000


def holder(client: str, number: int, wish: str = "") -> str:
    """Return the id of a hold of *client*."""
    return f"{CLIENTS[client]}:{number:012}{wish}"


class Server:
    """What a client's scripts do at the server, one by one; its clients listen or do not."""

    kind: str
    scripts: tuple[Any, Any, Any]
    own: tuple[str, ...]
    channel: str

    def __init__(self, client: redis.Redis) -> None:
        self.client, self.publish = client, "PUBLISH"
        self._listening = client.pubsub()
        self.queue_key = f"interlock_{self.kind}_queue:{{{NAME}}}"
        self.permits = self.own[-1]
        self.more: list[Any] = []

    def listen(self, *clients: str, java: bool = False) -> None:
        """Subscribe as *clients* whose waiters stand in the queue do, and as Java does."""
        at = f"{{{NAME}}}"
        waiting = f"interlock_{self.kind}_waiting:{at}"
        wakes = [f"interlock_{self.kind}_wake:{at}:{CLIENTS[each]}" for each in clients]
        self._listening.subscribe(self.channel, *([] if java else [waiting]), *wakes)
        self.heard()

    def heard(self) -> list[tuple[str, str]]:
        """Return the messages since the last call: whom it woke, and the text."""
        found = list[tuple[str, str]]()
        while (message := self._listening.get_message(timeout=0.05)) is not None:
            if message["type"] == "message":
                who = message["channel"].decode().rpartition("}")[2][1:2] or "java"
                found.append((who, message["data"].decode()))
        return found

    def stand(self, *members: str) -> None:
        """Let *members* stand in the queue, in this order."""
        seconds, rest = self.client.time()
        now = seconds * 10**6 + rest - len(members)
        self.client.zadd(self.queue_key, {each: now + at for at, each in enumerate(members)})

    def queue(self) -> list[str]:
        """Return who stands in the queue, in order."""
        found: Any = self.client.zrange(self.queue_key, 0, -1)
        return [each.decode() for each in found]

    def held(self) -> int:
        """Return how many permits are held."""
        return int(self.client.zcard(self.permits))

    def left(self) -> list[float]:
        """Return the milliseconds that are left of the permits, the least first."""
        seconds, rest = self.client.time()
        ends: Any = self.client.zrange(self.permits, 0, -1, withscores=True)
        return [at - seconds * 1000 - rest / 1000 for _, at in ends]

    def run(self, which: int, *args: Any) -> Any:
        """Run one of the three scripts."""
        keys = [*self.own, self.queue_key]
        script = self.scripts[which][self.publish].text
        return self.client.eval(script, len(keys), *keys, *args)

    def acquire(self, who: str, lease: int = LEASE) -> Any:
        """Let *who* try, without a place."""
        return self.run(0, lease, who, self.channel, *self.more)

    def ask(self, who: str, *more: Any, lease: int = LEASE) -> Any:
        """Let *who* ask for permits or a place."""
        return self.run(1, lease, who, self.channel, *self.more, "1", *more)

    def release(self, who: str, *how: str) -> Any:
        """Let *who* give back what it has."""
        return self.run(2, who, self.channel, *how)

    def ids(self, who: str) -> str:
        """Return the ids of the permits of *who*, with spaces between them."""
        raise NotImplementedError

    def renew(self, *who: str, lease: int = LEASE) -> list[int]:
        """Let all *who* be renewed."""
        call = permits_renew([self.permits] * len(who), lease / 1000, list(map(self.ids, who)))
        found: list[int] = self.client.eval(
            call.script.text, len(call.keys), *call.keys, *call.args
        )
        return found


class Limited(Server):
    """A limit of two."""

    kind, scripts = "limited", (LIMITED_TRY, LIMITED_ASK, LIMITED_RELEASE)
    own = (f"interlock_limited:{{{NAME}}}",)
    channel = f"interlock_limited_waiting:{{{NAME}}}"

    def hold(self, client: str, number: int, n: int = 1, limit: int = 2) -> str:
        """Return the id of a hold of *n* permits."""
        return holder(client, number, (f"*{n}" if n > 1 else "") + f"%{limit}")

    def ids(self, who: str) -> str:
        """Return the ids of the permits of *who*, with spaces between them."""
        client, _, number = who.partition(":")
        n = int(number.partition("*")[2].partition("%")[0] or 1)
        return " ".join(f"{client}:{number[:12]}.{each}" for each in range(n))


class Leased(Server):
    """A leased semaphore of two permits."""

    kind, scripts = "leased", (LEASED_TRY, LEASED_ASK, LEASED_RELEASE)
    own = (NAME, f"{{{NAME}}}:timeout")
    channel = f"redisson_sc:{{{NAME}}}"

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client)
        self.more = [2, 0]

    def hold(self, client: str, number: int, n: int = 1, limit: int = 2) -> str:
        """Return the id of a hold of *n* permits; let *limit* be all there are."""
        self.more = [limit, 0]
        return holder(client, number, f"*{n}" if n > 1 else "")

    def ids(self, who: str) -> str:
        """Return the ids of the permits of *who*, in hex, with spaces between them."""
        client, number = who.replace("-", "")[:16], who.partition(":")[2]
        n = int(number.partition("*")[2] or 1)
        return " ".join(f"{client}{number[:12]}{each:04}" for each in range(n))

    def free(self) -> int:
        """Return the number."""
        return int(self.client.get(NAME) or 0)


@pytest.fixture(params=[Limited, Leased], ids=["limited", "leased"])
def at(request: pytest.FixtureRequest, redis_client: redis.Redis) -> Iterator[Any]:
    """Give an empty server."""
    redis_client.flushall()
    server = request.param(redis_client)
    yield server
    if isinstance(server, Leased) and redis_client.type(NAME) == b"string":
        assert server.free() + server.held() == server.more[0], "the sum has changed"
    server._listening.close()


@pytest.fixture
def leased(redis_client: redis.Redis) -> Iterator[Leased]:
    """Give an empty server for a leased semaphore."""
    redis_client.flushall()
    server = Leased(redis_client)
    yield server
    server._listening.close()


HELD = [b"", b""]


def test_no_more_than_there_are(at: Any) -> None:
    """Two are taken, the third is refused until the first lease ends, and copies change nothing."""
    one, two, three = (at.hold("a", number) for number in (1, 2, 3))
    for _ in range(2):
        assert at.acquire(one) is None
    assert at.acquire(two, 2 * LEASE) is None
    left = at.acquire(three)
    assert LEASE - 5000 < left <= LEASE
    assert at.held() == 2
    assert at.release(one) == 1
    assert at.release(one) is None
    assert at.held() == 1
    assert at.ask(three) == HELD


def test_a_late_copy_makes_no_lease_shorter(at: Any) -> None:
    """A try that arrives once more, after its permit was kept for longer, changes nothing."""
    held = at.hold("a", 1)
    at.acquire(held, 1000)
    assert at.renew(held) == [1]
    assert at.acquire(held, 1000) is None
    assert at.ask(held, lease=1000) == HELD
    assert at.left()[0] > LEASE - 5000


def test_several_are_taken_together_or_none(at: Any) -> None:
    """Who wants two of three waits for both; its release gives both back."""
    many, one, more = at.hold("a", 1, 2, 3), at.hold("a", 2, 1, 3), at.hold("b", 3, 2, 3)
    at.listen("a", "b")
    assert at.acquire(many) is None
    assert at.held() == 2
    assert at.acquire(more) > 0
    assert at.acquire(one) is None
    assert at.ask(more)[3] == 1
    assert at.release(one) == 1
    assert at.held() == 2, "one does not fit"
    assert at.release(many) == 1
    assert at.held() == 2
    assert [who for who, _ in at.heard() if who != "java"] == ["b"]


def test_each_permit_has_its_own_limit(redis_client: redis.Redis) -> None:
    """A grant uses the limit of who waits, and whoever comes with a larger one stands in line, too."""
    at = Limited(redis_client)
    at.listen("a", "b")
    held = [at.hold("a", number, 1, 3) for number in range(3)]
    for each in held:
        assert at.acquire(each) is None
    small, large = at.hold("b", 8, 1, 2), at.hold("b", 9, 1, 5)
    assert at.ask(small)[3] == 1
    assert at.acquire(large) == -1 or at.held() == 3
    at.ask(large)
    assert at.queue() == [small, large], "strictly in order"
    at.release(held[0])
    assert at.queue() == [small, large]
    at.release(held[1])
    assert not at.queue()
    assert at.held() == 3


def test_a_release_lets_in_from_the_front(at: Any) -> None:
    """All for whom there are enough get them for 3 s, and each client has one message for all its."""
    at.listen("a", "b", "c")
    held = at.hold("a", 1, 4, 4)
    assert at.acquire(held) is None
    waiting = [at.hold(who, n, 1, 4) for who, n in zip("bcbbb", (2, 3, 4, 5, 6), strict=True)]
    for each in waiting:
        assert at.ask(each)[3] == 1
    assert at.release(held) == 1
    assert at.queue() == waiting[4:]
    assert at.held() == 4
    assert all(GRANT - 500 < left <= GRANT for left in at.left())
    heard = at.heard()
    assert [who for who, _ in heard] == ["b", "c"]
    numbers, _, told = heard[0][1].partition("|")
    assert numbers == " ".join(each.partition(":")[2] for each in (waiting[0], *waiting[2:4]))
    assert told.endswith("||1"), "no token, given by a release"


def test_news_for_the_releaser_are_in_its_reply(at: Any) -> None:
    """A waiter of the releasing client is told by the reply, and by no message."""
    at.listen("a")
    held, waits = at.hold("a", 1, 2), at.hold("a", 2)
    assert at.acquire(held) is None
    assert at.ask(waits)[3] == 1
    number, told = at.release(held)
    assert number.decode() == waits.partition(":")[2]
    assert told.endswith(b"||1")
    assert not at.heard()


def test_a_shorter_lease_is_granted_as_it_is(at: Any) -> None:
    """A lease below 3 s stands in the id, and a grant lasts no longer."""
    at.listen("b")
    held = at.hold("a", 1, 2)
    assert at.acquire(held) is None
    number, limit = f"{holder('b', 2)}/500", "%2" if at.kind == "limited" else ""
    at.ask(number + limit, lease=500)
    at.release(held)
    assert 0 < at.left()[0] <= 500


def test_a_waiter_that_asks_makes_its_grant_whole(at: Any) -> None:
    """Who missed its message finds that it has permits, and has them for its lease from then on."""
    at.listen("b")
    held, waits = at.hold("a", 1, 2), at.hold("b", 2)
    at.acquire(held)
    at.ask(waits)
    at.release(held)
    assert at.left()[0] <= GRANT
    for _ in range(2):
        assert at.ask(waits) == HELD
        assert at.left()[0] > LEASE - 5000
    assert at.held() == 1


def test_who_stands_gives_free_permits_to_the_first(at: Any) -> None:
    """A look of one who stands lets in whoever is first; a newcomer takes nothing, and joins."""
    at.listen("a", "b")
    first, second, third = at.hold("a", 1, 2), at.hold("b", 2, 2), at.hold("b", 3, 2)
    at.stand(first, second)
    if at.kind == "leased":
        at.client.set(NAME, 2)
    assert at.acquire(third) == -2, "it is left to others"
    joined = at.ask(third)
    assert joined[:1] == [-2]
    assert joined[3] == 1
    assert at.queue() == [first, second, third]
    assert at.ask(second)[3] == 0
    assert at.queue() == [second, third]
    [(who, told)] = at.heard()
    assert who == "a"
    assert told.endswith("||0"), "given by a look"
    assert at.held() == 2


def test_who_stands_behind_one_that_does_not_fit_gets_nothing(at: Any) -> None:
    """One permit is free and the first wants two: a look of the second one takes nothing."""
    at.listen("a", "b")
    held, large, small = at.hold("a", 1), at.hold("b", 2, 2), at.hold("a", 3)
    at.acquire(held)
    for _ in range(2):
        assert at.ask(large)[0] > 0
        assert at.ask(small)[0] > 0
    assert at.held() == 1
    assert at.queue() == [large, small]


def test_who_does_not_listen_loses_its_place(at: Any) -> None:
    """Whoever left no listener behind keeps nobody from permits, not even from a first try."""
    dead, alive = at.hold("a", 1), at.hold("b", 2)
    at.stand(dead)
    assert at.acquire(alive) is None
    assert not at.queue()
    at.stand(dead)
    at.release(alive)
    assert not at.queue()
    assert at.held() == 0


def test_who_cannot_listen_has_its_turn(at: Any) -> None:
    """A member with a "?" is let in without a message, and its refusals set a pace below 0.1 s."""
    held, deaf = at.hold("a", 1, 2), at.hold("b", 2)
    at.acquire(held)
    assert at.ask(deaf, "?")[3] == 1
    assert at.queue() == [deaf + "?"]
    assert 5 <= at.ask(deaf, "?")[0] <= 100
    at.release(held)
    assert not at.queue()
    assert at.ask(deaf, "?") == HELD
    assert not at.heard()


def test_a_place_that_was_lost_for_a_moment_is_named(at: Any) -> None:
    """Whoever lost its place with its subscription comes back to it."""
    at.listen("a", "b")
    held, late, early = at.hold("a", 1, 2), at.hold("a", 2), at.hold("b", 3)
    at.acquire(held)
    came = at.ask(early)[5]
    at.ask(late)
    at.client.zrem(at.queue_key, early)
    assert at.ask(early, "", came)[5] == came
    assert at.queue() == [early, late]


def test_expired_permits_come_back_and_their_client_loses_its_places(at: Any) -> None:
    """A permit that was not given back in time is free; its client's waiters go, and are told."""
    at.listen("a", "b")
    late, other, next_one = at.hold("a", 1, 2), at.hold("a", 2), at.hold("b", 3)
    assert at.acquire(late, 500) is None
    assert at.ask(other)[3] == 1
    assert at.ask(next_one)[3] == 1
    time.sleep(0.55)
    assert at.ask(next_one) == HELD
    assert at.queue() == []
    assert at.heard() == [("a", "")]
    assert at.held() == 1


def test_permits_that_end_by_themselves_cost_their_client_no_place(at: Any) -> None:
    """Their number begins with 2: nobody was too late to give them back."""
    at.listen("a", "b")
    own, other, next_one = at.hold("a", 2 * 10**11, 2), at.hold("a", 2), at.hold("b", 3)
    assert at.acquire(own, 500) is None
    assert at.ask(other)[3] == 1
    assert at.ask(next_one)[3] == 1
    time.sleep(0.55)
    assert at.ask(next_one) == HELD
    assert at.queue() == []
    assert [who for who, _ in at.heard()] == ["a"]
    assert at.held() == 2


def test_a_waiter_gives_up(at: Any) -> None:
    """A release of one who only stood takes its place, and lets in whom it kept waiting."""
    at.listen("a", "b")
    held, large, small = at.hold("a", 1), at.hold("b", 2, 2), at.hold("a", 3)
    at.acquire(held)
    at.ask(large)
    at.ask(small)
    assert at.release(large) == 0
    assert at.queue() == []
    assert at.held() == 2
    assert at.heard()[0][0] == "a"
    assert at.release(large) is None


def test_a_full_server_takes_permits_back(at: Any) -> None:
    """Out of memory, nobody gets permits or a place; a release works, and lets in the first one."""
    at.listen("b")
    held, waits = at.hold("a", 1, 2), at.hold("b", 2)
    at.acquire(held)
    at.ask(waits)
    at.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
            at.ask(at.hold("b", 3))
        assert at.renew(held) == [1]
        assert at.release(held) == 1
        with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
            at.acquire(at.hold("b", 3))
    finally:
        at.client.config_set("maxmemory", 0)
    assert at.held() == 1
    assert at.queue() == []
    assert [who for who, _ in at.heard() if who != "java"] == ["b"]


def test_without_messages_permits_are_free(at: Any) -> None:
    """Where scripts may not send messages, a release leaves permits to whoever looks."""
    at.listen("b")
    held, waits = at.hold("a", 1, 2), at.hold("b", 2)
    at.acquire(held)
    at.ask(waits)
    at.publish = ""
    assert at.release(held) == 1
    assert at.held() == 0
    assert at.ask(waits) == HELD


def test_without_the_queue_it_is_taken_or_refused(at: Any) -> None:
    """Whoever has no right to the queue's key takes what is free, and stands nowhere."""
    keys, held, other = at.own, at.hold("a", 1, 2), at.hold("b", 2)

    def run(which: int, *args: Any) -> Any:
        script = at.scripts[which]["PUBLISH"].text
        return at.client.eval(script, len(keys), *keys, *args)

    assert run(1, LEASE, held, at.channel, *at.more, "1") == HELD
    assert run(1, LEASE, other, at.channel, *at.more, "1")[2:] == [0, 0, b"", b"0"]
    assert run(0, LEASE, other, at.channel, *at.more) > 0
    assert run(2, held, at.channel) == 1
    assert at.held() == 0


def test_renewals_keep_only_what_is_whole(at: Any) -> None:
    """A renewal lengthens and never shortens; a permit that is gone or over is lost."""
    whole, torn, over = at.hold("a", 1, 2, 9), at.hold("a", 2, 2, 9), at.hold("a", 3, 1, 9)
    for each, lease in ((whole, 5000), (torn, 5000), (over, 20)):
        at.acquire(each, lease)
    time.sleep(0.03)
    others = at.client.zrange(at.permits, 0, -1)
    number = f"{2:012}"
    mine = [e for e in others if number in (e.hex() if at.kind == "leased" else e.decode())]
    at.client.zrem(at.permits, mine[0])
    if at.kind == "leased":
        at.client.incr(NAME)
    assert at.renew(whole, torn, over) == [1, 0, 0]
    assert max(at.left()) > LEASE - 5000
    assert at.renew(whole, lease=1000) == [1]
    assert max(at.left()) > LEASE - 5000


def test_permits_end_with_their_number(leased: Leased) -> None:
    """A renewal by who gives no idle time lengthens that of neither key: the sum stays whole."""
    held = leased.hold("a", 1)
    leased.acquire(held)
    for key in leased.own:
        assert leased.client.pexpire(key, LEASE // 2)
    assert leased.renew(held) == [1]
    assert max(leased.client.pttl(key) for key in leased.own) <= LEASE // 2


def test_a_limit_leaves_nothing(redis_client: redis.Redis) -> None:
    """A limit has one key, which ends after the last permit; there is nothing to set up."""
    redis_client.flushall()
    at = Limited(redis_client)
    held, longer = at.hold("a", 1), at.hold("a", 2)
    at.acquire(held, 1000)
    at.acquire(longer, 2000)
    assert redis_client.keys() == [at.permits.encode()]
    assert 0 < redis_client.pttl(at.permits) - 2000 <= KEEP
    assert redis_client.eval(limited_query(NAME).script.text, 1, at.permits) == 2
    at.release(held)
    at.release(longer)
    assert not redis_client.keys()


def test_the_ids_are_made_of_the_holders(leased: Leased) -> None:
    """A permit's id is 16 bytes: of the client's id, the number and which one of several it is."""
    who = leased.hold("a", 17, 2)
    leased.acquire(who)
    found: Any = leased.client.zrange(leased.permits, 0, -1)
    assert [each.hex() for each in found] == [
        "aaaaaaaa000040000000000000170000",
        "aaaaaaaa000040000000000000170001",
    ]


def test_the_number_and_the_permits_add_up(leased: Leased) -> None:
    """Copies in any order take and give each permit once, and Java sees the number."""
    leased.listen("a", java=True)
    leased.client.set(NAME, 3)
    leased.more = ["", 0]
    holds = [leased.hold("a", number, n, 3) for number, n in ((1, 1), (2, 2), (3, 3))]
    for first, second in itertools.permutations(holds, 2):
        for step, who in itertools.product((leased.acquire, leased.release), (first, second)):
            step(who)
            step(who)
            assert leased.free() + leased.held() == 3
    assert leased.free() == 3
    assert {who for who, _ in leased.heard()} == {"java"}


def test_java_is_told_how_many_are_free(leased: Leased) -> None:
    """With nobody of ours in line a release tells the new number; of several, how many came back."""
    leased.listen("a", java=True)
    one, two = leased.hold("a", 1, 1, 5), leased.hold("a", 2, 3, 5)
    leased.acquire(one)
    leased.acquire(two)
    leased.release(one)
    leased.release(two)
    assert leased.heard() == [("java", "2"), ("java", "3")]


def test_every_second_release_is_javas(leased: Leased) -> None:
    """Who was let in by a release leaves permits free for Java, and tells the first to look."""
    leased.listen("a", "b")
    other = leased.client.pubsub()
    other.subscribe(leased.channel)
    while other.get_message(timeout=0.05):
        pass
    held, waits, last = leased.hold("a", 1, 2), leased.hold("b", 2), leased.hold("b", 3, 2)
    leased.acquire(held)
    leased.ask(waits)
    leased.release(held)
    leased.ask(last)
    leased.heard()
    assert leased.release(waits, "1") == 1
    assert leased.held() == 0
    assert leased.queue() == [last]
    assert leased.heard() == [("java", "2"), ("b", last.partition(":")[2])]
    other.close()


def test_a_missing_number_is_set(leased: Leased) -> None:
    """Each try brings the number along that the code names; what is held counts."""
    leased.acquire(leased.hold("a", 1))
    assert leased.free() == 1
    leased.client.delete(NAME)
    leased.acquire(leased.hold("a", 2))
    assert leased.free() == 0
    assert leased.held() == 2
    leased.client.delete(NAME, leased.permits)
    leased.more = ["", 0]
    assert leased.acquire(holder("a", 3)) == -1, "nobody has set it up"
    assert not leased.client.exists(NAME)


def test_a_permit_of_anybody_is_given_back_by_its_id(leased: Leased) -> None:
    """Java's permits, too; the next one of ours is served by a message, also the breaker's own."""
    leased.listen("a")
    java = bytes(range(16))
    leased.client.set(NAME, 0)
    leased.client.zadd(leased.permits, {java: 922337203685477})
    leased.more = [1, 0]
    waits = leased.hold("a", 2, 1, 1)
    assert leased.ask(waits)[0] == -1, "it never ends"
    text, keys = LEASED_RELEASE["PUBLISH"].text, [NAME, leased.permits, leased.queue_key]
    for answer in (1, None):
        assert leased.client.eval(text, 3, *keys, java.hex(), leased.channel, "-") == answer
    assert leased.left()[0] <= GRANT
    assert [who for who, _ in leased.heard()] == ["a"]


def test_a_semaphore_that_ends_outlasts_its_permits(leased: Leased) -> None:
    """A number with a TTL does not end before a lease."""
    leased.client.set(NAME, 2, px=500)
    leased.acquire(leased.hold("a", 1), 5000)
    assert leased.client.pttl(NAME) > 4000
    assert leased.client.pttl(leased.permits) > 4000
