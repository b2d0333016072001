"""What the scripts do with those who wait for permits."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.semaphore.listening import Server

from interlock._core.scripts import semaphore as scripts
from interlock._core.scripts.script import Request, stand_in_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from interlock._core.model.effects import Eval

CHANNEL = "redisson_sc:{name}"
QUEUE = "interlock_semaphore_queue:{name}"
WAKE = "interlock_semaphore_wake:{name}:"
START = 1_800_000_000_000
"""Milliseconds at which the first of five turns begins."""


def member(who: str) -> str:
    """Return what stands in the queue for *who*: a client, and how many permits it wants."""
    return who.replace(":", "::")


class Room:
    """A semaphore `name` and those who want its permits.

    Attributes:
        now: milliseconds that the scripts read from their clock; None when it is the server's own.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.now: int | None = None
        self._requests = itertools.count(1)

    def _latch(self) -> str:
        return f"redisson_unlock_latch:{{name}}:{next(self._requests)}"

    def run(self, call: Eval[Any]) -> Any:
        """Run a script."""
        keys = [len(call.keys), *call.keys]
        text = call.script.text
        if self.now is not None:
            assert "redis.pcall('time')" in text
            stopped = f"{{{self.now // 1000}, {self.now % 1000 * 1000}}}"
            text = text.replace("redis.pcall('time')", stopped)
        return self.server.execute("EVAL", text, *keys, *call.args)

    def take(
        self, me: str = "", permits: int = 1, *, others_wait: bool = False, latch: str = ""
    ) -> bool:
        """Ask for *permits*: as who waits in the queue, or without a place."""
        request = Request(latch or self._latch(), self._latch(), 30)
        call = scripts.semaphore_acquire("name", request, permits, "PUBLISH", CHANNEL)
        if me:
            stand_in_queue(call, member(me), CHANNEL, others_wait=others_wait, keep=10)
        return bool(self.run(call))

    def give(self, permits: int = 1) -> None:
        """Release *permits*."""
        request = Request(self._latch(), self._latch(), 30)
        args = (permits, 1, 0, "PUBLISH", CHANNEL)
        assert self.run(scripts.semaphore_release("name", request, *args))
        for each in self.waiting():
            if each[0] == "+":
                self.place(each, -20)  # a busy machine must not end a claim

    def wait(self, *who: str) -> None:
        """Put each of *who* into the queue by an acquire, and listen for its wake-up."""
        for me in who:
            client, _, permits = me.partition(":")
            self.server.listen(WAKE + client)
            assert not self.take(me, int(permits or 1))

    def place(self, who: str, seconds: float) -> None:
        """Put *who* into the queue, as if since *seconds*; with a plus it is a claim."""
        now = time.time() * 1000 // 1 if self.now is None else self.now
        since = now - seconds * 1000 // 1
        self.server.execute("ZADD", QUEUE, str(-since if who[0] == "+" else since), member(who))

    def woken(self) -> list[str]:
        """Return who was told to come, and what, if it is more than that."""
        heard = self.server.heard()
        assert {channel for channel, _ in heard if not channel.startswith(WAKE)} <= {CHANNEL}
        return [
            channel.removeprefix(WAKE) + text.removeprefix("0")
            for channel, text in heard
            if channel != CHANNEL
        ]

    def waiting(self) -> list[str]:
        """Return who stands in the queue; those with a claim have a plus and come first."""
        found = [
            each.decode().replace("::", ":") for each in self.server.execute("ZRANGE", QUEUE, 0, -1)
        ]
        claims = [each for each in found if each[0] == "+"]
        assert found[: len(claims)] == claims
        return [*sorted(claims), *found[len(claims) :]]

    def free(self) -> int:
        """Return how many permits are free."""
        return int(self.server.execute("GET", "name"))


@pytest.fixture
def room(redis_client: redis.Redis) -> Iterator[Room]:
    """Give a semaphore without permits."""
    server = Server(redis_client)
    server.execute("SET", "name", 0)
    yield Room(server)
    server.close()


def test_a_release_wakes_as_many_as_can_go(room: Room) -> None:
    """Two permits wake the first two of three, and each takes one; nobody else is told."""
    room.wait("a", "b", "c")
    room.give(2)
    assert room.woken() == ["a", "b"]
    assert room.take("b")
    assert room.take("a")
    assert room.waiting() == ["c"]
    assert room.free() == 0


def test_who_was_woken_comes_first(room: Room) -> None:
    """A permit that somebody was woken for is not given to those who come later."""
    room.wait("a")
    room.give()
    assert not room.take("b"), "a newcomer"
    assert room.waiting() == ["+a", "a", "b"]
    assert room.take("a")
    assert room.waiting() == ["b"]


def test_who_comes_later_does_not_overtake(room: Room) -> None:
    """If permits are free that nobody was woken for, who asks wakes those who come first."""
    room.wait("a", "b")
    room.server.execute("INCRBY", "name", 1)
    assert not room.take("b")
    assert not room.take("c")
    assert room.woken() == ["a"]
    assert room.take("a")


def test_a_try_without_a_place_takes_what_is_free(room: Room) -> None:
    """Java and single tries find the number as it is; who was woken in vain keeps its place."""
    room.wait("a", "b")
    room.give()
    assert room.take()
    assert room.woken() == ["a"]
    assert not room.take("a")
    assert room.waiting() == ["a", "b"]
    room.give()
    assert room.woken() == ["a"]


def test_who_does_not_listen_is_passed_over(room: Room) -> None:
    """A release removes those whose connections are gone, and wakes the next one."""
    assert not room.take("dead")
    room.wait("a")
    room.give()
    assert room.woken() == ["a"]
    assert room.waiting() == ["+a", "a"]


def test_a_claim_ends(room: Room) -> None:
    """Who does not take its permits for 250 ms loses its place, and the next one is woken."""
    room.wait("frozen", "a", "b")
    room.place("+frozen", -20)
    room.give()
    assert room.woken() == [], "it still has time"
    room.place("+frozen", 0.001)
    room.give()
    assert room.woken() == ["a", "b"], "both permits are there"
    assert room.waiting() == ["+a", "+b", "a", "b"]
    assert not room.take("frozen")
    assert room.waiting() == ["+a", "+b", "a", "b", "frozen"]


def test_permits_of_a_claim_that_they_are_too_few_for_go_on(room: Room) -> None:
    """If somebody without a place leaves too few for who was woken, the next one is woken."""
    room.wait("a:2", "b")
    room.give(2)
    assert room.woken() == ["a:2"]
    assert room.take()
    assert not room.take("a:2", 2)
    assert room.woken() == ["b"]
    assert room.waiting() == ["+b", "a:2", "b"]


def test_a_claim_of_a_clock_that_was_ahead_is_over(room: Room) -> None:
    """A claim that ends much later than any may is none."""
    room.wait("a")
    room.place("+gone", -3600)
    room.give()
    assert room.woken() == ["a"]
    assert room.waiting() == ["+a", "a"]


def test_who_is_told_to_come_later_listens(room: Room) -> None:
    """While permits are kept for one, the first behind it that listens hears when to look."""
    room.now = START + 9_000
    room.wait("a:5", "b")
    room.place("a:5", 12)
    room.place("dead:4", 3)
    room.place("b", 2)
    room.give()
    assert room.woken() == ["b1000"], "and not the dead one"
    assert room.waiting() == ["a:5", "b"]


def test_each_release_wakes_one_more(room: Room) -> None:
    """Those who were woken and have not come yet do not keep later permits from others."""
    room.wait("a", "b", "c")
    for who in ("a", "b", "c"):
        room.give()
        assert room.woken() == [who]


def test_who_wants_more_is_passed_over(room: Room) -> None:
    """A client that wants less goes ahead while too few are free for the first one."""
    room.wait("big:3", "a")
    room.give()
    assert room.woken() == ["a"]
    assert room.take("a")
    room.give(3)
    assert room.woken() == ["big:3"]
    assert room.take("big:3", 3)
    assert room.waiting() == []


def test_permits_are_kept_for_who_wants_more(room: Room) -> None:
    """From the eighth second to the tenth nobody behind it is woken, but told when to look."""
    room.now = START + 8_500
    room.wait("big:3", "a", "b")
    room.place("big:3", 8.6)
    room.give()
    assert room.woken() == ["a1500"]
    assert not room.take("a")
    assert room.waiting() == ["big:3", "a", "b"]
    room.give(2)
    assert room.woken()[-1] == "big:3"
    room.now = START + 10_000
    room.server.execute("ZREM", QUEUE, member("+big:3"))
    room.server.execute("SET", "name", 1)
    room.give()
    assert room.woken() == ["a", "b"], "two seconds are over"


def test_nothing_is_kept_for_who_has_just_come(room: Room) -> None:
    """A client that came in these ten seconds is passed over: it waits for eight at least."""
    room.now = START + 8_500
    room.wait("big:3", "a")
    room.place("big:3", 8.5)
    room.give()
    assert room.woken() == ["a"]


def test_a_clock_that_is_set_back_takes_no_turn_from_who_wants_more(room: Room) -> None:
    """Places from before then are in the future; permits are kept in the next ten seconds."""
    room.now = START + 8_500
    room.wait("big:3", "a")
    room.place("big:3", -3_600)
    room.place("a", -3_601)
    room.give()
    assert room.woken() == ["a1500"]


def test_nothing_is_kept_for_who_is_gone(room: Room) -> None:
    """A request for more than are free delays nobody once its client is gone."""
    room.now = START + 8_500
    room.wait("a")
    room.place("dead:3", 8.6)
    room.give()
    assert room.woken() == ["a"]
    assert "dead:3" not in room.waiting()


def test_those_who_want_too_many_take_turns(room: Room) -> None:
    """Permits are kept for one of five at a time, in the last two seconds of its turn."""
    room.wait("a", "b", *(f"big{number}:3" for number in range(5)))

    def told(now: int) -> list[str]:
        """Return what a release tells the next one: `a` behind the first, or `b` behind all."""
        room.now = now
        room.server.execute("DEL", QUEUE)
        room.server.execute("SET", "name", 0)
        for number in range(5):
            # Of no account is how long each has waited.
            room.server.execute("ZADD", QUEUE, START - 90_000 + 1_900 * number, f"big{number}::3")
        room.server.execute("ZADD", QUEUE, START - 89_000, "a")
        room.server.execute("ZADD", QUEUE, START - 10_000, "b")
        room.give()
        return room.woken()

    for turn in range(5):
        began = START + 10_000 * turn
        for now in range(began, began + 8_000, 500):
            assert told(now) == ["a"], "nothing is kept"
        for now in range(began + 8_000, began + 10_000, 500):
            left = began + 10_000 - now
            assert told(now) == [f"a{left}" if turn == 0 else "a"]


def test_permits_are_kept_for_two_whole_seconds(room: Room) -> None:
    """Each of two has its two seconds in one piece, and the next one looks when they end."""
    room.wait("a", "o1", "o2")
    for behind in range(0, 10_000, 1_000):
        for now in range(START, START + 20_000, 500):
            room.now = now
            room.server.execute("DEL", QUEUE)
            room.server.execute("SET", "name", 0)
            room.server.execute("ZADD", QUEUE, START - 90_000 + behind, "o1::5")
            room.server.execute("ZADD", QUEUE, START - 70_000, "o2::5")
            room.server.execute("ZADD", QUEUE, START - 60_000, "a")
            room.give()
            left = 10_000 - now % 10_000
            following = f"o2{left}:5" if now < START + 10_000 else f"a{left}"
            assert room.woken() == [following if left <= 2_000 else "a"]


def test_nobody_who_is_gone_stays_among_those_who_want_too_many(room: Room) -> None:
    """Those who want too many and do not listen lose their places, and have no turns."""
    room.server.listen(WAKE + "a", WAKE + "b")
    room.now = START + 9_000
    for number, who in enumerate(("dead:3", "a:3", "gone:3", "b")):
        room.server.execute("ZADD", QUEUE, START - 86_000 + number, member(who))
    room.give()
    assert room.woken() == ["b1000"]
    assert room.waiting() == ["a:3", "b"]


def test_many_who_want_too_many_cost_a_release_few_commands(redis_client: redis.Redis) -> None:
    """A release asks once who of them listens, however many they are and whose turn it is."""
    server = Server(redis_client)
    room = Room(server)
    names = [f"big{number}" for number in range(126)]
    server.listen(*(WAKE + name for name in names))
    room.now = START + 9_000
    for number, name in enumerate(names):
        server.execute("ZADD", QUEUE, START - 1_000 + number, f"{name}::5")
    server.execute("SET", "name", 0)
    server.execute("CONFIG", "RESETSTAT")
    room.give()
    stats = redis_client.info("commandstats")
    server.close()
    asked = sum(each["calls"] for key, each in stats.items() if key.startswith("cmdstat_pubsub"))
    assert 0 < asked <= 3
    assert len(room.waiting()) == 126


def test_sections_of_a_client_have_places_of_their_own(room: Room) -> None:
    """A client that waits for one and for two hears which of its waiters is next."""
    room.wait("a:2", "a")
    room.give()
    assert room.woken() == ["a"]
    room.give(2)
    assert room.woken() == ["a:2"]
    assert room.take("a:2", 2)
    assert room.waiting() == ["+a", "a"]


def test_many_waiters_of_a_client_take_all(room: Room) -> None:
    """A client that stays in the queue is woken again as long as permits are free."""
    room.wait("a", "b")
    room.give(3)
    assert room.woken() == ["a", "b"]
    assert room.take("a", others_wait=True)
    assert room.woken() == ["a"], "there is a third one"
    assert sorted(room.waiting()[:2]) == ["+a", "+b"]
    assert room.waiting()[2:] == ["b", "a"]


def test_a_client_that_stays_goes_to_the_end(room: Room) -> None:
    """A client with several waiters has one turn before the others of the queue."""
    room.wait("a", "b")
    room.give()
    assert room.take("a", others_wait=True)
    assert room.waiting() == ["b", "a"]


def test_a_copy_changes_no_place(room: Room) -> None:
    """A request that arrives again after it was granted leaves no place behind."""
    room.wait("a")
    room.give()
    assert room.take("a", latch="redisson_unlock_latch:{name}:x")
    assert room.take("a", latch="redisson_unlock_latch:{name}:x"), "the same answer"
    assert room.waiting() == []
    assert room.free() == 0


def test_beside_others_all_are_told(room: Room) -> None:
    """If somebody listens that stands in no queue, a release is told to all, as without one."""
    room.server.listen(CHANNEL)
    room.wait("a", "b")
    room.give(2)
    assert room.server.heard() == [(CHANNEL, "2")]
    assert room.take("c"), "the first to ask"
    assert room.take("b")
    assert not room.take("a")
    assert room.waiting() == ["a"]


def test_many_waiters_of_a_client_take_all_beside_others(room: Room) -> None:
    """Each waiter of a client wakes the next one: it does not look until then."""
    room.server.listen(CHANNEL)
    room.wait("a", "b")
    room.give(3)
    assert room.server.heard() == [(CHANNEL, "3")]
    assert room.take("a", others_wait=True)
    assert room.woken() == ["a"]
    assert room.take("a")
    assert room.take("b")


def test_who_comes_too_late_passes_permits_on_beside_others(room: Room) -> None:
    """A client that was woken finds too few permits, which are enough for another one."""
    room.wait("a:2", "b")
    room.give(2)
    assert room.woken() == ["a:2"]
    room.server.listen(CHANNEL)
    assert room.take(), "Java, or a single try"
    assert not room.take("a:2", 2)
    assert room.server.heard() == [(CHANNEL, "1")]
    assert room.take("b")


@pytest.mark.parametrize("denied", ["-pubsub", "-time"])
def test_without_a_right_all_are_told(redis_client: redis.Redis, denied: str) -> None:
    """Nobody waits for a look: neither others, nor a client's own next waiter."""
    room = Room(Server(redis_client))
    room.server.execute("SET", "name", 0)
    room.wait("a:5", "b")
    room.server.listen(CHANNEL)
    user = ("narrow", "reset", "on", ">secret", "~*", "&*", "+@all", denied)
    room.server.execute("ACL", "SETUSER", *user)
    room.server.execute("AUTH", "narrow", "secret")
    room.give()
    assert room.server.heard() == [(CHANNEL, "1")]
    room.give(2)
    assert room.server.heard() == [(CHANNEL, "3")]
    assert room.take("b", others_wait=True)
    assert room.woken() == ["b"]
    assert room.take("b", others_wait=True)


def test_without_others_nobody_else_is_told(room: Room) -> None:
    """If all who listen stand in the queue, a release sends one message."""
    room.server.listen(CHANNEL, "interlock_semaphore_waiting:{name}")
    room.wait("a")
    room.give()
    assert room.server.heard() == [(f"{WAKE}a", "0")]


def test_without_a_queue_all_are_told(room: Room) -> None:
    """If nobody stands in the queue, or nobody is left there, a release is told to all."""
    room.server.listen(CHANNEL, "interlock_semaphore_waiting:{name}")
    room.give()
    assert room.server.heard() == [(CHANNEL, "1")]
    room.server.execute("SET", "name", 0)
    assert not room.take("dead")
    room.give()
    assert room.server.heard() == [(CHANNEL, "1")]
    assert room.waiting() == []


def test_who_leaves_passes_on_what_it_was_woken_for(room: Room) -> None:
    """The permit of a client that leaves with a claim goes to the next one; then to nobody."""
    room.server.listen(CHANNEL, "interlock_semaphore_waiting:{name}")
    room.wait("a", "b")
    room.give()
    assert room.woken() == ["a"]
    assert room.run(scripts.semaphore_leave("name", "a", "PUBLISH", CHANNEL)) == 3
    assert room.server.heard() == [(f"{WAKE}b", "0")]
    assert room.waiting() == ["+b", "b"]
    assert room.run(scripts.semaphore_leave("name", "b", "PUBLISH", CHANNEL)) == 1
    assert room.server.heard() == [(CHANNEL, "1")]
    assert room.run(scripts.semaphore_leave("name", "b", "PUBLISH", CHANNEL)) == 1
    assert room.server.heard() == []


def test_the_queue_ends_by_itself(room: Room) -> None:
    """A queue that nobody looks at expires."""
    room.wait("a")
    assert 5_000 < room.server.execute("PTTL", QUEUE) <= 10_000


def test_the_first_are_found_behind_many_who_cannot_go(room: Room) -> None:
    """A release looks at the first 128, whatever they want."""
    for number in range(127):
        room.place(f"c{number}:5", 1)
    room.wait("a")
    room.give()
    assert room.woken() == ["a"]


def assert_that_all_are_told(room: Room) -> None:
    """Add a last waiter: a release tells everybody, and this waiter gets the permit."""
    room.wait("a")
    room.server.listen(CHANNEL, "interlock_semaphore_waiting:{name}")
    room.give()
    assert (CHANNEL, "1") in room.server.heard()
    assert room.take("a")


def test_behind_many_who_are_gone_all_are_told(room: Room) -> None:
    """If none of the first 128 listens, the next one hears of the permit, and asks for it."""
    for number in range(300):
        room.place(f"dead{number}", 1)
    assert_that_all_are_told(room)


def test_behind_many_who_want_too_many_all_are_told(room: Room) -> None:
    """However many want more than are free, they keep none from who stands behind them."""
    room.now = START
    names = [f"big{number}" for number in range(150)]
    room.server.listen(*(WAKE + name for name in names))
    for name in names:
        room.place(f"{name}:5", 1)
    assert_that_all_are_told(room)
    assert len(room.waiting()) == 150
