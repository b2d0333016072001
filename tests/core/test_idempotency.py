"""A call with an idempotency key that is carried through, wherever it is interrupted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.model.effects import NEVER, Cleanup, Enqueue, Eval, Wait
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.semaphore import Semaphore
from interlock._core.upkeep.idempotency import IdempotentCalls
from interlock.errors import AcquireTimeoutError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.bench import Bench, Play

    from interlock._core.model.effects import Step
    from interlock._core.upkeep.idempotency import IdempotentCall


def test_a_release_that_is_struck_before_it_begins_is_sent(bench: Bench, play: type[Play]) -> None:
    """A Ctrl-C between the caller and the first command loses no permit."""
    step = Semaphore(bench.session, "s").release(2)
    played = play(step.rest(KeyboardInterrupt()))
    assert isinstance(played.effect, Eval)
    assert played.effect.script.name == "semaphore_release"
    with pytest.raises(KeyboardInterrupt):
        played.answer(1)
    assert step.over()


def test_a_release_without_an_answer_goes_on_in_the_background(
    bench: Bench, play: type[Play]
) -> None:
    """Each copy of it has the same key, so that it is executed once."""
    played = play(Semaphore(bench.session, "s").release(1))
    sent = played.effect
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(played.effect, Wait)
    played.answer(None)
    assert played.effect is sent
    played.answer(ServerUnavailableError("no answer", sent=True))
    assert isinstance(played.effect, Cleanup)
    assert played.effect.call is sent
    with pytest.raises(ServerUnavailableError):
        played.answer(None)


def test_a_release_that_is_struck_between_two_tries_goes_on(bench: Bench, play: type[Play]) -> None:
    """Its first try was not sent, because there was no connection; the next one was to come."""
    played = play(Semaphore(bench.session, "s").release(1))
    sent = played.effect
    played.answer(ServerUnavailableError("no connection", sent=False, transient=True))
    assert isinstance(played.effect, Wait)
    played.answer(KeyboardInterrupt())
    assert isinstance(played.effect, Eval)
    assert played.effect.keys == sent.keys
    with pytest.raises(KeyboardInterrupt):
        played.answer(1)


@pytest.mark.parametrize("error", [WrongTypeError("x"), ServerUnavailableError("x", sent=False)])
def test_a_release_that_was_refused_is_not_repeated(
    bench: Bench, play: type[Play], error: Exception
) -> None:
    """What the server refused, or was never sent, leaves nothing to do."""
    with pytest.raises(type(error)):
        play(Semaphore(bench.session, "s").release(1)).answer(error)


def test_a_release_that_cannot_be_made_is_over(bench: Bench, play: type[Play]) -> None:
    """Nothing was sent, and nothing is left to do."""

    def make(request: IdempotentCall) -> Eval[bool]:
        raise WrongTypeError(request.key)

    step = IdempotentCalls(bench.session, "s").carried_through(make)
    with pytest.raises(WrongTypeError):
        play(step)
    assert step.over()


def test_an_acquire_out_of_time_is_undone_once(bench: Bench, play: type[Play]) -> None:
    """A try whose reply was lost is undone in the background, and then nothing is left to do."""
    step = Semaphore(bench.session, "s").acquire(1, bench.now + 5, 5)
    played = play(step)
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(played.effect, Wait)
    played.answer(None).answer(0).answer([0, 3])  # the first wait asks how many there are
    assert played.effect == Enqueue("redisson_sc:{s}")
    played.answer(bench.waiters.join("redisson_sc:{s}", lambda: None))
    assert isinstance(played.effect, Wait)
    bench.now += 5
    played.answer(None)
    assert isinstance(played.effect, Eval)
    played.answer(0)
    with pytest.raises(AcquireTimeoutError):
        while not played.over:
            played.answer(1)
    left = [each.call.script.name for each in played.effects if isinstance(each, Cleanup)]
    assert left == ["semaphore_undo"]
    assert step.over()


def test_the_latch_of_an_answered_call_is_removed_by_the_next(
    bench: Bench, play: type[Play]
) -> None:
    """The next call removes the latch of an answered call, because nobody sends that one again.

    A call that may still arrive late keeps its latch.
    """
    semaphore = Semaphore(bench.session, "s")
    first = play(semaphore.release(1))
    key = first.effect.keys[1]
    assert first.answer(1).over
    second = play(semaphore.release(1))
    assert key in second.effect.keys
    second.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert second.answer(None).answer(1).over
    assert (
        second.effects[0].keys[1]  # type: ignore[union-attr]
        not in play(semaphore.release(1)).effect.keys
    )


def _begin(bench: Bench, what: str) -> tuple[Callable[[], Step[Any]], Step[Any]]:
    """Return what another caller of the same object does, and the step that is interrupted."""
    if what == "leased add":
        leased = LeasedSemaphore(bench.session, "s")
        return partial(leased.add_permits, 1), leased.add_permits(-3)
    plain = Semaphore(bench.session, "s")
    steps = {
        "acquire": partial(plain.acquire, 3, NEVER),
        "drain": plain.drain_permits,
        "add": partial(plain.add_permits, -3),
    }
    return partial(plain.release, 1), steps[what]()


def _taken(
    bench: Bench, play: type[Play], what: str
) -> tuple[Callable[[], Step[Any]], Step[Any], str]:
    """Return as `_begin`, once the step has taken permits, and the latch of its request."""
    other, step = _begin(bench, what)
    taking = play(step)
    latch = taking.effect.keys[1]
    assert taking.answer(3 if what == "drain" else 1).over
    return other, step, latch


TAKES = pytest.mark.parametrize("what", ["acquire", "drain", "add", "leased add"])


@TAKES
def test_a_call_is_undone_when_another_removed_its_latch(
    bench: Bench, play: type[Play], what: str
) -> None:
    """A Ctrl-C after the answer loses no permit, though another thread removed the latch."""
    other, step, latch = _taken(bench, play, what)
    assert play(other()).effect.keys[2] == latch, "it is removed"

    first = play(step.rest(KeyboardInterrupt()))
    opposite = "semaphore_add" if what == "add" else "semaphore_release"
    assert first.effect.script.name == opposite
    assert first.effect.keys[0] == "s"
    assert first.effect.keys[1] != latch
    assert first.effect.args[0] == 3
    with pytest.raises(SystemExit):
        first.answer(SystemExit()).answer(None)
    again = play(step.rest(KeyboardInterrupt()))
    assert again.effect is first.effects[0], "a second Ctrl-C gives nothing twice"
    with pytest.raises(KeyboardInterrupt):
        again.answer(1)
    assert step.over()


@TAKES
def test_nobody_removes_the_latch_of_a_call_that_is_being_undone(
    bench: Bench, play: type[Play], what: str
) -> None:
    """The undo finds the latch, which no other call is given meanwhile."""
    other, step, latch = _taken(bench, play, what)

    undoing = play(step.rest(KeyboardInterrupt()))
    assert undoing.effect.script.name == "semaphore_undo"
    assert undoing.effect.keys[1] == latch
    assert latch not in play(other()).effect.keys
    with pytest.raises(KeyboardInterrupt):
        undoing.answer(1)
    assert step.over()
