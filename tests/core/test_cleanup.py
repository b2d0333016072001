"""A call in the cleanup queue is sent until it is answered, or of no more use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.model.effects import NEVER, Batch, Cleanup, Eval, Script
from interlock._core.upkeep.cleanup import FIRST_CLEANUP_PAUSE, LONGEST_CLEANUP_PAUSE, CleanupQueue
from interlock.errors import ClosedError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play

SCRIPT: Script[bool] = Script("script", "return ARGV[1]", lambda reply: reply == 1)
UNAVAILABLE = ServerUnavailableError("no answer")


class Background:
    """Runs what is due and answers it."""

    def __init__(self, bench: Bench, play: type[Play]) -> None:
        self.bench, self._play = bench, play
        self.cleanups = CleanupQueue()

    def add(self, key: str = "x", *, seconds: float = 60.0, late: int = 0) -> None:
        """Leave something to the background."""
        call = Eval(SCRIPT, (key,), ())
        self.cleanups.add(Cleanup(call, self.bench.now + seconds, late), self.bench.now)

    def run(self, *replies: object) -> list[str]:
        """Run what is due, answering *replies*; return the keys that were asked about."""
        due = self.cleanups.take_due(self.bench.now)
        played = self._play(self.cleanups.carry(due, lambda: self.bench.now))
        if played.over:
            return []
        assert isinstance(played.effect, Batch)
        keys = [call.keys[0] for call in played.effect.evals]
        assert played.answer(list(replies)).over
        return keys

    @property
    def pause(self) -> float:
        """Seconds until something is due."""
        return self.cleanups.next_due() - self.bench.now


@pytest.fixture
def background(bench: Bench, play: type[Play]) -> Background:
    """Give a background without anything to do."""
    return Background(bench, play)


def test_nothing_is_due_when_all_is_settled(background: Background) -> None:
    """Without anything to bring to the server, nothing is sent."""
    assert background.run() == []
    assert background.cleanups.next_due() == NEVER
    assert len(background.cleanups) == 0


def test_everything_due_shares_a_round_trip(background: Background) -> None:
    """Calls left to the background are sent at once and together, and answers settle them."""
    background.add("a")
    background.add("b")
    assert background.pause == 0
    assert [call.keys for call in background.cleanups.calls()] == [("a",), ("b",)]

    assert background.run(1, None) == ["a", "b"]
    assert len(background.cleanups) == 0


def test_no_answer_is_tried_again_ever_less_often(background: Background) -> None:
    """A server that does not answer is asked again, at growing intervals up to a longest one."""
    background.add()
    pauses: list[float] = []
    for _ in range(6):
        background.run(UNAVAILABLE)
        pauses.append(background.pause)
        assert background.run() == []
        background.bench.now += background.pause

    assert pauses == pytest.approx(
        [min(FIRST_CLEANUP_PAUSE * 2**n, LONGEST_CLEANUP_PAUSE) for n in range(6)]
    )


@pytest.mark.parametrize(("late", "again"), [(1, 1), (0, 0)])
def test_nothing_found_may_be_too_early(background: Background, late: int, again: int) -> None:
    """An undo that found nothing is repeated only if what it undoes may still arrive."""
    background.add(late=late)
    background.run(None)

    assert len(background.cleanups) == again


def test_as_much_is_to_be_found_as_may_arrive(background: Background) -> None:
    """An undo is repeated until it has found as many grants as may still arrive.

    A call that was sent several times may be executed several times.
    """
    background.add(late=2)
    for reply in (1, None, UNAVAILABLE):
        background.run(reply)
        assert len(background.cleanups) == 1
        background.bench.now += background.pause
    background.run(1)

    assert len(background.cleanups) == 0


def test_pauses_of_what_may_still_arrive_grow_without_end(background: Background) -> None:
    """An undo that finds nothing is sent ever more rarely, so a long lease costs a few tries."""
    background.add(late=1)
    for _ in range(8):
        background.run(None)
        background.bench.now += background.pause

    background.run(None)
    assert background.pause > LONGEST_CLEANUP_PAUSE * 10


def test_repeats_end_with_the_use_in_them(background: Background) -> None:
    """A call that cannot matter any more is given up."""
    background.add(seconds=1.0, late=1)
    background.bench.now += 1.0
    background.run(None)

    assert len(background.cleanups) == 0


def test_nothing_is_sent_when_there_is_no_use_in_it_any_more(background: Background) -> None:
    """The last try is when the use ends at the latest, however long the pause would have been."""
    background.add(seconds=1.0)
    end = background.bench.now + 1.0
    tries: list[float] = []
    while len(background.cleanups):
        background.bench.now += background.pause
        tries.append(background.bench.now)
        background.run(UNAVAILABLE)

    assert len(tries) > 3
    assert tries[-1] == end


def test_what_closing_interrupts_is_left_to_it(background: Background) -> None:
    """A call that was under way when the client closed is not settled: closing sends it."""
    background.add()
    background.run(ClosedError("the client is closed"))

    assert [call.keys for call in background.cleanups.calls()] == [("x",)]


def test_refusal_is_an_answer(background: Background) -> None:
    """A key that is something else's by now is left alone."""
    background.add(late=2)
    background.run(WrongTypeError("x"))

    assert len(background.cleanups) == 0


def test_two_threads_that_settle_one_call(
    background: Background, bench: Bench, play: type[Play]
) -> None:
    """If a key moves to another node, the threads of both nodes may send the call."""
    background.add("a")
    former = background.cleanups.take_due(bench.now)
    carrying = play(background.cleanups.carry(former, lambda: bench.now))
    bench.now += FIRST_CLEANUP_PAUSE
    background.add("b")
    assert background.run(1, UNAVAILABLE) == ["a", "b"]
    assert carrying.answer([1]).over
    assert [call.keys for call in background.cleanups.calls()] == [("b",)]
