"""What everything that gives permits promises: how many are inside, who waits, what comes back."""

from __future__ import annotations

import threading
import time
import warnings
from functools import partial
from typing import Any

import pytest
from tests.objects.acts import (
    PROMPT,
    Block,
    Inside,
    each_face,
    enter,
    joins,
    kept,
    later,
    one_or_several,
    outcome,
)
from tests.objects.permits import LEASED, PERMITS, SEVERAL, Permits
from tests.objects.stage import NAME, Stage
from tests.support.child import Child
from tests.support.patience import wait_until

from interlock import AcquireTimeoutError, ClosedError, HoldLostError, MisuseWarning, NotHeldError

every = pytest.mark.parametrize("permits", PERMITS, ids=lambda each: each.name)
with_leases = pytest.mark.parametrize("permits", LEASED, ids=lambda each: each.name)
several_together = pytest.mark.parametrize("permits", SEVERAL, ids=lambda each: each.name)


def _makers(
    scene: Stage, permits: Permits, n: int, count: int, *, same_client: bool = False, **options: Any
) -> list[Any]:
    """Return *count* objects of one name and *n* permits, of one client or of one each."""
    first = scene.client()
    clients = [first if same_client else scene.client() for _ in range(count - 1)]
    return [permits.make(client, NAME, n, **options) for client in (first, *clients)]


@pytest.mark.promise("exclusion")
@pytest.mark.sample
@every
@one_or_several
def test_no_more_are_inside_than_there_are_permits(
    scene: Stage, permits: Permits, *, same_client: bool
) -> None:
    """Of five that come again and again, two are inside at most, and each has all its turns."""
    inside, last = Inside(), list[Any]()
    makers = _makers(scene, permits, 2, 5, same_client=same_client)
    actors = [scene.actor() for _ in makers]
    owner = scene.actor()
    held = [owner.do(permits.take, makers[0]) for _ in range(2)]
    for _ in range(5):
        for actor, made in zip(actors, makers, strict=True):
            got = actor.start(permits.take, made)
            actor.start(inside.enter)
            actor.start(permits.free, made)  # the others come meanwhile
            actor.start(inside.leave)
            last.append(actor.start(later(permits.give, made, got)))
    for each in held:  # now that all have come
        owner.do(permits.give, makers[0], each)
    for done in last:
        done.result(60)
    assert 1 <= inside.most <= 2
    assert inside.entries == 25
    assert actors[0].do(permits.free, makers[0]) == 2


@pytest.mark.promise("waking")
@pytest.mark.sample
@one_or_several
def test_a_release_wakes_one_waiter(scene: Stage, *, same_client: bool) -> None:
    """Each release of a plain semaphore lets one go on at once: whoever asks first, if of several.

    Those with leases have turns, as test_queues.py has it.
    """
    made, *others = _makers(scene, PERMITS[0], 1, 3, same_client=same_client)
    owner, actors = scene.actor(), [scene.actor(), scene.actor()]
    assert owner.do(made.acquire)
    waiting = [
        joins(scene, actor, each.acquire, asks=not same_client or number == 0)
        for number, (actor, each) in enumerate(zip(actors, others, strict=True))
    ]
    left = [*zip(waiting, actors, others, strict=True)]
    while left:
        owner.do(made.release)
        wait_until(lambda: any(each[0].done() for each in left), PROMPT, "one goes on")
        place = [each[0].done() for each in left].index(True)
        assert place == 0 or not same_client
        future, owner, made = left.pop(place)
        assert future.result()
        time.sleep(0.02)
        assert not any(each[0].done() for each in left)
    assert owner.do(made.available_permits) == 0
    owner.do(made.release)
    assert owner.do(made.available_permits) == 1


@pytest.mark.sample
def test_waiters_of_one_client_have_their_turns_in_order(scene: Stage) -> None:
    """Those who come anew as a permit of a plain semaphore comes back do not overtake them."""
    made, owner, came = scene.client().semaphore(NAME, 1), scene.actor(), list[int]()
    actors, last = [scene.actor() for _ in range(5)], list[Any]()
    assert owner.do(made.acquire)
    for number, actor in enumerate(actors):
        joins(scene, actor, made.acquire, asks=number == 0)
        for _ in range(2):
            actor.start(came.append, number)
            last.append(actor.start(made.release))
            actor.start(made.acquire)  # it comes anew, behind all others
        last.append(actor.start(made.release))
    owner.do(made.release)
    for done in last:
        done.result(PROMPT)
    assert came[:5] == [0, 1, 2, 3, 4]
    assert sorted(came[5:]) == [0, 1, 2, 3, 4]
    assert owner.do(made.available_permits) == 1


@several_together
def test_several_are_taken_together_or_none(scene: Stage, permits: Permits) -> None:
    """Who wants three waits for all three, and has none of them before."""
    made, other = _makers(scene, permits, 3, 2)
    owner, waiter = scene.actor(), scene.actor()
    one, two = owner.do(permits.take, made), owner.do(permits.take, made, 2)
    assert owner.do(permits.free, made) == 0
    assert outcome(waiter.start(permits.take, other, 3, 0)) is None
    waiting = joins(scene, waiter, permits.take, other, 3)
    owner.do(permits.give, made, one)
    assert owner.do(permits.free, made) == 1
    assert not waiting.done()
    owner.do(permits.give, made, two, 2)
    got = waiting.result(PROMPT)
    assert owner.do(permits.free, made) == 0
    waiter.do(permits.give, other, got, 3)
    assert owner.do(permits.free, made) == 3


def later_ones(*waiting: Any) -> list[Any]:
    time.sleep(0.2)
    return [each for each in waiting if each.done()]


@several_together
def test_who_wants_less_goes_ahead(scene: Stage, permits: Permits) -> None:
    """Plain ones go to whoever wants less; those with leases to the first one, strictly in order."""
    made, large, small = _makers(scene, permits, 2, 3)
    owner, first, second = scene.actor(), scene.actor(), scene.actor()
    one, two = owner.do(permits.take, made), owner.do(permits.take, made)
    wants_two = joins(scene, first, permits.take, large, 2)
    wants_one = joins(scene, second, permits.take, small)
    owner.do(permits.give, made, one)
    if permits.leased:
        assert not later_ones(wants_one, wants_two)
        owner.do(permits.give, made, two)
        first.do(permits.give, large, wants_two.result(PROMPT), 2)
        second.do(permits.give, small, wants_one.result(PROMPT))
        return
    got = wants_one.result(PROMPT)
    assert not wants_two.done()
    owner.do(permits.give, made, two)
    second.do(permits.give, small, got)
    first.do(permits.give, large, wants_two.result(PROMPT), 2)


@several_together
def test_one_release_of_several_wakes_all_who_can_go(scene: Stage, permits: Permits) -> None:
    """Four waiters of two clients go on when four permits come back together; the fifth waits."""
    makers = _makers(scene, permits, 4, 3)
    owner, actors = scene.actor(), [scene.actor() for _ in range(5)]
    held = owner.do(permits.take, makers[0], 4)
    waiting = [
        joins(scene, actor, permits.take, makers[1 + number % 2], asks=number < 2)
        for number, actor in enumerate(actors)
    ]
    owner.do(permits.give, makers[0], held, 4)
    wait_until(lambda: sum(each.done() for each in waiting) == 4, PROMPT, "four go on")
    assert owner.do(permits.free, makers[0]) == 0
    actor, got = next((a, f) for a, f in zip(actors, waiting, strict=True) if f.done())
    actor.do(permits.give, makers[0], got.result())
    wait_until(lambda: all(each.done() for each in waiting), PROMPT, "the last one goes on")


@every
def test_a_block_gives_back_its_permit(scene: Stage, permits: Permits) -> None:
    """A block has one permit, and gives it back at its end; its own error goes on."""
    [made] = _makers(scene, permits, 1, 1)
    owner, other = scene.actor(), scene.actor()
    for error in (None, LookupError("the body's")):
        block = permits.block(made)
        owner.enter(block)
        assert outcome(other.start(permits.take, made, 1, 0)) is None
        assert not owner.leave(block, error)
        assert owner.do(permits.free, made) == 1


@pytest.mark.parametrize("permits", [PERMITS[0], PERMITS[2]], ids=lambda each: each.name)
def test_a_block_waits_no_longer_than_told(scene: Stage, permits: Permits) -> None:
    """Without a permit in time a block is not entered."""
    [made] = _makers(scene, permits, 1, 1, timeout=0.1)
    owner, other = scene.actor(), scene.actor()
    block = permits.block(made)
    owner.enter(block)
    with pytest.raises(AcquireTimeoutError) as caught:
        other.enter(permits.block(made))
    assert caught.value.name == NAME
    owner.leave(block)
    assert owner.do(permits.free, made) == 1


def test_a_block_that_tries_is_entered_without_permits(scene: Stage) -> None:
    """A `trying` block is entered in any case, and has what it asked for or nothing."""
    client, owner = scene.client(), scene.actor()
    for made in (client.semaphore("plain", 2), client.leased_semaphore("leased", 2)):
        block, refused = made.trying(2), made.trying()
        assert owner.enter(block)
        assert not owner.enter(refused)
        owner.leave(refused)
        assert owner.do(made.available_permits) == 0
        owner.leave(block)
        assert owner.do(made.available_permits) == 2


def test_blocks_of_one_limit_are_told_apart(scene: Stage) -> None:
    """Each block of one object has a permit of its own, and anybody may leave it."""
    owner, other = scene.actor(), scene.actor()
    limit = scene.client().limited(NAME, 2, timeout=0)
    first, second = (Block(limit, awaits=scene.world.cancels) for _ in "12")
    permits = [owner.do(first.enter), other.do(second.enter)]
    assert permits[0].ids != permits[1].ids
    with pytest.raises(AcquireTimeoutError):
        owner.enter(limit)
    other.do(first.leave)
    assert [bool(permit) for permit in permits] == [False, True]
    owner.do(second.leave)
    assert owner.do(limit.available) == 2


@every
def test_closing_ends_waits_and_gives_back(scene: Stage, permits: Permits) -> None:
    """Who waits when its client is closed gets ClosedError; what the client's blocks had is free."""
    clients = [scene.client() for _ in range(3)]
    n = 2 if permits.leased else 1
    holds, closed, waits = (permits.make(client, NAME, n) for client in clients)
    owner, first, second = scene.actor(), scene.actor(), scene.actor()
    leave = enter(scene, owner, permits.block(holds))
    permit = owner.do(permits.take, holds) if permits.leased else None
    ended = joins(scene, first, permits.take, closed)
    waiting = joins(scene, second, permits.take, waits)
    scene.close(clients[1])
    with pytest.raises(ClosedError):
        ended.result(PROMPT)
    assert not waiting.done()
    scene.close(clients[0])
    got = waiting.result(PROMPT)
    assert not permit
    if permits.leased:
        with pytest.raises(NotHeldError):
            owner.do(leave)
    else:
        owner.do(leave)
    assert second.do(permits.free, waits) == n - 1, "the end of the block gives nothing back again"
    second.do(permits.give, waits, got)
    with pytest.raises(ClosedError):
        owner.do(permits.take, holds)


@pytest.mark.sample
@with_leases
def test_a_lease_ends_by_itself(scene: Stage, permits: Permits) -> None:
    """A permit with a lease of its own is lost when that ends, and the next one gets it."""
    clients = [scene.client() for _ in range(2)]
    made, other = (permits.make(client, NAME, 1) for client in clients)
    owner, waiter = scene.actor(), scene.actor()
    told = threading.Event()
    began = time.monotonic()
    if permits.several:
        permit = owner.do(made.acquire, lease=1)
    else:
        permit = owner.do(clients[0].limited(NAME, 1, lease=1).acquire)
    owner.do(permit.on_lost, told.set)
    assert permit.valid
    assert 0 < permit.remaining <= 1
    got = waiter.do(permits.take, other)
    assert 0.9 < time.monotonic() - began < 1 + PROMPT
    assert told.wait(PROMPT)
    assert permit.lost.is_set()
    assert not permit.valid
    with pytest.raises(HoldLostError, match="expired"):
        permit.ensure()
    with pytest.raises(HoldLostError, match="expired"):
        owner.do(permit.release)
    assert waiter.do(permits.free, other) == 0
    waiter.do(permits.give, other, got)
    assert waiter.do(permits.free, other) == 1


@each_face
@with_leases
def test_without_a_lease_it_is_renewed(scene: Stage, permits: Permits) -> None:
    """A permit lasts longer than its client's lease, as long as it is wanted."""
    made, other = (permits.make(scene.client(lease=2), NAME, 1) for _ in range(2))
    owner, waiter = scene.actor(), scene.actor()
    permit = owner.do(permits.take, made)
    assert outcome(waiter.start(permits.take, other, 1, 3)) is None  # one and a half leases
    assert permit.valid
    permit.ensure()
    assert waiter.do(permits.free, other) == 0
    owner.do(permit.release)
    assert not permit.valid
    assert not permit.lost.is_set()


@pytest.mark.parametrize("how", ["by its id", "delete", "by force"])
def test_a_lost_permit_is_told(scene: Stage, how: str) -> None:
    """If another client gives a permit back, or deletes all, its holder is told in a third of it."""
    client, owner, elsewhere = scene.client(lease=3), scene.actor(), scene.client()
    told, other = threading.Event(), elsewhere.leased_semaphore(NAME)
    made = client.limited(NAME, 2) if how == "by force" else client.leased_semaphore(NAME, 2)
    permit = owner.do(made.acquire)
    owner.do(permit.on_lost, told.set)
    if how == "by force":
        assert owner.do(elsewhere.force_release, NAME, holder=permit.holder)
        assert owner.do(made.available) == 2
    elif how == "delete":
        assert owner.do(other.delete)
    else:
        owner.do(other.release, permit.ids[0])
        assert owner.do(other.available_permits) == 2
    assert told.wait(3 + PROMPT)
    assert not permit.valid
    with pytest.raises(HoldLostError):
        permit.ensure()
    with pytest.raises(HoldLostError):
        owner.leave(permit)


@with_leases
def test_a_permit_is_given_back_once(scene: Stage, permits: Permits) -> None:
    """Any thread or task may give it back; a second time is an error and changes nothing."""
    owner, other = scene.actor(), scene.actor()
    made = permits.make(scene.client(), NAME, 2)
    elsewhere = scene.client().leased_semaphore(NAME)
    permit = owner.do(permits.take, made)
    other.do(permit.release)
    assert not permit
    wrong = [permit.release, *([partial(elsewhere.release, permit.ids[0])] * permits.several)]
    for each in wrong:
        with pytest.raises(NotHeldError):
            owner.do(each)
        assert owner.do(permits.free, made) == 2


@pytest.mark.promise("death")
@each_face
@every
def test_what_a_killed_process_had(scene: Stage, permits: Permits) -> None:
    """Permits with leases come back within the lease; plain ones stay until they are given back."""
    made, owner = permits.make(scene.client(), NAME, 1), scene.actor()
    assert owner.do(permits.free, made) == 1
    code = f"""
        client = interlock.connect(url, lease=3)
        {permits.code}
        say("holds")
        threading.Event().wait()
    """
    with Child(code, scene.place.urls[0]) as child:
        assert child.hear() == "holds"
        assert owner.do(permits.free, made) == 0
        child.kill()
    if permits.leased:
        killed = time.monotonic()
        got = owner.do(permits.take, made)
        assert time.monotonic() - killed < 3 + PROMPT
        owner.do(permits.give, made, got)
    else:
        assert outcome(owner.start(permits.take, made, 1, 0.3)) is None
        owner.do(permits.give, made, True)
    assert owner.do(permits.free, made) == 1


@several_together
def test_the_first_program_decides(scene: Stage, permits: Permits) -> None:
    """The number of the first client counts; one that names another is warned of it, once."""
    first, other = (permits.make(scene.client(), NAME, n) for n in (2, 5))
    owner = scene.actor()
    assert owner.do(permits.free, first) == 2
    with pytest.warns(MisuseWarning, match="has 2 permits on the server, not 5"):
        got = owner.do(permits.take, other)
    owner.do(permits.give, other, got)
    assert owner.do(permits.free, other) == 2
    assert not owner.do(permits.make(scene.client(), NAME, None).try_set_permits, 7)
    assert owner.do(permits.free, first) == 2
    changing = permits.make(scene.client(), NAME, 5)
    owner.do(changing.set_permits, 7)  # who changes it is not warned
    assert owner.do(permits.free, changing) == 7


def test_each_brings_its_own_limit(scene: Stage) -> None:
    """A client with a larger limit comes in beside others, in its turn; a smaller one waits longer."""
    owner, waiter = scene.actor(), scene.actor()
    first, waits = (scene.client().limited(NAME, 1) for _ in range(2))
    held = owner.do(first.acquire)
    larger = scene.client().limited(NAME, 3)
    also_held = owner.do(larger.acquire, timeout=PROMPT)
    waiting = joins(scene, waiter, waits.acquire)
    assert (owner.do(first.running), owner.do(first.available)) == (2, -1)
    assert owner.do(larger.available) == 1
    owner.do(held.release)
    assert not later_ones(waiting)
    owner.do(also_held.release)
    waiter.do(waiting.result(PROMPT).release)
    assert (owner.do(first.running), owner.do(first.available)) == (0, 1)
    assert not [key for key in kept(scene) if "queue" not in str(key)], "there is nothing to set up"


@every
def test_a_number_that_the_server_lost_is_set_again(scene: Stage, permits: Permits) -> None:
    """After a loss of all data there are as many permits as before; old ones with leases are lost."""
    made, owner = permits.make(scene.client(), NAME, 2), scene.actor()
    old = [owner.do(permits.take, made) for _ in range(2)]
    scene.place.empty()
    new = [owner.do(permits.take, made, 1, 0) for _ in range(2)]
    assert outcome(owner.start(permits.take, made, 1, 0)) is None
    if permits.leased:
        for each in old:
            with pytest.raises(HoldLostError):
                owner.do(permits.give, made, each)
    assert owner.do(permits.free, made) == 0
    for each in new:
        owner.do(permits.give, made, each)
    assert owner.do(permits.free, made) == 2


@several_together
def test_a_larger_number_wakes_who_waits(scene: Stage, permits: Permits) -> None:
    """Free and taken ones count together; a smaller number stops nobody, a larger wakes at once."""
    made, *others = _makers(scene, permits, 2, 3)
    owner, actors = scene.actor(), [scene.actor(), scene.actor()]
    held = [owner.do(permits.take, made) for _ in range(2)]
    for each in others:  # their clients look at the number for the first time
        assert owner.do(permits.free, each) == 0
    owner.do(made.set_permits, 1)
    assert owner.do(permits.free, made) == -1
    waiting = [
        joins(scene, actor, permits.take, each) for actor, each in zip(actors, others, strict=True)
    ]
    owner.do(permits.give, made, held[0])
    assert owner.do(permits.free, made) == 0
    owner.do(made.set_permits, 2)
    wait_until(lambda: any(each.done() for each in waiting), PROMPT, "one goes on")
    assert not all(each.done() for each in waiting)
    owner.do(made.add_permits, 1)
    got = [each.result(PROMPT) for each in waiting]
    owner.do(made.add_permits, -2)
    assert owner.do(permits.free, made) == -2
    for each in (held[1], *got):
        owner.do(permits.give, made, each)
    assert owner.do(permits.free, made) == 1


def test_the_number_of_a_plain_one_is_changed(scene: Stage) -> None:
    """`set_permits` sets the sum; draining takes what is free; nothing stays after a deletion."""
    made, owner = scene.client().semaphore(NAME, 3), scene.actor()
    assert owner.do(made.acquire, 2)
    for wanted, free in ((7, 5), (1, -1), (1, -1), (0, -2), (2, 0), (6, 4)):
        owner.do(made.set_permits, wanted)
        assert owner.do(made.available_permits) == free
    assert [owner.do(made.drain_permits) for _ in range(2)] == [4, 0]
    assert owner.do(made.available_permits) == 0
    owner.do(made.release, 2)
    assert owner.do(made.available_permits) == 2
    assert owner.do(made.delete)
    assert not kept(scene)
    assert not owner.do(made.delete)
    owner.do(scene.client().semaphore(NAME).set_permits, 4)
    assert owner.do(made.available_permits) == 4


def test_a_leased_one_counts_what_is_held(scene: Stage) -> None:
    """How many exist, are held and are free add up, whatever is taken, given and changed."""
    made, owner = scene.client().leased_semaphore(NAME), scene.actor()

    def counts() -> tuple[int, int, int]:
        calls = (made.permits, made.acquired_permits, made.available_permits)
        return tuple(owner.do(call) for call in calls)  # type: ignore[return-value]

    assert owner.do(made.try_set_permits, 3)
    permit = owner.do(made.acquire, 2)
    assert [len(bytes.fromhex(each)) for each in set(permit.ids)] == [16, 16]
    assert owner.do(made.try_acquire, 2) is None
    assert owner.do(made.try_acquire, 2, timeout=0.1) is None
    assert counts() == (3, 2, 1)
    owner.do(made.set_permits, 1)
    assert counts() == (1, 2, -1)
    owner.do(made.add_permits, 4)
    assert counts() == (5, 2, 3)
    owner.do(made.release, permit)
    assert counts() == (5, 0, 5)
    assert owner.do(made.delete)
    assert not owner.do(made.delete)
    assert counts() == (0, 0, 0)


@several_together
def test_who_waits_for_a_missing_one_goes_on_when_it_is_set_up(
    scene: Stage, permits: Permits
) -> None:
    """A wait for a name that nobody has set up, or that was deleted, ends when somebody does.

    A wait warns at once, once for each name. One try says nothing.
    """
    owner, waiter = scene.actor(), scene.actor()
    made, other = (permits.make(scene.client(), NAME, None) for _ in range(2))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", MisuseWarning)
        assert outcome(waiter.start(permits.take, other, 1, 0)) is None
        assert not told
        waiting = joins(scene, waiter, permits.take, other)
        (warning,) = told
        assert "semaphore('the name', permits=n)" in str(warning.message)
        assert owner.do(made.try_set_permits, 1)
        assert waiting.result(PROMPT)
    again = joins(scene, owner, permits.take, made)
    assert waiter.do(other.delete)
    assert waiter.do(other.try_set_permits, 1)
    owner.do(permits.give, made, again.result(PROMPT))
    assert owner.do(permits.free, made) == 1
    assert owner.do(made.delete)


@each_face
@several_together
def test_an_idle_one_leaves_the_server(scene: Stage, permits: Permits) -> None:
    """With ``idle=`` nothing is left some time after the last use; the next one begins anew."""
    made = permits.make(scene.client(lease=2), NAME, 2, idle=2)
    owner = scene.actor()
    held = owner.do(permits.take, made)
    owner.do(permits.give, made, held)
    owner.do(made.set_permits, 5)
    assert kept(scene)
    wait_until(lambda: not kept(scene), 10, "nothing is left")
    assert owner.do(permits.free, made) == 2


@each_face
def test_a_renewed_permit_is_a_use(scene: Stage) -> None:
    """While a permit is renewed, the number stays, although nobody makes a call."""
    made, owner = scene.client(lease=2).leased_semaphore(NAME, 2, idle=2), scene.actor()
    permit = owner.do(made.acquire)
    owner.do(made.set_permits, 7)
    time.sleep(3)  # one and a half times as long as it may be idle
    assert owner.do(made.available_permits) == 6
    owner.do(permit.release)
