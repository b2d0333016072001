"""A lock is passed on to the next waiter of the same client, and the others get their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.lock import Lock, PassLocally
from interlock._core.model.effects import Cleanup, Eval, Wait
from interlock._core.model.holds import ENDED, HELD, Owner
from interlock._core.queue.policy import COURTESY, LONGEST_RUN
from interlock._core.queue.waiters import LONGEST_OFFER
from interlock.errors import ServerUnavailableError
from interlock.options import required

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.bench import Bench, Play

    from interlock._core.model.holds import Hold
    from interlock._core.queue.waiter import Waiter

CHANNEL = "redisson_lock__channel:{x}"
TAKEN = 30_000


class Queue:
    """A lock that is held, and those who wait for it in the same client."""

    def __init__(self, bench: Bench, play: type[Play], waiting: int, lock: Any = None) -> None:
        self.bench = bench
        self.play = play
        self.lock = lock or bench.lock
        self.woken: list[int] = []
        self.owners = [Owner(f"thread {number}") for number in range(waiting + 1)]
        self.plays = [self._acquire(0, None)]
        self.plays += [self._acquire(number, TAKEN) for number in range(1, waiting + 1)]

    def _acquire(self, number: int, reply: int | None) -> Play:
        play = self.play(self.lock.acquire(self.owners[number], self.bench.now + 10.0, None))
        if reply is None:
            return play.answer(None)
        if isinstance(play.effect, Eval):
            play.answer(reply)
        waiter = self.bench.waiters.join(self.lock.channel, lambda: self.woken.append(number))
        play.answer(waiter)
        assert isinstance(play.effect, Wait)
        return play

    def come(self, owner: Owner) -> None:
        """Add *owner* to the waiters."""
        self.owners.append(owner)
        self.plays.append(self._acquire(len(self.owners) - 1, TAKEN))

    def waiter(self, number: int) -> Waiter:
        """Return the place of *number*."""
        return self.plays[number].effect.waiter

    def release(self, number: int = 0) -> Play:
        """Play the release by *number*."""
        return self.play(self.lock.release(self.owners[number]))

    def hold(self, number: int) -> Hold | None:
        """Return the hold of *number*."""
        return self.lock.hold_of(self.owners[number])

    def go_on(self, number: int) -> Play:
        """Wake *number*; the driver takes back the place of who is done."""
        play, waiter = self.plays[number], self.waiter(number)
        play.answer(None)
        if play.over:
            self.bench.waiters.leave(waiter)
        return play


@pytest.fixture
def queue(bench: Bench, play: type[Play]) -> Callable[..., Queue]:
    """Give the maker of locks that are waited for."""
    return lambda waiting, lock=None: Queue(bench, play, waiting, lock)


def test_the_next_waiter_is_made_the_holder(queue: Callable[..., Queue]) -> None:
    """One script puts the next waiter in the holder's place, and the waiter asks nothing."""
    here = queue(2)
    here.bench.waiters.places[CHANNEL].taken = True
    first, release = here.hold(0), here.release()
    assert first is not None
    assert release.effect.script.name == "lock_pass_locally"
    successor = here.waiter(1).candidate
    assert successor is not None
    assert release.effect.args == (first.holder, successor.holder, 30_000)
    release.answer(1)

    assert release.over
    assert here.woken[-1] == 1
    assert here.go_on(1).result is here.hold(1)
    assert here.waiter(2).front
    assert not here.waiter(2).should_ask, "the lock is known to be taken"
    assert [type(effect).__name__ for effect in here.plays[1].effects].count("Eval") <= 1
    assert here.hold(1).state is HELD  # type: ignore[union-attr]
    assert first.state is ENDED


def test_an_inner_release_hands_nothing_over(bench: Bench, queue: Callable[..., Queue]) -> None:
    """A release that leaves its owner inside tells the server the depth and offers nothing."""
    here = queue(1)
    again = here.play(here.lock.acquire(here.owners[0], bench.now + 10, None))
    assert again.answer(None).result is here.hold(0)
    release = here.release()

    assert release.effect.script.name == "lock_release"
    assert release.effect.args[1] == 1
    assert not here.waiter(1).offered
    assert release.answer(1).over
    assert here.hold(0).depth == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("waiting", [0, 1])
def test_one_answer_completes_a_release(queue: Callable[..., Queue], waiting: int) -> None:
    """A driver needs no generator for a release that passes the lock on, or finds nobody."""
    here = queue(waiting)
    hold = here.hold(0)
    assert hold is not None
    step = PassLocally(here.lock, hold)
    assert step.begin() is not None
    assert step.done(1)
    assert step.over()


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_ctrl_c_after_the_release_is_raised(queue: Callable[..., Queue], waiting: int) -> None:
    """A Ctrl-C may strike when the lock is released already: it is raised, and nothing is sent."""
    here = queue(waiting)
    hold = here.hold(0)
    assert hold is not None
    step = PassLocally(here.lock, hold)
    assert step.begin() is not None
    assert step.done(1)
    with pytest.raises(KeyboardInterrupt):
        next(step.rest(KeyboardInterrupt()))
    assert step.over()


def test_validity_counts_from_when_it_was_sent(queue: Callable[..., Queue]) -> None:
    """The waiter's lease begins, for all that is known here, when the release was sent."""
    here = queue(1)
    sent_at, release = here.bench.now, here.release()
    here.bench.now += 5.0
    release.answer(1)

    assert here.hold(1).valid_until < sent_at + 30.0  # type: ignore[union-attr]


def test_an_answer_that_is_too_late_makes_the_waiter_ask(queue: Callable[..., Queue]) -> None:
    """A waiter that is handed a lock whose lease is already over asks the server."""
    here = queue(1)
    release = here.release()
    here.bench.now += 31.0
    here.plays[1].effect.until = here.bench.now + 10.0
    release.answer(1)

    assert here.hold(1) is None


def test_who_has_left_is_not_made_the_holder(queue: Callable[..., Queue]) -> None:
    """If a waiter gives up while the lock is passed to it, both sides give the lock back."""
    here = queue(1)
    release = here.release()
    successor, number = here.waiter(1).candidate, here.owners[1].number
    assert successor is not None
    leaving = here.plays[1].answer(KeyboardInterrupt())
    assert leaving.effect.script.name == "lock_release"
    assert leaving.effect.args[:2] == (successor.holder, 0)
    assert here.owners[1].number != number, "what may come late meets no later hold"
    release.answer(1)

    assert release.effect.script.name == "lock_release"
    assert release.effect.args[:2] == (successor.holder, 0)
    assert successor.state is ENDED


def told(release: Play, reply: object) -> Play:
    """Return *release*, whose driver has read *reply* and tells of it first."""
    assert isinstance(release.effect, Eval)
    assert release.effect.then is not None
    release.effect.then(reply)
    return release


def test_the_next_waiter_goes_on_before_the_releaser(queue: Callable[..., Queue]) -> None:
    """If the driver tells of the reply first, the waiter is the holder from then on.

    It does not matter what the releaser does next, or what happens to it.
    """
    here = queue(3)
    release = told(here.release(), 1)
    assert here.woken == [1]
    assert here.go_on(1).result is here.hold(1)
    assert told(here.release(1), 1).answer(1).over
    assert here.woken[-1] == 2
    woken = list(here.woken)

    assert release.answer(KeyboardInterrupt()).effect.script.name == "lock_release"
    with pytest.raises(KeyboardInterrupt):
        release.answer(None)
    assert here.woken == woken, "nobody is told twice"
    assert here.go_on(2).result is here.hold(2)


@pytest.mark.parametrize("reply", [None, ServerUnavailableError("gone", sent=True)])
def test_only_a_clear_answer_counts_at_once(queue: Callable[..., Queue], reply: object) -> None:
    """What is no grant makes nobody the holder; that is left to the operation."""
    here = queue(1)
    release = told(here.release(), reply)
    assert here.woken == []
    assert here.hold(1) is None
    release.answer(1)
    assert here.hold(1) is not None


def test_who_had_left_before_it_was_told_is_cleaned_up_behind(queue: Callable[..., Queue]) -> None:
    """If the waiter left before it was told, the releaser gives back what the waiter was given.

    The same happens where the driver does not tell of the reply first.
    """
    here = queue(1)
    release = here.release()
    successor = here.waiter(1).candidate
    assert successor is not None
    here.plays[1].answer(KeyboardInterrupt())
    told(release, 1).answer(1)
    assert here.hold(1) is None
    assert release.effect.script.name == "lock_release"
    assert release.effect.args[:2] == (successor.holder, 0)


def test_who_is_being_handed_it_does_not_ask(queue: Callable[..., Queue]) -> None:
    """A waiter whose time to look has come keeps still while the lock is passed to it."""
    here = queue(1)
    release = here.release()
    here.bench.now += 0.12
    here.plays[1].answer(None)
    assert isinstance(here.plays[1].effect, Wait)
    release.answer(1)

    assert here.go_on(1).result is here.hold(1)


def test_an_offer_that_is_late_is_not_waited_for(queue: Callable[..., Queue]) -> None:
    """A waiter that does not hear the outcome asks, and becomes the holder by that.

    The outcome of the offer then changes nothing.
    """
    here = queue(1)
    release = here.release()
    here.bench.now += LONGEST_OFFER
    asking = here.plays[1].answer(None)
    assert asking.effect.script.name == "lock_acquire"
    asking.answer(None)
    assert asking.over
    assert asking.result is here.hold(1)
    release.answer(1)

    assert release.over
    assert here.hold(1).state is HELD  # type: ignore[union-attr]


def test_who_asks_is_not_handed_it(queue: Callable[..., Queue]) -> None:
    """A lock is freed for all while the next waiter is asking for it."""
    here = queue(1)
    here.bench.now += 3.0
    here.plays[1].answer(None)
    assert here.plays[1].effect.script.name == "lock_acquire"

    assert here.release().effect.script.name == "lock_release"


def test_a_holder_that_lost_it_hands_nothing_over(queue: Callable[..., Queue]) -> None:
    """When the server knows another holder, the waiter has to ask."""
    here = queue(1)
    release = here.release()
    release.answer(None)
    assert release.effect.script.name == "forced_note_read", "it asks why"
    with pytest.raises(Exception, match="was lost"):
        release.answer(None)

    assert here.go_on(1).effect.script.name == "lock_acquire"


def test_an_unknown_end_makes_the_waiter_ask(queue: Callable[..., Queue]) -> None:
    """If the outcome cannot be learned, the waiter asks.

    When it gives up, it still releases what it may be given late.
    """
    here = queue(1)
    release = here.release()
    successor = here.waiter(1).candidate
    assert successor is not None
    release.answer(ServerUnavailableError("gone", sent=True))
    assert isinstance(release.effect, Cleanup), "the release goes on in the background"
    with pytest.raises(ServerUnavailableError):
        release.answer(None)
    assert here.go_on(1).effect.script.name == "lock_acquire"
    here.plays[1].answer(TAKEN)
    here.bench.now += 10.0

    here.plays[1].answer(None).answer(TAKEN)
    assert here.plays[1].effect.args[:2] == (successor.holder, 0)


def test_everybody_here_has_one_turn(queue: Callable[..., Queue]) -> None:
    """After one turn of each who waits here, the lock is freed for all."""
    here = queue(3)
    number = 0
    for _ in range(3):
        release = here.release(number)
        assert release.effect.script.name == "lock_pass_locally"
        release.answer(1)
        number += 1
        here.go_on(number)
        here.come(Owner("one more"))

    assert here.release(number).effect.script.name == "lock_release"


def test_turns_take_a_bounded_time(queue: Callable[..., Queue]) -> None:
    """After `LONGEST_RUN` the lock is freed for all, however many wait here."""
    here = queue(3)
    here.release(0).answer(1)
    here.go_on(1)
    here.bench.now += 2 * LONGEST_RUN

    assert here.release(1).effect.script.name == "lock_release"


@pytest.mark.parametrize("why", ["another kind", "replicas", "silence"])
def test_some_are_never_passed_on(
    why: str, make_bench: Callable[..., Bench], play: type[Play]
) -> None:
    """A release frees the lock for all where nothing may be passed on.

    The cases: each hold draws a token, replicas must have the grant, or nobody hears of a release.
    """
    bench = make_bench(replicas=required(1)) if why == "replicas" else make_bench()
    if why == "silence":
        bench.session.announce_by("")
    kind = FencedLock if why == "another kind" else Lock
    lock = kind(bench.session, "x")
    first, second = Owner("thread 1"), Owner("thread 2")
    held = play(lock.acquire(first, bench.now + 10, None))
    held.answer([1, 1, b"counter"] if kind is FencedLock else None)
    waits = play(lock.acquire(second, bench.now + 10, None))
    waits.answer([0, TAKEN] if kind is FencedLock else TAKEN)
    waits.answer(bench.waiters.join(lock.channel, lambda: None))

    freeing = "fenced_lock_release" if kind is FencedLock else "lock_release"
    assert play(lock.release(first)).effect.script.name == freeing


def freed(here: Queue, reply: int) -> Play:
    """Return waiter 1 after a release, while it asked, that was answered by *reply*."""
    here.bench.now += 3.0
    here.plays[1].answer(None)
    release = here.release()
    assert release.effect.script.name == "lock_release"
    here.plays[1].answer(TAKEN)
    release.answer(reply)
    return here.plays[1].answer(None)


def test_what_is_given_to_this_client_is_asked_for_at_once(queue: Callable[..., Queue]) -> None:
    """The front waiter asks without a message if the server gave its client the lock."""
    asking = freed(queue(1), 2)
    assert asking.effect.script.name == "lock_acquire"


def test_what_is_given_to_others_is_looked_at_soon(
    bench: Bench, queue: Callable[..., Queue]
) -> None:
    """When others get the lock, the front waiter looks once after `COURTESY`."""
    waiting = freed(queue(1), 1)
    assert isinstance(waiting.effect, Wait)
    assert waiting.effect.until == pytest.approx(bench.now + COURTESY)


def test_a_message_is_not_lost_with_its_release(bench: Bench, queue: Callable[..., Queue]) -> None:
    """The message of a release without an answer makes the front waiter ask."""
    here = queue(1)
    bench.now += 3.0
    here.plays[1].answer(None)
    release = here.release()
    here.plays[1].answer(TAKEN)
    bench.waiters.notify(CHANNEL, b"0")

    assert not release.over
    assert here.plays[1].answer(None).effect.script.name == "lock_acquire"


def test_the_last_who_waits_takes_the_client_out_of_the_queue(
    bench: Bench, queue: Callable[..., Queue]
) -> None:
    """Only a pass to the last waiter here gives up the client's place."""
    here = queue(2)
    place = bench.waiters.places[CHANNEL]
    place.taken = True
    release = here.release(0)
    assert len(release.effect.args) == 3
    release.answer(1)
    here.go_on(1)
    assert place.taken
    release = here.release(1)

    assert release.effect.args[3:] == (bench.session.client_id,)
    assert release.effect.keys[1:] == ("interlock_queue:{x}",)
    assert not place.taken


def test_who_gives_up_last_leaves_the_servers_queue(
    bench: Bench, queue: Callable[..., Queue]
) -> None:
    """Only the last waiter that gives up gives up the client's place, and passes on its claim."""
    here = queue(2)
    bench.waiters.places[CHANNEL].taken = True
    first = here.waiter(1)
    bench.now += 10.0
    assert here.plays[1].answer(None).answer(TAKEN).over
    bench.waiters.leave(first)
    leaving = here.plays[2].answer(None).answer(TAKEN)

    assert leaving.effect.script.name == "lock_release"
    client = bench.session.client_id
    assert leaving.effect.args == (f"{client}:0", 0, CHANNEL, client)
    assert leaving.answer(None).over


def test_a_pass_needs_no_place(bench: Bench, queue: Callable[..., Queue]) -> None:
    """A client without a place hands a lock over to its own waiters, too."""
    here = queue(2)
    bench.waiters.refused()
    assert not bench.waiters.places

    assert here.release(0).effect.script.name == "lock_pass_locally"
