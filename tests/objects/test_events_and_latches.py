"""What events and count-down latches promise: who goes on, when, and who is told of a deletion."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest
import redis
from tests.objects.acts import PROMPT, cancelling, each_face, joins, kept
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import CancelledHereError
from tests.support.cards import own_keys, waited_channels
from tests.support.child import Child
from tests.support.patience import wait_until

from interlock import ClosedError, LatchDeletedError, MisuseWarning

_MAKE = {
    "event": lambda client: client.event(NAME),
    "latch": lambda client: client.count_down_latch(NAME, count=1),
}
_OPEN = {"event": lambda made: made.set(), "latch": lambda made: made.count_down()}
both = pytest.mark.parametrize("what", [*_MAKE])
"""Both are gates: they differ in what opens and closes them."""


def _waiters(scene: Stage, made: list[Any], each: int = 2) -> list[Future[Any]]:
    waiting = [joins(scene, scene.actor(), gate.wait) for gate in made]
    waiting += [scene.actor().start(gate.wait) for _ in range(each - 1) for gate in made]
    scene.place.rests(NAME)
    return waiting


@pytest.mark.sample
@pytest.mark.usefixtures("by_message")
@both
def test_opening_lets_everybody_go_on(scene: Stage, what: str) -> None:
    """One call lets the waiters of all clients go on at once; who comes later does not wait."""
    gates = [_MAKE[what](scene.client()) for _ in range(3)]
    owner = scene.actor()
    assert owner.do(gates[0].wait, 0) is False
    waiting = _waiters(scene, gates, 10)
    assert not any(each.done() for each in waiting)
    owner.do(_OPEN[what], gates[0])
    assert [each.result(PROMPT) for each in waiting] == [True] * 30
    late = _MAKE[what](scene.client())
    assert owner.do(late.wait) is True
    assert owner.do(late.wait, timeout=0) is True


@pytest.mark.usefixtures("by_message")
@both
def test_an_opening_is_not_missed(scene: Stage, what: str) -> None:
    """Waiters go on although it is closed again at once, and who waits after that does not."""
    client = scene.client()
    gates = [_MAKE[what](scene.client()) for _ in range(2)]
    owner, again = scene.actor(), scene.actor()
    mine = client.event(NAME) if what == "event" else client.count_down_latch(NAME, count=1)
    waiting = _waiters(scene, gates)
    opens = owner.start(_OPEN[what], mine)
    closes = owner.start(mine.clear) if what == "event" else owner.start(mine.try_set_count, 1)
    assert [each.result(PROMPT) for each in waiting] == [True] * 4
    opens.result(PROMPT)
    closes.result(PROMPT)
    later = joins(scene, again, gates[0].wait)
    assert owner.do(mine.wait, 0.3) is False
    assert not later.done()
    owner.do(_OPEN[what], mine)
    assert later.result(PROMPT) is True


@both
def test_a_wait_may_be_in_vain(scene: Stage, what: str) -> None:
    """A wait whose time is up returns False, and leaves the others of its client waiting."""
    gate, other = (_MAKE[what](scene.client()) for _ in range(2))
    first, second, owner = scene.actor(), scene.actor(), scene.actor()
    short = first.start(gate.wait, 1)
    wait_until(short.running, 10, "it begins")
    long = joins(scene, second, gate.wait, 60, asks=False)
    assert short.result(PROMPT) is False
    assert not long.done()
    owner.do(_OPEN[what], other)
    assert long.result(PROMPT) is True


@cancelling
@both
def test_a_cancelled_wait_leaves_the_others(scene: Stage, what: str) -> None:
    """When the waiter in front is cancelled, those behind it go on all the same."""
    gate, other = (_MAKE[what](scene.client()) for _ in range(2))
    actors = [scene.actor() for _ in range(3)]
    waiting = [
        joins(scene, actor, gate.wait, asks=number == 0) for number, actor in enumerate(actors)
    ]
    actors[0].cancel()
    with pytest.raises(CancelledHereError):
        waiting[0].result(PROMPT)
    scene.actor().do(_OPEN[what], other)
    assert [each.result(PROMPT) for each in waiting[1:]] == [True, True]


@both
def test_closing_a_client_ends_its_waits(scene: Stage, what: str) -> None:
    """Who waits when its client is closed gets ClosedError; others wait on."""
    clients = [scene.client() for _ in range(2)]
    gates = [_MAKE[what](client) for client in clients]
    waiting = _waiters(scene, gates)
    scene.close(clients[0])
    for each in waiting[::2]:
        with pytest.raises(ClosedError):
            each.result(PROMPT)
    owner = scene.actor()
    owner.do(_OPEN[what], gates[1])
    assert [each.result(PROMPT) for each in waiting[1::2]] == [True, True]
    with pytest.raises(ClosedError):
        owner.do(gates[0].wait)


@each_face
@both
def test_it_stays_open_when_who_opened_it_dies(scene: Stage, what: str) -> None:
    """What a killed process has set or counted down stays so."""
    gate, waiter = _MAKE[what](scene.client()), scene.actor()
    waiting = joins(scene, waiter, gate.wait)
    calls = {
        "event": "event('the name').set()",
        "latch": "count_down_latch('the name').count_down()",
    }
    code = f"""
        client = interlock.connect(url)
        client.{calls[what]}
        say("open")
        threading.Event().wait()
    """
    with Child(code, scene.place.urls[0]) as child:
        assert child.hear() == "open"
        child.kill()
    assert waiting.result(PROMPT) is True
    assert waiter.do(_MAKE[what](scene.client()).wait, timeout=0) is True


def test_an_event_is_set_until_it_is_cleared(scene: Stage) -> None:
    """It is clear at first; setting and clearing it again changes nothing."""
    first, second = (scene.client().event(NAME) for _ in range(2))
    owner = scene.actor()
    assert not owner.do(first.is_set)
    for _ in range(2):
        owner.do(first.set)
        assert owner.do(second.is_set)
    for _ in range(2):
        owner.do(second.clear)
        assert not owner.do(first.is_set)
    assert owner.do(first.wait, timeout=0) is False


@pytest.mark.sample
def test_a_latch_opens_at_zero(scene: Stage) -> None:
    """It opens with the last count of those that the first who set it decided, and not before."""
    latch, other = (scene.client().count_down_latch(NAME) for _ in range(2))
    owner, waiter = scene.actor(), scene.actor()
    assert owner.do(latch.wait) is True, "one that was never set is open"
    owner.do(latch.count_down)
    assert owner.do(latch.count) == 0
    assert owner.do(latch.try_set_count, 3)
    assert not owner.do(other.try_set_count, 5)
    waiting = joins(scene, waiter, other.wait)
    for left in (2, 1):
        owner.do(latch.count_down)
        assert owner.do(other.count) == left
        assert not waiting.done()
    owner.do(latch.count_down)
    assert waiting.result(PROMPT) is True
    assert owner.do(other.count) == 0
    owner.do(latch.count_down)
    assert owner.do(latch.try_set_count, 5), "an open one can be set again"
    assert owner.do(other.count) == 5


def test_a_named_count_is_set_once_in_a_life(scene: Stage) -> None:
    """Who comes after the opening does not close it again, but after a deletion it does."""
    owner, waiter = scene.actor(), scene.actor()
    first, second, late = (scene.client().count_down_latch(NAME, count=2) for _ in range(3))
    owner.do(first.count_down)
    assert owner.do(second.count) == 1
    waiting = joins(scene, waiter, second.wait)
    owner.do(first.count_down)
    assert waiting.result(PROMPT) is True
    assert owner.do(late.wait, timeout=0) is True
    assert owner.do(late.count) == 0
    assert owner.do(late.delete)
    assert not owner.do(late.delete)
    assert owner.do(late.count) == 2
    assert owner.do(late.wait, timeout=0) is False


def test_another_count_is_told_once(scene: Stage) -> None:
    """A client that names another count is warned; the count on the server does not change."""
    owner, client = scene.actor(), scene.client()
    assert owner.do(scene.client().count_down_latch(NAME, count=3).count) == 3
    with pytest.warns(MisuseWarning, match="set up with the count 3, not 5"):
        assert owner.do(client.count_down_latch(NAME, count=5).count) == 3
    assert owner.do(client.count_down_latch(NAME, count=5).count) == 3


def test_a_deletion_is_told_to_who_waits(scene: Stage) -> None:
    """Whoever waits for a latch that is deleted gets an error; a later wait returns at once."""
    latches = [scene.client().count_down_latch(NAME) for _ in range(2)]
    owner = scene.actor()
    assert owner.do(latches[0].try_set_count, 2)
    waiting = _waiters(scene, latches)
    assert owner.do(scene.client().count_down_latch(NAME).delete) is True
    for each in waiting:
        with pytest.raises(LatchDeletedError) as caught:
            each.result(PROMPT)
        assert caught.value.name == NAME
    assert owner.do(latches[0].wait) is True
    assert owner.do(latches[0].delete) is False


@each_face
def test_an_idle_latch_leaves_the_server(scene: Stage) -> None:
    """With ``idle=`` nothing is left some time after the last use, and a wait is a use."""
    owner, waiter = scene.actor(), scene.actor()
    latch, other = (scene.client().count_down_latch(NAME, count=2, idle=2) for _ in range(2))
    owner.do(latch.count_down)
    waiting = joins(scene, waiter, other.wait)
    time.sleep(3)  # one and a half times as long as it may be idle
    assert not waiting.done()
    owner.do(latch.count_down)
    assert waiting.result(PROMPT) is True
    wait_until(lambda: not kept(scene), 10, "nothing is left")
    assert owner.do(latch.count) == 2


@each_face
@both
def test_messages_are_not_needed(troubled_scene: Stage, what: str) -> None:
    """Without any message a waiter finds out by itself, though it is closed again at once."""
    scene = troubled_scene
    scene.place.lose_messages()
    mine, gate, owner = _MAKE[what](scene.client()), _MAKE[what](scene.client()), scene.actor()
    waiting = joins(scene, scene.actor(), gate.wait)
    owner.do(_OPEN[what], mine)
    owner.do(mine.clear) if what == "event" else owner.do(mine.try_set_count, 1)
    assert waiting.result(PROMPT) is True


@each_face
@pytest.mark.parametrize("name", [NAME, "{tag}name"])
def test_what_is_left(scene: Stage, seen: redis.Redis, name: str) -> None:
    """A set event and a count are a key that stays; later there are only notes, which expire."""
    owner, client = scene.actor(), scene.client()
    event, latch = client.event(name), client.count_down_latch(name)
    key = "interlock_event:" + (name if "{" in name else f"{{{name}}}")
    owner.do(event.set)
    assert seen.get(key).startswith(b"set ")
    assert seen.ttl(key) == -1
    owner.do(event.clear)
    assert owner.do(latch.try_set_count, 1)
    assert (seen.get(name), seen.ttl(name)) == (b"1", -1)
    waiting = joins(scene, scene.actor(), latch.wait, name=name)
    assert f"redisson_countdownlatch__channel__{{{name}}}" in waited_channels(seen)
    owner.do(latch.count_down)
    assert waiting.result(PROMPT) is True
    keys = own_keys(seen)
    notes = ("interlock_request:", "interlock_latch_", "interlock_event:")
    assert all(each.startswith(notes) for each in keys)
    assert all(0 < seen.ttl(each) <= 64 for each in keys)


@each_face
@pytest.mark.parametrize("how", ["opens", "deletes"])
def test_java_ends_it(scene: Stage, seen: redis.Redis, how: str) -> None:
    """Java's count-down to 0 wakes a waiter; so does its deletion, which leaves no note."""
    seen.set(NAME, 1)
    waiting = joins(scene, scene.actor(), scene.client().count_down_latch(NAME).wait)
    seen.delete(NAME)
    seen.publish(f"redisson_countdownlatch__channel__{{{NAME}}}", "0" if how == "opens" else "1")
    assert waiting.result(PROMPT) is True


@each_face
def test_counts_of_others(scene: Stage, seen: redis.Redis) -> None:
    """A count that Java has set may be what a program names; less than is left is told."""
    owner = scene.actor()
    seen.set(NAME, 4)
    assert owner.do(scene.client().count_down_latch(NAME, count=9).count) == 4
    with pytest.warns(MisuseWarning, match="set up with the count 4, not 1"):
        assert owner.do(scene.client().count_down_latch(NAME, count=1).count) == 4
