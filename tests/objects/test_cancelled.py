"""Who is cancelled after the server has acted holds nothing, and all that is told adds up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.objects.acts import PROMPT, exclusive, freed, held, in_asyncio, of_kinds
from tests.objects.permits import PERMITS, Permits
from tests.objects.stage import NAME, Stage
from tests.objects.trouble import TroubledPlace
from tests.objects.worlds import Actor, CancelledHereError
from tests.support.faults import command, delay_reply
from tests.support.patience import wait_until

from interlock import observe

LATE = delay_reply(2)
"""Longer than it takes to cancel a call that waits for it, and shorter than a command may take."""


def _struck(stage: Stage, actor: Actor, call: Any, *args: Any) -> None:
    """Let *actor* begin *call*, and cancel it when the server has acted, before it answers."""
    place: TroubledPlace = stage.place
    place.on_request(command("EVALSHA"), LATE)
    struck = actor.start(call, *args)
    wait_until(lambda: place.fired() > 0, 10, "the server acts")
    actor.cancel()
    with pytest.raises(CancelledHereError):
        struck.result(PROMPT)
    place.clear()


@pytest.mark.promise("once")
@in_asyncio
@exclusive
def test_an_acquire_whose_answer_is_on_its_way(trouble: Stage) -> None:
    """The lock that a cancelled acquire has got is soon given back, and its owner may come again."""
    place: TroubledPlace = trouble.place
    lock = trouble.lock(*trouble.clients(card=False))
    theirs = trouble.lock(*map(trouble.client, place.direct))
    owner, other = trouble.actor(), trouble.actor()
    for call in (lock.acquire, lock.release):
        owner.do(call)
    _struck(trouble, owner, lock.acquire)
    assert owner.do(lambda: lock.hold) is None
    assert other.do(theirs.acquire, timeout=PROMPT)
    other.do(theirs.release)
    assert owner.do(lock.acquire, timeout=PROMPT)
    owner.do(lock.release)
    freed(trouble)


@in_asyncio
@of_kinds(lambda kind: kind.name != "red")
def test_who_is_cancelled_waits_for_no_silent_server(trouble: Stage) -> None:
    """The task ends soon, and what it may have acquired is given back when the server answers."""
    place: TroubledPlace = trouble.place
    lock, owner = trouble.lock(*trouble.clients(card=False, command_timeout=30)), trouble.actor()
    for call in (lock.acquire, lock.release):
        owner.do(call)
    place.clear()
    with place.paused():
        struck = owner.start(lock.acquire)
        wait_until(place.asked_through, 10, "it asks")
        owner.cancel()
        with pytest.raises(CancelledHereError):
            struck.result(PROMPT)
    freed(trouble)


@in_asyncio
@pytest.mark.parametrize("permits", PERMITS, ids=lambda each: each.name)
def test_a_permit_that_is_on_its_way(troubled_scene: Stage, permits: Permits) -> None:
    """The permit that a cancelled acquire has got is soon given back, once."""
    scene = troubled_scene
    place: TroubledPlace = scene.place
    made = permits.make(scene.client(card=False), NAME, 2)
    looks = permits.make(scene.client(place.direct[0]), NAME, 2)
    owner, other = scene.actor(), scene.actor()
    owner.do(permits.give, made, owner.do(permits.take, made))
    kept = owner.do(permits.take, made)
    _struck(scene, owner, permits.take, made)
    wait_until(lambda: other.do(permits.free, looks) == 1, PROMPT, "it is given back")
    owner.do(permits.give, made, kept)
    assert other.do(permits.free, looks) == 2


class _Told(observe.Observer):
    """Notes the holders whose holds begin and end."""

    def __init__(self) -> None:
        self.acquired_by: list[str] = []
        self.released_by: list[str] = []

    def acquired(self, event: observe.Acquired) -> None:
        self.acquired_by.append(event.holder)

    def released(self, event: observe.Released) -> None:
        self.released_by.append(event.holder)


@in_asyncio
@of_kinds(lambda kind: kind.in_turn)
def test_a_turn_that_nobody_took_is_told_to_its_end(stage: Stage) -> None:
    """For observers, who is cancelled in the moment of its turn has the lock, and releases it."""
    client, told = stage.client(), _Told()
    client.observe(told)
    lock, owner, waiter = stage.lock(client), stage.actor(), stage.actor()
    held(owner, lock)
    tasks: list[Any] = []
    waiter.do(lambda: tasks.append(asyncio.current_task()))
    got = waiter.start(lock.acquire)
    stage.waits()

    async def hand_over() -> None:
        await lock.release()
        if not got.done():
            tasks[0].cancel()

    owner.do(hand_over)
    if got.exception(PROMPT) is None:
        waiter.do(lock.release)
    freed(stage)
    wait_until(lambda: len(told.released_by) == len(told.acquired_by), PROMPT, "both ends are told")
    assert sorted(told.released_by) == sorted(told.acquired_by)
    assert held(owner, lock, timeout=PROMPT)
    owner.do(lock.release)
