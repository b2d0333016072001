"""The one waiting loop: try, subscribe, try again, wait, and never longer than the poll cap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.model.effects import NEVER, Enqueue, Op, Wait
from interlock._core.queue.waiting import EXPIRY_MARGIN, FIRST_LOOK, wait_for

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play

    from interlock._core.queue.waiter import Waiter

CHANNEL = "c"


class Waiter:
    """Plays a waiting loop; an attempt shows as the word ``"attempt"`` among its effects."""

    def __init__(self, bench: Bench, play: type[Play], timeout: float = 10.0) -> None:
        self._bench = bench
        self.waiter: Waiter | None = None
        self.played = play(
            wait_for(bench.session, CHANNEL, bench.now + timeout, 30.0, self._attempt, "argument")
        )

    def _attempt(self, argument: str) -> Op[float | None]:
        assert argument == "argument"
        left: Any = yield "attempt"  # type: ignore[misc]
        return left

    @property
    def trying(self) -> bool:
        """Whether it asks the server."""
        return self.played.effect == "attempt"

    def left(self, seconds: float | None) -> Waiter:
        """Answer the attempt: None for success, else what is left."""
        assert self.trying
        self.played.answer(seconds)
        return self

    def join(self) -> Waiter:
        """Join the queue."""
        assert self.played.effect == Enqueue(CHANNEL)
        self.waiter = self._bench.waiters.join(CHANNEL, lambda: None)
        self.played.answer(self.waiter)
        return self

    @property
    def until(self) -> float:
        """Until when it waits now, from now."""
        assert isinstance(self.played.effect, Wait)
        assert self.played.effect.waiter is self.waiter
        return float(self.played.effect.until - self._bench.now)

    def after(self, seconds: float = 0.0) -> Waiter:
        """Wake up after *seconds*."""
        assert isinstance(self.played.effect, Wait)
        self._bench.now += seconds
        self.played.answer(None)
        return self


@pytest.fixture
def waiter(bench: Bench, play: type[Play]) -> Waiter:
    """Give a waiter of ten seconds that is just trying."""
    bench.waiters.hearing = True
    return Waiter(bench, play)


def test_success_at_once_waits_for_nothing(waiter: Waiter) -> None:
    """What is free is had with a single attempt."""
    waiter.left(None)

    assert waiter.played.result is True
    assert len(waiter.played.effects) == 1


def test_one_try_does_not_queue(bench: Bench, play: type[Play]) -> None:
    """A deadline that has passed means one attempt, even where others wait."""
    bench.waiters.join(CHANNEL, lambda: None)
    waiter = Waiter(bench, play, timeout=0.0).left(5.0)

    assert waiter.played.result is False


def test_newcomer_queues_behind_those_who_wait(bench: Bench, play: type[Play]) -> None:
    """Who comes while others of this client wait does not overtake them by trying first."""
    bench.waiters.join(CHANNEL, lambda: None)
    waiter = Waiter(bench, play).join()

    assert not waiter.waiter.front  # type: ignore[union-attr]
    assert waiter.until == pytest.approx(10.0)


def test_a_wait_that_ends_lets_those_behind_it_go_on(
    bench: Bench, play: type[Play], waiter: Waiter
) -> None:
    """It leaves its queue, though the operation that waited may go on for long."""
    waiter.left(20.0).join()
    behind = Waiter(bench, play).join()
    bench.waiters.notify(CHANNEL)

    assert waiter.after().left(None).played.result is True
    assert behind.waiter.front  # type: ignore[union-attr]


def test_waiter_looks_again_when_its_subscription_is_confirmed(
    bench: Bench, waiter: Waiter
) -> None:
    """The attempt that follows a confirmed subscription finds an earlier release.

    The release came between the failed attempt and the subscription.
    """
    waiter.left(20.0).join()
    bench.waiters.notify(CHANNEL)

    assert waiter.after().left(None).played.result is True
    assert waiter.waiter.successor_look == 30.0  # type: ignore[union-attr]


def test_waiter_looks_again_without_a_confirmation(waiter: Waiter) -> None:
    """A subscription that is never confirmed keeps nobody from looking."""
    assert waiter.left(20.0).join().until == pytest.approx(FIRST_LOOK)

    assert waiter.after(FIRST_LOOK).trying


def test_waiter_looks_again_when_the_lease_ends(waiter: Waiter) -> None:
    """A holder that dies is found dead just after its lease."""
    waiter.left(20.0).join().after(FIRST_LOOK).left(0.25)

    assert waiter.until == pytest.approx(0.25 + EXPIRY_MARGIN)


@pytest.mark.parametrize("left", [20.0, NEVER])
def test_waiter_looks_again_at_its_poll_cap(bench: Bench, waiter: Waiter, left: float) -> None:
    """With every message lost a waiter looks once in a poll cap, even at what never ends."""
    waiter.left(left).join().after(FIRST_LOOK).left(left)

    assert waiter.until == pytest.approx(bench.session.poll_interval())
    assert waiter.until <= bench.session.options.poll_cap


def test_wake_up_without_a_message_is_no_reason_to_ask(waiter: Waiter) -> None:
    """A waiter that wakes up early without a message asks nothing."""
    waiter.left(20.0).join().after(FIRST_LOOK).left(20.0).after(0.01)

    assert not waiter.trying


def test_deadline_ends_the_wait(bench: Bench, play: type[Play]) -> None:
    """A wait ends at its deadline, with an answer and without another attempt."""
    waiter = Waiter(bench, play, timeout=0.05).left(20.0).join()
    assert waiter.until == pytest.approx(0.05)

    assert waiter.after(0.05).played.result is False


def test_time_that_an_attempt_took_counts(bench: Bench, waiter: Waiter) -> None:
    """An attempt that outlasts the deadline is the last thing that is done."""
    bench.now += 11.0

    assert waiter.left(20.0).played.result is False


def test_heir_of_a_holder_waits_out_what_it_inherited(bench: Bench, play: type[Play]) -> None:
    """Who follows one that left as the holder asks only when that may have ended."""
    bench.waiters.hearing = True
    first = bench.waiters.join(CHANNEL, lambda: None)
    waiter = Waiter(bench, play).join()
    first.successor_look = 0.5
    bench.waiters.leave(first)
    waiter.after()

    assert waiter.until == pytest.approx(0.5)
    assert waiter.waiter.next_look is None  # type: ignore[union-attr]
    assert waiter.after(0.5).trying
