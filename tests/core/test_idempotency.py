"""A call with an idempotency key that is carried through, wherever it is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.effects import Cleanup, Eval, Wait
from interlock._core.semaphore import Semaphore
from interlock.errors import ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play


def test_a_release_that_is_struck_before_it_begins_is_sent(bench: Bench, play: type[Play]) -> None:
    """A Ctrl-C between the caller and the first command loses no permit."""
    step = Semaphore(bench.session, "s").release(2)
    played = play(step.rest(KeyboardInterrupt()))
    assert isinstance(played.effect, Eval)
    assert played.effect.script.name == "semaphore_release"
    with pytest.raises(KeyboardInterrupt):
        played.answer(1)
    assert not step.over()


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


@pytest.mark.parametrize("error", [WrongTypeError("x"), ServerUnavailableError("x", sent=False)])
def test_a_release_that_was_refused_is_not_repeated(
    bench: Bench, play: type[Play], error: Exception
) -> None:
    """What the server refused, or was never sent, leaves nothing to do."""
    with pytest.raises(type(error)):
        play(Semaphore(bench.session, "s").release(1)).answer(error)


def test_the_latch_of_an_answered_call_is_removed_by_the_next(
    bench: Bench, play: type[Play]
) -> None:
    """Nobody sends an answered call again, so its key is not needed; one that may arrive late keeps it."""
    semaphore = Semaphore(bench.session, "s")
    first = play(semaphore.release(1))
    key = first.effect.keys[1]
    assert first.answer(1).over
    second = play(semaphore.release(1))
    assert key in second.effect.keys
    second.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert second.answer(None).answer(1).over
    assert second.effects[0].keys[1] not in play(semaphore.release(1)).effect.keys  # type: ignore[union-attr]
