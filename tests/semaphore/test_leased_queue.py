"""What the scripts do with those who wait for permits with leases."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.semaphore.listening import Server

from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.scripts import semaphore as plain
from interlock._core.scripts.script import Grant, Refusal, Request, stand_in_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from interlock._core.model.effects import Eval

CHANNEL = "redisson_sc:{name}"
WAITING = "interlock_semaphore_waiting:{name}"
QUEUE = "interlock_semaphore_queue:{name}"
LEASES = "{name}:timeout"
WAKE = "interlock_semaphore_wake:{name}:"
FOREVER = 922337203685477
START = 1_800_000_000_000
"""Milliseconds at which ten seconds begin."""


class Room:
    """A leased semaphore `name` and those who want its permits.

    Attributes:
        now: milliseconds that the scripts read from their clock; None when it is the server's own.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.now: int | None = None
        self._numbers = itertools.count(1)

    def ids(self, permits: int = 1) -> str:
        """Return new ids."""
        return "".join(f"{next(self._numbers):032x}" for _ in range(permits))

    def run(self, call: Eval[Any]) -> Any:
        """Run a script; claims do not end on a busy machine."""
        keys = [len(call.keys), *call.keys]
        assert "250" in call.script.text or "zremrangebyscore" not in call.script.text
        text = call.script.text.replace("now + 250", "now + 20000")
        if self.now is not None:
            stopped = f"{{{self.now // 1000}, {self.now % 1000 * 1000}}}"
            text = text.replace("redis.pcall('time')", stopped)
        return call.script.decode(self.server.execute("EVAL", text, *keys, *call.args))

    def take(
        self,
        me: str = "",
        permits: int = 1,
        *,
        ids: str = "",
        more: bool = False,
        lease: float = 60,
    ) -> str | None:
        """Ask for *permits*, as a client in the queue or without a place; return the ids."""
        ids = ids or self.ids(permits)
        call = scripts.leased_semaphore_acquire("name", lease, ids, "PUBLISH", CHANNEL)
        if me:
            stand_in_queue(call, f"{me}::leased:{permits}", others_wait=more, keep=10)
        return ids if isinstance(self.run(call), Grant) else None

    def give(self, ids: str | None) -> None:
        """Release the permits *ids*."""
        assert ids
        assert self.run(scripts.leased_semaphore_release("name", ids, "PUBLISH", CHANNEL))

    def leave(self, me: str, permits: int = 1) -> None:
        """Leave the queue."""
        member = f"{me}::leased:{permits}"
        assert self.run(scripts.leased_semaphore_leave("name", member, "PUBLISH", CHANNEL))

    def wait(self, *who: str) -> None:
        """Put each of *who* into the queue by an acquire, and listen for its wake-up."""
        for me in who:
            client, _, permits = me.partition(":")
            self.server.listen(WAKE + client)
            assert not self.take(client, int(permits or 1))

    def woken(self) -> list[str]:
        """Return who was told to come, and what, if it is more than that."""
        heard = self.server.heard()
        assert {channel for channel, _ in heard if not channel.startswith(WAKE)} <= {CHANNEL}
        return [
            channel.removeprefix(WAKE)
            + text.replace(":leased", "").removesuffix(":1").removeprefix("0")
            for channel, text in heard
            if channel != CHANNEL
        ]

    def waiting(self) -> list[str]:
        """Return who stands in the queue."""
        return [
            each.decode().replace("::", ":").replace(":leased", "").removesuffix(":1")
            for each in self.server.execute("ZRANGE", QUEUE, 0, -1)
        ]

    def end_claims(self, in_ms: int = -1000) -> None:
        """Give all claims the same end, some time from now."""
        seconds, micros = map(int, self.server.execute("TIME"))
        ends = seconds * 1000 + micros // 1000 + in_ms
        for each in self.server.execute("ZRANGE", LEASES, 0, -1):
            if each.startswith(bytes(4)) and not each.startswith(bytes(12)):
                self.server.execute("ZADD", LEASES, ends, each)

    def free(self) -> int:
        """Return how many permits are free."""
        return int(self.server.execute("GET", "name") or 0)

    def held(self) -> int:
        """Return how many permits are held or claimed."""
        return int(self.server.execute("ZCARD", LEASES))


@pytest.fixture
def room(redis_client: redis.Redis) -> Iterator[Room]:
    """Give a semaphore with three permits."""
    server = Server(redis_client)
    server.execute("SET", "name", 3)
    yield Room(server)
    server.close()


def test_a_release_gives_as_many_as_can_go(room: Room) -> None:
    """Two permits go to the first two of three; each confirms its own, and nobody else is told."""
    ids = room.take(permits=3)
    room.wait("a", "b", "c")
    room.give(ids)
    assert room.woken() == ["a", "b", "c"]
    assert (room.free(), room.held()) == (0, 3), "nobody can overtake"
    assert room.waiting() == []
    assert all(room.take(each) for each in ("c", "a", "b"))
    assert (room.free(), room.held()) == (0, 3)


def test_who_comes_later_does_not_overtake(room: Room) -> None:
    """Neither a newcomer, nor a single try, nor Java gets what was given to the first."""
    ids = [room.take() for _ in range(3)]
    room.wait("a", "b")
    room.give(ids[0])
    assert room.woken() == ["a"]
    assert not room.take(), "a single try"
    assert not room.take("c"), "a newcomer"
    assert room.free() == 0, "what Java looks at"
    assert room.waiting() == ["b", "c"]
    room.give(room.take("a"))
    assert room.woken() == ["b"]


def test_free_permits_go_to_the_first_when_somebody_asks(room: Room) -> None:
    """If Java's release has freed a permit, who asks gives it to the first in the queue."""
    _ = room.take(permits=3)
    room.wait("a", "b")
    room.server.execute("INCRBY", "name", 1)
    assert not room.take(), "a single try"
    assert room.woken() == ["a"]
    assert room.waiting() == ["b"]
    room.server.execute("INCRBY", "name", 2)
    assert room.take("c"), "there is one for the second, and one more"
    assert room.woken() == ["b"]


def test_expired_permits_go_to_the_first(room: Room) -> None:
    """An acquire after the end of a lease gives the permit to the first in the queue."""
    first = room.take()
    _ = room.take(permits=2)
    assert first
    room.wait("a", "b")
    room.server.execute("ZADD", LEASES, 1, bytes.fromhex(first))
    assert not room.take("b")
    assert room.woken() == ["a"]
    assert room.waiting() == ["b"]
    assert room.take("a")


def test_a_claim_that_nobody_confirms_comes_back(room: Room) -> None:
    """A claim is a lease: when it has ended, the next one gets the permit."""
    ids = room.take(permits=3)
    room.wait("frozen", "a:3")
    room.give(ids)
    assert room.woken() == ["frozen"]
    [member] = room.server.execute("ZRANGE", LEASES, 0, -1)
    assert member.startswith(bytes(4))
    room.server.execute("ZADD", LEASES, 1, member)
    assert not room.take("b")
    assert room.woken() == ["a:3"]
    assert room.waiting() == ["b"]
    assert not room.take("frozen")
    assert room.waiting() == ["b", "frozen"]


def test_who_does_not_listen_is_passed_over(room: Room) -> None:
    """A release removes those whose connections are gone."""
    ids = room.take(permits=3)
    assert not room.take("dead")
    room.wait("a")
    room.give(ids)
    assert room.woken() == ["a"]
    assert room.waiting() == []
    assert (room.free(), room.held()) == (2, 1)


def test_who_wants_more_is_passed_over_and_not_forgotten(room: Room) -> None:
    """Small requests go ahead while too few are free; permits are kept after eight seconds."""
    room.now = START + 9_990
    ids = [room.take() for _ in range(3)]
    room.wait("big:3", "a", "b")
    room.give(ids[0])
    assert room.woken() == ["a"]
    ids[0] = room.take("a")
    room.now = START + 18_500
    room.give(ids[0])
    assert room.woken() == ["b1500"], "it looks again when the two seconds are over"
    assert not room.take(), "permits are kept"
    assert room.free() == 1
    room.give(ids[1])
    room.give(ids[2])
    assert room.woken()[-1] == "big:3"
    assert room.take("big", 3)
    assert room.held() == 3


def test_many_permits_are_claimed_together(room: Room) -> None:
    """A claim has as many members as permits, each of its own."""
    room.server.execute("SET", "name", 300)
    ids = room.take(permits=300)
    room.wait("a:300")
    room.give(ids)
    assert room.woken() == ["a:300"]
    assert (room.free(), room.held()) == (0, 300)
    assert room.take("a", 300)
    assert (room.free(), room.held()) == (0, 300)


def test_who_leaves_passes_on_what_it_was_given(room: Room) -> None:
    """The claim of a client that leaves goes to the next one."""
    ids = room.take(permits=3)
    room.wait("a:3", "b")
    room.give(ids)
    assert room.woken() == ["a:3"]
    room.leave("a", 3)
    assert room.woken() == ["b"]
    assert (room.free(), room.held()) == (2, 1)
    room.leave("b")
    assert (room.free(), room.held()) == (3, 0)


def test_a_client_that_stays_goes_to_the_end(room: Room) -> None:
    """A client with several waiters has one turn before the others of the queue."""
    ids = [room.take() for _ in range(3)]
    room.wait("a", "b")
    room.give(ids[0])
    mine = room.take("a", more=True)
    assert room.waiting() == ["b", "a"]
    room.give(mine)
    assert room.woken() == ["a", "b"]


def test_a_copy_changes_nothing(room: Room) -> None:
    """A request that arrives again after it was granted takes nothing, and leaves no place."""
    ids = room.take(permits=3)
    room.wait("a")
    room.give(ids)
    mine = room.take("a")
    assert mine
    room.server.execute("ZADD", LEASES, FOREVER, bytes.fromhex(mine))
    assert room.take("a", ids=mine), "the same answer"
    assert room.waiting() == []
    assert (room.free(), room.held()) == (2, 1)
    assert int(room.server.execute("ZSCORE", LEASES, bytes.fromhex(mine))) == FOREVER


def test_beside_others_all_are_told(room: Room) -> None:
    """If somebody listens that stands in no queue, as Java does, a release is told to all."""
    room.server.listen(CHANNEL)
    ids = room.take(permits=3)
    room.wait("a", "b")
    room.give(ids)
    assert room.server.heard() == [(CHANNEL, "3")]
    assert room.take(), "the first to ask"
    assert room.take("b")
    assert room.waiting() == ["a"]


def test_a_single_try_tells_others_of_expired_permits(room: Room) -> None:
    """Others hear of what it leaves, if nobody in the queue can use that."""
    ids = room.take(permits=3)
    room.wait("a:5")
    room.server.listen(CHANNEL)
    for number in range(3):
        room.server.execute("ZADD", LEASES, 1, bytes.fromhex(ids[32 * number :][:32]))
    assert room.take()
    assert room.server.heard() == [(CHANNEL, "2")]


def test_without_a_queue_all_are_told(room: Room) -> None:
    """If nobody stands in the queue, or nobody is left there, a release is told to all."""
    room.server.listen(CHANNEL, WAITING)
    ids = room.take(permits=3)
    room.give(ids)
    assert room.server.heard() == [(CHANNEL, "3")]
    ids = room.take(permits=3)
    assert not room.take("dead")
    room.give(ids)
    assert room.server.heard() == [(CHANNEL, "3")]
    assert room.waiting() == []


def test_a_refusal_does_not_name_the_end_of_a_claim(room: Room) -> None:
    """Who is refused looks again when a real lease ends: a claim is about to become one."""
    ids = room.take(permits=1)
    _ = room.take(permits=2)
    room.wait("a")
    room.give(ids)
    call = scripts.leased_semaphore_acquire("name", 60, room.ids(), "PUBLISH", CHANNEL)
    assert room.run(call) > 30


def test_plain_permits_of_the_name_go_round_too(room: Room) -> None:
    """A plain semaphore of the same name shares the number and the queue."""
    ids = room.take(permits=3)
    room.wait("a")
    first, second, third = (f"redisson_unlock_latch:{{name}}:{number}" for number in "123")
    asks = plain.semaphore_acquire("name", Request(first, second, 30), 1, "PUBLISH", CHANNEL)
    stand_in_queue(asks, "p", CHANNEL, others_wait=False, keep=10)
    room.server.listen(WAKE + "p")
    assert not room.run(asks)
    room.give(ids)
    assert room.woken() == ["a", "p"]
    assert room.run(asks)
    assert room.take("a")
    gives = plain.semaphore_release("name", Request(third, second, 30), 1, 1, 0, "PUBLISH", CHANNEL)
    room.server.execute("SET", "name", 0)
    room.wait("b")
    assert room.run(gives)
    assert room.woken() == ["b"]
    assert room.take("b")
    assert room.waiting() == []
    assert room.free() == 0


def look(room: Room) -> int:
    """Look at the queue, as a client does after a release, or when it has polled in vain."""
    answer: int = room.run(scripts.leased_semaphore_leave("name", "-", "PUBLISH", CHANNEL))
    return answer


def test_a_look_gives_on_what_nobody_has_taken(room: Room) -> None:
    """When a claim has ended, its permits go to the next in the queue, and another look follows."""
    ids = room.take(permits=3)
    room.wait("a", "b:3")
    assert room.run(scripts.leased_semaphore_release("name", ids or "", "PUBLISH", CHANNEL)) == 3
    assert room.woken() == ["a"]
    assert look(room) == 1, "the claim still stands"
    assert room.woken() == ["b300:3"]
    room.end_claims()
    assert look(room) == 3
    assert room.woken() == ["b:3"]
    assert (room.free(), room.held(), room.waiting()) == (0, 3, [])


def test_a_look_tells_who_is_to_look_next(room: Room) -> None:
    """The first look comes at once if the client closes: then the next client looks later."""
    ids = room.take(permits=3)
    room.wait("a:3", "b")
    room.give(ids)
    assert room.woken() == ["a:3"]
    room.end_claims(in_ms=200)
    assert look(room) == 1
    assert room.woken() == ["b300"]


def test_a_look_removes_who_does_not_listen(room: Room) -> None:
    """Wherever they stand; without permits nobody else is told anything."""
    _ = room.take(permits=3)
    assert not room.take("dead")
    room.wait("a")
    assert not room.take("dead", 2)
    assert look(room) == 1
    assert (room.waiting(), room.woken()) == (["a"], [])


def stand(room: Room, me: str, ids: str, *, more: bool = False) -> object:
    """Ask for one permit, and stand in the queue in the name of that permit; return the answer."""
    room.server.listen(WAKE + me)
    call = scripts.leased_semaphore_acquire("name", 60, ids, "PUBLISH", CHANNEL)
    stand_in_queue(call, f"{me}::leased:1", others_wait=more, keep=10, starts=True)
    return room.run(call)


def held_for(room: Room, ids: str) -> float:
    """Return the seconds until the lease of *ids* ends; below 0 if it is not held."""
    ends = room.server.execute("ZSCORE", LEASES, bytes.fromhex(ids))
    seconds, micros = map(int, room.server.execute("TIME"))
    return -1.0 if ends is None else float(ends) / 1000 - seconds - micros / 1e6


def test_a_permit_is_given_to_who_waits_in_its_name(room: Room) -> None:
    """The message has the permit and the time; the permit is held for its claim, then for good."""
    ids, mine = room.take(permits=3), room.ids()
    answer = stand(room, "a", mine)
    assert isinstance(answer, Refusal)
    room.give(ids)
    [told] = room.woken()
    start, at = told.split(":")
    assert start == f"a={mine}"
    assert answer.at <= int(at)
    assert (room.free(), room.held(), room.waiting()) == (2, 1, [])
    assert held_for(room, mine) < 21
    assert isinstance(stand(room, "a", mine), Grant), "it may ask all the same"
    assert held_for(room, mine) > 50
    assert (room.free(), room.held()) == (2, 1)


def test_a_single_try_finds_the_permit_that_it_was_given(room: Room) -> None:
    """A client that may no longer listen asks without a place, and keeps it for a whole lease."""
    ids, mine = room.take(permits=3), room.ids()
    _ = stand(room, "a", mine)
    room.give(ids)
    assert room.take(ids=mine)
    assert held_for(room, mine) > 50
    assert (room.free(), room.held()) == (2, 1)


def test_a_claim_that_a_client_still_has_is_not_taken_twice(room: Room) -> None:
    """Two threads ask at once, and a third waits: the client stands in two names, and gets both.

    The second thread asks for its own permit, and the client stands in the queue again. It still
    has the claim in its own name: the next release takes no second permit for that.
    """
    ids, (first, second) = [room.take() for _ in range(3)], (room.ids(), room.ids())
    _ = stand(room, "a", first), stand(room, "a", second)
    room.give(ids[0])
    assert isinstance(stand(room, "a", first, more=True), Grant)
    assert room.waiting() == [f"a:{second}", "a"]
    room.give(ids[1])
    room.give(ids[2])
    assert isinstance(stand(room, "a", second, more=True), Grant)
    assert (room.free(), room.held(), room.waiting()) == (0, 3, ["a"])
    room.give(first)
    assert (room.free(), room.held(), room.waiting()) == (1, 2, [])
    assert room.take("a")
    assert (room.free(), room.held()) == (1, 2)


def test_who_is_given_its_own_permit_leaves_another_one(room: Room) -> None:
    """It stands in two names, and two permits are free: it needs one, and others get the other."""
    mine = room.ids()
    _ = room.take(permits=3)
    _ = stand(room, "a", mine)
    came = float(room.server.execute("ZSCORE", QUEUE, f"a:{mine}:leased:1"))
    room.server.execute("ZADD", QUEUE, came + 1, "a::leased:1")
    room.wait("b")
    room.server.execute("INCRBY", "name", 2)
    assert isinstance(stand(room, "a", mine), Grant)
    assert room.woken()[-1] == "b"
    assert room.waiting() == []
    assert (room.free(), room.held()) == (0, 5)


def test_a_number_that_ends_by_itself_is_confirmed(room: Room) -> None:
    """It must outlast the permit, and only the client knows the permit's lease."""
    room.server.execute("PEXPIRE", "name", 30_000)
    ids, mine = room.take(permits=3, lease=10), room.ids()
    _ = stand(room, "a", mine)
    room.give(ids)
    assert room.woken() == ["a"]
    assert held_for(room, mine) < 0
    assert isinstance(stand(room, "a", mine), Grant)
    assert held_for(room, mine) > 50
    assert room.server.execute("PTTL", "name") > 50_000
    assert (room.free(), room.held()) == (2, 1)


def test_who_gives_up_gives_its_permit_to_the_next(room: Room) -> None:
    """Both the permit that it was given, and its place, end."""
    ids, mine, other = room.take(permits=3), room.ids(), room.ids()
    _ = stand(room, "a", mine), stand(room, "b", other)
    leaving = scripts.leased_semaphore_leave("name", "b::leased:1", "PUBLISH", CHANNEL, other)
    assert room.run(leaving) == 1
    assert len(room.waiting()) == 1
    room.wait("c:3")
    room.give(ids)
    assert held_for(room, mine) > 0
    leaving = scripts.leased_semaphore_leave("name", "a::leased:1", "PUBLISH", CHANNEL, mine)
    _ = room.woken()
    assert room.run(leaving) == 3
    assert room.woken() == ["c:3"]
    assert held_for(room, mine) < 0
    assert (room.free(), room.held()) == (0, 3)


def test_who_stands_for_its_client_stands_there_once(room: Room) -> None:
    """A client whose others wait, too, keeps its own place, and asks when it is next."""
    ids, mine = room.take(permits=3), room.ids()
    room.wait("a")
    _ = stand(room, "a", mine)
    assert room.waiting() == ["a"]
    room.give(ids)
    assert room.woken() == ["a"]
    assert isinstance(stand(room, "a", mine, more=True), Grant)
    assert room.woken() == ["a"], "for another of its waiters"


def test_a_plain_release_leaves_permits_to_be_asked_for(room: Room) -> None:
    """It knows of no leases: the waiter asks, and the permit is its own."""
    ids, mine = room.take(permits=3), room.ids()
    _ = stand(room, "a", mine)
    latches = (f"redisson_unlock_latch:{{name}}:{number}" for number in "12")
    release = plain.semaphore_release("name", Request(*latches, 30), 1, 1, 0, "PUBLISH", CHANNEL)
    assert room.run(release) == 3
    assert room.woken() == ["a"]
    assert isinstance(stand(room, "a", mine), Grant)
    assert held_for(room, mine) > 50
    assert ids
    assert (room.free(), room.held(), room.waiting()) == (0, 4, [])


def test_who_gives_up_its_clients_own_place_passes_on_too(room: Room) -> None:
    """A client that stands there in its own name may leave in that of a permit as well."""
    ids, mine = room.take(permits=3), room.ids()
    room.wait("a")
    _ = stand(room, "a", mine)
    room.wait("b")
    latches = (f"redisson_unlock_latch:{{name}}:{number}" for number in "12")
    release = plain.semaphore_release("name", Request(*latches, 30), 1, 1, 0, "PUBLISH", CHANNEL)
    assert room.run(release) == 3
    assert room.woken() == ["a"]
    leaving = scripts.leased_semaphore_leave("name", "a::leased:1", "PUBLISH", CHANNEL, mine)
    assert room.run(leaving) == 3
    assert room.woken() == ["b"]
    assert ids


def give_unheard(room: Room, ids: str | None) -> None:
    """Release the permits *ids*, while the server refuses every message on a wake channel."""
    call = scripts.leased_semaphore_release("name", ids or "", "PUBLISH", CHANNEL)
    sends = "redis.pcall('PUBLISH', wake .. client, message)"
    text = call.script.text.replace(sends, "{err = 'no'}")
    assert text != call.script.text
    keys = [len(call.keys), *call.keys]
    assert room.server.execute("EVAL", text, *keys, *call.args) == 1


def test_a_refused_message_takes_the_permit_back(room: Room) -> None:
    """Nobody knows of it then. So all are told, and the first to ask gets it."""
    ids, mine = room.take(permits=3), room.ids()
    _ = stand(room, "a", mine)
    give_unheard(room, ids)
    assert (room.free(), room.held()) == (3, 0)
    assert isinstance(stand(room, "a", mine), Grant)


def test_a_place_that_is_left_over_gets_no_second_permit(room: Room) -> None:
    """A client that took its permit without a place still stands there in that permit's name."""
    ids, mine = room.take(permits=3), room.ids()
    _ = stand(room, "a", mine)
    room.server.execute("INCRBY", "name", 1)
    assert room.take(ids=mine), "it asks without a place, and is given its own permit meanwhile"
    assert (room.free(), room.held()) == (0, 4)
    assert held_for(room, mine) > 50
    room.server.execute("ZADD", QUEUE, 1, f"a:{mine}:leased:1")
    room.give(ids)
    assert held_for(room, mine) > 50, "its lease is not cut short"
    assert (room.free(), room.held(), room.waiting()) == (3, 1, [])


def test_a_refused_message_takes_no_permit_that_is_held(room: Room) -> None:
    """A place that is left over was given none, so the permit in whose name it stands stays."""
    ids, mine = room.take(permits=2), room.take()
    room.server.listen(WAKE + "a")
    room.server.execute("ZADD", QUEUE, 1, f"a:{mine}:leased:1")
    give_unheard(room, ids)
    assert mine
    assert held_for(room, mine) > 50
    assert (room.free(), room.held()) == (2, 1)


def test_a_refused_message_takes_no_permit_twice(room: Room) -> None:
    """If one message of several is refused, who asks has only what nobody was given."""
    ids = room.take(permits=3)
    room.wait("a", "b", "c:3")
    room.server.execute("DEL", LEASES)
    room.server.execute("SET", "name", 3)
    call = scripts.leased_semaphore_acquire("name", 60, room.ids(3), "PUBLISH", CHANNEL)
    stand_in_queue(call, "c::leased:3", others_wait=False, keep=10)
    sends = "redis.pcall('PUBLISH', wake .. client, message)"
    text = call.script.text.replace(sends, f"(client == 'b' and {{err = 'no'}} or {sends})")
    assert text != call.script.text
    keys = [len(call.keys), *call.keys]
    assert room.server.execute("EVAL", text, *keys, *call.args) is not None
    assert (room.free(), room.held()) == (2, 1)
    assert ids
