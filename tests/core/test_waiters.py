"""The queues of waiters: one subscription per channel, one asker per queue, no lost wake-up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from interlock._core.queue.lines import section
from interlock._core.queue.places import IDLE_LOOKS
from interlock._core.queue.waiter import Claim
from interlock._core.queue.waiters import SHARED

if TYPE_CHECKING:
    from tests.core.bench import Bench

    from interlock._core.queue.waiter import Candidate, Waiter


def candidate(holder: str) -> Candidate:
    """Return a hold, as the queue sees it."""
    return cast("Candidate", SimpleNamespace(holder=holder))


class Wakes:
    """Remembers who was woken."""

    def __init__(self, bench: Bench) -> None:
        self._waiters = bench.waiters
        self.woken: list[str] = []

    def join(self, name: str, channel: str = "c") -> Waiter:
        """Join as *name*."""
        return self._waiters.join(channel, lambda: self.woken.append(name))


@pytest.fixture
def wakes(bench: Bench) -> Wakes:
    """Give what joins the queues of the client."""
    return Wakes(bench)


def test_channel_is_subscribed_to_while_somebody_waits(bench: Bench, wakes: Wakes) -> None:
    """The first waiter of a channel subscribes, and the last one's leaving ends that."""
    first, second = wakes.join("first"), wakes.join("second")
    assert bench.subscribed == bench.waiters.channels() == ["c"]
    bench.waiters.leave(first)
    assert bench.subscribed == ["c"]
    bench.waiters.leave(second)

    assert bench.subscribed == bench.waiters.channels() == []


def test_a_waiter_that_signals_kept_from_leaving_is_passed_over(bench: Bench, wakes: Wakes) -> None:
    """The waiter behind it looks now and then, and becomes the front."""
    dead, behind = wakes.join("dead"), wakes.join("behind")
    dead.departed = True
    bench.waiters.mend(behind)
    assert behind.front
    assert wakes.woken == ["behind"]
    bench.waiters.leave(behind)
    assert bench.subscribed == []


def test_a_waiter_is_noted_before_it_queues(bench: Bench) -> None:
    """A driver that is interrupted while joining finds the waiter that it must take back."""
    noted: list[Waiter] = []
    waiter = bench.waiters.join("c", print, noted)

    assert noted == [waiter]


def test_an_operation_that_waits_anew_stands_in_no_earlier_queue(
    bench: Bench, wakes: Wakes
) -> None:
    """The waiter behind an earlier wait of a longer operation becomes the front."""
    noted: list[Waiter] = []
    _ = bench.waiters.join("c", print, noted)
    behind = wakes.join("behind")

    _ = bench.waiters.join("another", print, noted)

    assert behind.front
    assert wakes.woken == ["behind"]


def test_message_wakes_only_the_front(bench: Bench, wakes: Wakes) -> None:
    """One message makes one waiter of this client ask the server."""
    first, second = wakes.join("first"), wakes.join("second")
    bench.waiters.notify("c")

    assert wakes.woken == ["first"]
    assert first.take()
    assert not second.take()


def test_wake_up_is_taken_once(bench: Bench, wakes: Wakes) -> None:
    """A wake-up that was acted on is gone; one that comes meanwhile is kept."""
    waiter = wakes.join("it")
    bench.waiters.notify("c")
    assert waiter.take()
    assert not waiter.take()
    bench.waiters.notify("c")

    assert waiter.take()


def test_message_for_nobody_is_nothing(bench: Bench, wakes: Wakes) -> None:
    """A message of a channel that nobody waits for any more wakes nobody."""
    wakes.join("other", "d")
    bench.waiters.notify("c")

    assert wakes.woken == []


def test_front_that_leaves_passes_its_place_on(bench: Bench, wakes: Wakes) -> None:
    """A waiter that gives up makes the next one ask, whose wake-up it may have had."""
    first, second = wakes.join("first"), wakes.join("second")
    bench.waiters.leave(first)

    assert wakes.woken == ["second"]
    assert second.front
    assert second.take()


@pytest.mark.parametrize(("heard", "asks"), [(False, False), (True, True)])
def test_holder_that_leaves_tells_for_how_long(
    bench: Bench, wakes: Wakes, heard: bool, asks: bool
) -> None:
    """A holder that leaves passes on its lease; the next asks only if a message came since."""
    first, second = wakes.join("first"), wakes.join("second")
    first.successor_look = 30.0
    if heard:
        bench.waiters.notify("c")
    bench.waiters.leave(first)

    assert second.next_look == 30.0
    assert second.take() is asks


def test_waiter_in_the_middle_leaves_without_waking_anybody(bench: Bench, wakes: Wakes) -> None:
    """Whose turn it is does not change when somebody else goes."""
    first, second, third = (wakes.join(name) for name in ("first", "second", "third"))
    bench.waiters.leave(second)
    assert wakes.woken == []
    bench.waiters.leave(first)

    assert wakes.woken == ["third"]
    assert third.front


def test_who_gives_up_the_place_of_all_makes_the_front_ask(bench: Bench, wakes: Wakes) -> None:
    """A waiter that stood in the server's queue by name gives up what the front relies on."""
    waiters = bench.waiters
    waiters.place_for("c:x", "me")
    first, second = wakes.join("first", "c:x"), wakes.join("second", "c:x")
    waiters.places["c:x"].stand(others_wait=True)
    _ = first.take()
    assert waiters.vacate("c:x", but=second, holder="me:2", own=True) is not None
    waiters.leave(second)
    assert first.take()


def test_leaving_twice_changes_nothing(bench: Bench, wakes: Wakes) -> None:
    """A waiter that is taken back again takes nothing from the others."""
    first, _ = wakes.join("first"), wakes.join("second")
    bench.waiters.leave(first)
    bench.waiters.leave(first)
    assert bench.waiters.has_waiters("c")

    alone = wakes.join("alone", "d")
    bench.waiters.leave(alone)
    bench.waiters.leave(alone)
    assert not bench.waiters.has_waiters("d")


def test_all_of_a_queue_are_served_at_once(bench: Bench, wakes: Wakes) -> None:
    """What serves a whole queue wakes each waiter of it, and nobody of another one."""
    served = [wakes.join(name, section("c", "a")) for name in ("first", "second")]
    other = wakes.join("other", section("c", "b"))
    bench.waiters.serve_all(section("c", "a"))
    bench.waiters.serve_all("nobody waits here")

    assert wakes.woken == ["first", "second"]
    assert [bench.waiters.give_up(waiter) for waiter in (*served, other)] == [True, True, False]


def test_everybody_is_woken_when_the_client_closes(bench: Bench, wakes: Wakes) -> None:
    """Closing wakes every waiter of every channel."""
    for name, channel in (("first", "c"), ("second", "c"), ("other", "d")):
        wakes.join(name, channel)
    bench.waiters.wake_all()

    assert wakes.woken == ["first", "second", "other"]


class TestSections:
    """Those who wait on one channel for different things."""

    def test_share_one_subscription(self, bench: Bench, wakes: Wakes) -> None:
        """A channel is subscribed to once for all its sections, until the last waiter leaves."""
        waiting = [wakes.join(str(n), section("c", str(n))) for n in (1, 2, 3)]
        assert bench.subscribed == bench.waiters.channels() == ["c"]
        for waiter in waiting:
            assert bench.subscribed == ["c"]
            bench.waiters.leave(waiter)

        assert bench.subscribed == []

    def test_are_all_woken_by_a_message(self, bench: Bench, wakes: Wakes) -> None:
        """A message may be for each of them."""
        for n in (1, 2, 2):
            wakes.join(str(n), section("c", str(n)))
        bench.waiters.notify("c")

        assert wakes.woken == ["1", "2"]

    def test_later_ones_ask_at_once(self, bench: Bench, wakes: Wakes) -> None:
        """A later section asks by itself: there is no new subscription to be confirmed."""
        first = wakes.join("1", section("c", "1"))
        second = wakes.join("2", section("c", "2"))

        assert not first.take()
        assert second.take()


def test_taking_back_that_was_interrupted_is_done_again(
    bench: Bench, wakes: Wakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C in the middle of leaving leaves a waiter that can still be taken back."""
    waiter = wakes.join("it")

    def interrupted(channel: str) -> None:
        raise KeyboardInterrupt(channel)

    with monkeypatch.context() as patch:
        patch.setattr(bench, "unsubscribe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bench.waiters.leave(waiter)
    bench.waiters.leave(waiter)

    assert bench.subscribed == []
    assert not bench.waiters.has_waiters("c")


def test_a_place_is_heard_for_a_while_longer(bench: Bench, wakes: Wakes) -> None:
    """A client with a place unsubscribes at the second look after its last waiter has left."""
    bench.waiters.place_for("c:x", "me")
    waiter = wakes.join("it", "c:x")
    bench.waiters.leave(waiter)
    bench.waiters.look_for_idle()
    assert bench.subscribed == ["c:x"]
    bench.waiters.look_for_idle()

    assert bench.subscribed == []
    assert not bench.waiters.places


def test_a_place_that_is_used_is_not_idle(bench: Bench, wakes: Wakes) -> None:
    """A waiter that comes in time finds the subscription; it asks unless the client queues."""
    bench.waiters.hearing = True
    bench.waiters.place_for("c:x", "me")
    bench.waiters.leave(wakes.join("first", "c:x"))
    bench.waiters.look_for_idle()
    second = wakes.join("second", "c:x")
    assert second.take(), "no confirmation of a subscription will make it ask"
    bench.waiters.leave(second)
    bench.waiters.places["c:x"].taken = True
    bench.waiters.look_for_idle()
    third = wakes.join("third", "c:x")

    assert not third.take()
    assert bench.subscribed == ["c:x"]


def test_a_wake_up_of_the_place_wakes_the_front(bench: Bench, wakes: Wakes) -> None:
    """A message on the client's own channel makes the front ask, or look after some time."""
    bench.waiters.place_for("c:x", "me")
    waiter = wakes.join("it", "c:x")
    bench.waiters.notify("interlock_wake:x:me", b"20")
    assert not waiter.take()
    assert waiter.next_look == 0.02
    bench.waiters.notify("interlock_wake:x:me", b"0")

    assert waiter.take()


def test_without_a_connection_a_used_place_subscribes_again(bench: Bench, wakes: Wakes) -> None:
    """While nothing is heard, each first waiter tries to open a connection."""
    bench.waiters.place_for("c:x", "me")
    bench.waiters.leave(wakes.join("first", "c:x"))

    _ = wakes.join("second", "c:x")

    assert bench.subscribed == ["c:x", "c:x"]


def test_a_wake_up_that_meets_nobody_is_kept(bench: Bench, wakes: Wakes) -> None:
    """Who comes after a wake-up that found no waiter asks at once."""
    bench.waiters.place_for("c:x", "me")
    bench.waiters.leave(wakes.join("first", "c:x"))
    bench.waiters.places["c:x"].taken = True
    bench.waiters.notify("interlock_wake:x:me", b"0")

    assert wakes.join("second", "c:x").take()


def test_a_claim_that_meets_nobody_is_kept_for_its_holder(bench: Bench, wakes: Wakes) -> None:
    """A message may be faster than the reply to the refused request; the next request ends it."""
    bench.waiters.place_for("c:x", "me")
    bench.waiters.leave(wakes.join("first", "c:x"))
    bench.waiters.places["c:x"].stand(False, "me:7")
    bench.waiters.notify("interlock_wake:x:me", b"=7:123")
    waiter = wakes.join("second", "c:x")
    bench.waiters.introduce(waiter, candidate("me:17"), shares=False)
    assert waiter.claim is None
    bench.waiters.introduce(waiter, candidate("me:7"), shares=False)
    assert waiter.claim == Claim(123, "7")
    waiter.claim = None
    bench.waiters.places["c:x"].stand(False, "me:7")
    bench.waiters.introduce(waiter, candidate("me:7"), shares=False)

    assert waiter.claim is None


def test_a_reader_in_front_asks_when_a_writer_behind_it_began(bench: Bench, wakes: Wakes) -> None:
    """The client stood in the server's queue in the writer's name, and stands there no longer."""
    reader, writer = wakes.join("reader"), wakes.join("writer")
    bench.waiters.introduce(reader, None, shares=True)
    bench.waiters.introduce(writer, candidate("me:1:write"), shares=False)
    _ = reader.take()
    bench.waiters.started(writer, "me:1:write")
    assert reader.should_ask


def test_who_begins_alone_has_left_at_once(bench: Bench, wakes: Wakes) -> None:
    """Who comes next stands in front, and its wait does not end with that of the one before."""
    waiter = wakes.join("first")
    bench.waiters.started(waiter, "me:1")
    assert not bench.waiters.has_waiters("c")
    successor = wakes.join("second")
    assert bench.waiters.give_up(waiter), "it got what it waited for"
    bench.waiters.leave(waiter)

    assert successor.front
    assert bench.waiters.has_waiters("c")


def test_who_begins_before_others_leaves_with_its_operation(bench: Bench, wakes: Wakes) -> None:
    """Its place may have to be given up first."""
    waiter, behind = wakes.join("first"), wakes.join("second")
    bench.waiters.started(waiter, "me:1")
    assert not behind.front
    bench.waiters.leave(waiter)

    assert behind.front


def test_what_is_left_to_others_wakes_nobody(bench: Bench, wakes: Wakes) -> None:
    """The message for those who stand in no queue is none for this client."""
    bench.waiters.place_for("c:x", "me")
    waiter = wakes.join("it", "c:x")
    bench.waiters.notify("c:x", b"00")

    assert not waiter.take()


def test_what_is_left_to_others_wakes_who_stands_in_no_queue(bench: Bench, wakes: Wakes) -> None:
    """A client without a place is one of the others."""
    bench.waiters.hearing = True
    waiter = wakes.join("it", "c:x")
    bench.waiters.notify("c:x", b"00")

    assert waiter.take()


def test_a_place_that_comes_later_is_heard_too(bench: Bench, wakes: Wakes) -> None:
    """A waiter with a place behind one that needs none subscribes to the channels of the place."""
    red = wakes.join("red", section("c:x", "red"))
    assert bench.subscribed == ["c:x"]
    bench.waiters.place_for("c:x", "me")
    plain = wakes.join("plain", "c:x")
    assert bench.subscribed == ["c:x", "c:x"]
    bench.waiters.leave(red)
    bench.waiters.leave(plain)
    for _ in range(2):
        bench.waiters.look_for_idle()

    assert "c:x" not in bench.waiters.places
    assert bench.subscribed == ["c:x"], "one of two was ended"


def test_a_place_stays_until_its_waiter_has_come(bench: Bench, wakes: Wakes) -> None:
    """A look for what is idle just before a waiter comes does not take its place."""
    bench.waiters.place_for("c:x", "me")
    bench.waiters.leave(wakes.join("first", "c:x"))
    bench.waiters.look_for_idle()
    bench.waiters.place_for("c:x", "me")
    bench.waiters.look_for_idle()

    assert "c:x" in bench.waiters.places


def test_a_refused_subscription_ends_the_places(bench: Bench, wakes: Wakes) -> None:
    """When the server refuses the channels of places, only Redisson's is subscribed to."""
    bench.waiters.place_for("c:x", "me")
    waiter = wakes.join("it", "c:x")
    bench.waiters.refused()
    bench.waiters.place_for("c:x", "me")
    assert bench.waiters.channels_of("c:x") == ("c:x",)
    assert bench.subscribed == ["c:x"]
    bench.waiters.notify("c:x")

    assert waiter.take(), "the confirmation of the one channel"


@pytest.mark.parametrize("payload", [b"", b"hello", b"-5", b"\xff", b"9" * 5000])
def test_a_stranger_s_message_is_a_wake_up(bench: Bench, wakes: Wakes, payload: bytes) -> None:
    """A message that no release publishes wakes the front at the latest after its poll cap."""
    bench.waiters.place_for("c:x", "me")
    waiter = wakes.join("it", "c:x")
    bench.waiters.notify("interlock_wake:x:me", payload)

    assert wakes.woken == ["it"]
    assert waiter.take() or waiter.next_look == 9.999


def test_each_section_has_a_place_and_hears_of_its_own_turn(bench: Bench, wakes: Wakes) -> None:
    """Sections share one subscription; a message behind whose colon stands one wakes that one."""
    several = section("c:x", "3")
    bench.waiters.place_for("c:x", "me")
    bench.waiters.place_for(several, "me", "me::3")
    one, three = wakes.join("one", "c:x"), wakes.join("three", several)
    assert bench.subscribed == ["c:x"]
    assert three.take(), "no confirmation of a subscription will make it ask"
    bench.waiters.notify("interlock_wake:x:me", b"0:3")
    assert three.take()
    assert not one.take()
    bench.waiters.notify("interlock_wake:x:me", b"1500:3")
    assert not three.take()
    assert three.next_look == 1.5
    bench.waiters.notify("interlock_wake:x:me", b"0")
    assert one.take()
    assert not three.take()
    bench.waiters.notify("interlock_wake:x:me", b"0:x" * 20)
    assert one.take(), "what strangers publish is a wake-up"
    bench.waiters.notify("interlock_wake:x:me")
    assert one.take()
    assert three.take()


def test_who_has_no_place_hears_of_each_release(bench: Bench, wakes: Wakes) -> None:
    """A client in which somebody waits without a place does not count as one of the queue."""
    bench.waiters.hearing = True
    bench.waiters.place_for("c:x", "me")
    one = wakes.join("one", "c:x")
    other = wakes.join("other", section("c:x", "other"))
    assert bench.waiters.channels_of("c:x") == ("c:x", "interlock_wake:x:me")
    assert bench.subscribed == ["c:x"], "once more, after the end of the first"
    assert other.take()
    bench.waiters.notify("c:x", b"00")
    assert other.take()
    assert not one.take()
    bench.waiters.place_for("d:y", "me")
    _ = wakes.join("other", section("d:y", "other"))
    assert bench.waiters.channels_of("d:y") == ("d:y", "interlock_wake:y:me")


def test_what_two_objects_of_one_name_hear_ends_with_the_second(bench: Bench, wakes: Wakes) -> None:
    """A client that left a read/write lock's queue still hears its turn in the lock's queue."""
    common = ("interlock_waiting:x", "interlock_wake:x:me")
    bench.waiters.hearing = True
    bench.waiters.place_for("c:x", "me")
    left = wakes.join("left", "c:x")
    bench.waiters.place_for("d:x", "me")
    assert bench.waiters.channels_of("c:x", leaving=True) == ("c:x", *common), "nobody waits yet"
    stays = wakes.join("stays", "d:x")
    assert bench.waiters.channels_of("d:x") == ("d:x", *common)
    bench.waiters.leave(left)
    assert bench.waiters.channels_of("c:x", leaving=True) == ("c:x",)
    for _ in range(IDLE_LOOKS + 1):
        bench.waiters.look_for_idle()
    assert bench.subscribed == ["d:x"]
    assert bench.waiters.channels_of("d:x", leaving=True) == ("d:x", *common)
    bench.waiters.notify("interlock_wake:x:me", b"0")
    assert stays.take()


def test_a_success_that_leaves_more_wakes_the_next_one(bench: Bench, wakes: Wakes) -> None:
    """Behind a success that others may share in, the next one asks unless the server wakes it."""
    asks: list[bool] = []
    for placed in (False, True):
        if placed:
            bench.waiters.place_for("c:x", "me")
            bench.waiters.places["c:x"].taken = True
        first, second = wakes.join("first", "c:x"), wakes.join("second", "c:x")
        first.successor_look = SHARED
        bench.waiters.leave(first)
        asks.append(second.take())
        bench.waiters.leave(second)

    assert asks == [True, False]


@pytest.mark.parametrize("channel", ["c:n", "interlock_wake:n:me"])
def test_a_message_between_a_refusal_and_the_wait_counts(
    bench: Bench, wakes: Wakes, channel: str
) -> None:
    """Who was refused before a message came, and waits after it, asks at once."""
    waiters = bench.waiters
    waiters.place_for("c:n", "me")
    waiters.leave(wakes.join("former", "c:n"))
    place = waiters.places["c:n"]
    place.taken = True
    assert not wakes.join("probe", "c:n").should_ask, "nothing has come"
    waiters.leave(next(iter(waiters.queues["c:n"])))
    waiters.notify(channel, b"1" if channel == "c:n" else None)
    assert wakes.join("newcomer", "c:n").should_ask


def test_a_place_of_who_does_not_wait_is_forgotten(bench: Bench) -> None:
    """A place that is made without a waiter is subscribed to, and goes when nobody uses it."""
    bench.waiters.place_for("c:n", "me", waits=False)
    assert bench.subscribed == ["c:n"]
    for _ in range(2):
        bench.waiters.look_for_idle()
    assert bench.subscribed == []
    assert bench.waiters.places == {}


def test_two_kinds_of_one_name_are_forgotten(bench: Bench) -> None:
    """A lock and a read/write lock of one name have one wake channel; both rooms come to an end."""
    for channel in ("redisson_lock__channel:{n}", "redisson_rwlock:{n}"):
        bench.waiters.place_for(channel, "me")
    for _ in range(2):
        bench.waiters.look_for_idle()
    assert bench.waiters.places == {}
