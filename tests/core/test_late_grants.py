"""However a hold ends, the late grants of its unanswered tries are released.

They are released under their own field, which no later hold of the owner has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.model.effects import NEVER, Cleanup, Eval, Wait
from interlock._core.model.holds import Permit
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock.errors import HoldLostError, ReplicationError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.bench import Bench, Play

    from interlock._core.model.holds import Hold

LOST = ServerUnavailableError("no answer", sent=True)


@pytest.fixture
def hold(bench: Bench) -> Hold:
    """Give a hold of which a first try is still under way."""
    hold = bench.held()
    hold.unanswered = 1
    return hold


def settled(play: Play) -> list[tuple[object, int]]:
    """Return each holder that the background is to release, and how often it may be found."""
    return [
        (effect.call.args[0], effect.late) for effect in play.effects if isinstance(effect, Cleanup)
    ]


def watch_the_end(bench: Bench, hold: Hold) -> list[bool]:
    """Return a list that gets an entry each time that *hold* leaves the table.

    The entry tells whether its owner had another number by then.
    """
    seen: list[bool] = []
    end = bench.session.holds.end

    def ending(ended: Hold) -> None:
        if ended in bench.session.holds:
            seen.append(bench.session.holder(bench.owner) != hold.holder)
        end(ended)

    released = bench.session.holds.released

    def releasing(ended: Hold) -> None:
        ending(ended)
        released(ended)

    bench.session.holds.end = ending  # type: ignore[method-assign]
    bench.session.holds.released = releasing  # type: ignore[method-assign]
    return seen


def _release(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    return play(hold.release()).answer(1).answer(None)


def _release_of_nothing(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    played = play(hold.release()).answer(None).answer(None)
    assert played.effect.script.name == "forced_note_read", "it asks why"
    with pytest.raises(HoldLostError):
        played.answer(None)
    return played


def _inner_release_of_nothing(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    hold.depth = 2
    return _release_of_nothing(bench, hold, play)


def _extension_of_nothing(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    played = play(bench.lock.extend(bench.owner, 60.0)).answer([0]).answer(None)
    with pytest.raises(HoldLostError):
        played.answer(None)
    return played


def _release_of_what_was_removed(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    bench.session.lose(hold, "force-released")
    played = play(hold.release())
    with pytest.raises(HoldLostError):
        played.answer(None)
    return played


def _late_release(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    bench.now += 60.0
    played = play(hold.release())
    with pytest.raises(HoldLostError):
        played.answer(None)
    return played


def _interrupted_release(bench: Bench, hold: Hold, play: type[Play]) -> Play:
    played = play(hold.release()).answer(KeyboardInterrupt()).answer(1)
    with pytest.raises(KeyboardInterrupt):
        played.answer(None)
    return played


@pytest.mark.parametrize(
    ("end", "late"),
    [
        (_release, 1),
        (_release_of_nothing, 1),
        (_inner_release_of_nothing, 1),
        (_extension_of_nothing, 1),
        (_release_of_what_was_removed, 1),
        (_late_release, 2),
        (_interrupted_release, 1),
    ],
)
def test_strays_are_outlived(
    bench: Bench,
    play: type[Play],
    hold: Hold,
    end: Callable[[Bench, Hold, type[Play]], Play],
    late: int,
) -> None:
    """However a hold ends, it leaves to the background what may still be found.

    Its owner has another number before the hold leaves the table.
    """
    told = watch_the_end(bench, hold)
    assert settled(end(bench, hold, play)) == [(hold.holder, late)]
    assert told == [True]


def test_a_release_without_an_answer_outlives_them_too(
    bench: Bench, play: type[Play], hold: Hold
) -> None:
    """One task for the background is enough: what the release is to find, and each stray."""
    played = play(hold.release()).answer(LOST)
    with pytest.raises(ServerUnavailableError):
        played.answer(None)
    assert settled(played) == [(hold.holder, 2)]


@pytest.mark.parametrize(
    ("error", "offered", "late"),
    [
        (KeyboardInterrupt(), False, 2),
        (KeyboardInterrupt(), True, 3),
        (ReplicationError("too few"), False, 2),
        (LOST, False, 2),
    ],
)
def test_what_may_take_it_yet_is_counted(
    bench: Bench, play: type[Play], error: BaseException, offered: bool, late: int
) -> None:
    """An acquire that ends by *error* counts each command that may still take the lock.

    They are the first try, the second one, and an offer by a releaser.
    """
    played = bench.acquire(timeout=0.1)
    hold = next(iter(bench.session.holds))
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(played.answer(None).effect, Eval)
    hold.offered = offered
    played.answer(error)
    if isinstance(played.effect, Eval):
        played.answer(None)  # the undo found nothing
    assert settled(played) == [(hold.holder, late)]


def test_another_field_owes_nothing_of_the_former_one(bench: Bench, play: type[Play]) -> None:
    """If it is in doubt whether a late grant was given back, the next try has another field.

    The late grants of the former field are left to the background.
    """
    played = bench.acquire(timeout=200.0)
    hold = next(iter(bench.session.holds))
    former = hold.holder
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True)).answer(None)
    bench.now += 31.0
    played.answer(None)  # granted, but too late
    assert played.effect.script.name == "lock_release"
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(played.effect, Wait)
    played.answer(None).answer(1).answer(None)
    assert settled(played) == [(former, 1)]
    assert hold.holder != former
    assert hold.unanswered == 0


def test_permits_that_were_given_back_in_doubt_have_other_ids(
    bench: Bench, play: type[Play]
) -> None:
    """A release that may still be executed does not meet what is granted next."""
    semaphore = LeasedSemaphore(bench.session, "s")
    played = play(semaphore.acquire(bench.owner, 2, NEVER, 5.0, lambda made, _: made))
    permit = next(iter(bench.session.holds))
    assert isinstance(permit, Permit)
    former = permit.ids
    bench.now += 6.0
    played.answer(None)  # granted, but too late
    played.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    played.answer(None).answer(1)
    assert len(permit.ids) == 2
    assert not set(permit.ids) & set(former)
    assert permit.holder == "".join(permit.ids)
