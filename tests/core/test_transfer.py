"""Two threads cross on one hold, played reply by reply: each counts, and no belief is false."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.locks import transfer
from interlock._core.locks.lock import Lock
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import ENDED, ENDING, HELD, valid_until
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play

    from interlock._core.model.holds import Hold


def test_a_released_hold_is_not_entered(bench: Bench) -> None:
    """An entry counts only while the hold is held."""
    hold = bench.held()
    assert hold.enter() == 2
    for _ in range(2):
        hold.begin_release()
    assert hold.state is ENDING
    assert hold.enter() is None
    assert hold.depth == 1


@pytest.fixture
def drawn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a new number when a hold is made, as another thread of its owner does that gives up."""
    reserve = bench.session.holds.reserve

    def after_another(hold: Hold, former: Hold | None = None) -> Hold:
        bench.owner.renumber()
        return reserve(hold, former)

    monkeypatch.setattr(bench.session.holds, "reserve", after_another)


@pytest.mark.usefixtures("drawn")
def test_a_number_that_was_just_given_up(bench: Bench, play: type[Play]) -> None:
    """A late command of the thread that gave it up must not hit the hold that is made now."""
    acquire = bench.acquire()
    assert acquire.effect.args[1] == f"c0ffee:{bench.owner.number}"
    hold = acquire.answer(None).result
    assert hold.holder == f"c0ffee:{bench.owner.number}"
    assert not hold.late_grants()
    assert play(hold.release()).answer(1).over

    adoption = play(transfer.adopt(bench.lock, bench.owner, "another", None, None))
    assert adoption.effect.args[1] == f"c0ffee:{bench.owner.number}"


@pytest.mark.usefixtures("drawn")
def test_a_number_that_was_just_given_up_by_several(bench: Bench, play: type[Play]) -> None:
    """Locks that one script would take are taken one by one then."""
    lock = MultiLock([bench.lock, Lock(bench.session, "y")])
    acquire = play(lock.acquire(bench.owner, NEVER, None))
    alone = play(acquire.effect.op)
    assert alone.effect.args[1] == f"c0ffee:{bench.owner.number}"


def test_a_release_between_the_look_and_the_entry(
    bench: Bench, play: type[Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another thread releases just before a re-entry counts, the acquire takes the lock anew."""
    former, look = bench.held(), bench.lock.is_live

    def release_after_the_look(found: Hold) -> bool:
        alive = look(found)
        if alive:
            play(found.release()).answer(1)
        return alive

    monkeypatch.setattr(bench.lock, "is_live", release_after_the_look)
    hold = bench.acquire().answer(None).result
    assert former.state is ENDED
    assert hold is not former
    assert hold in bench.session.holds
    assert hold.depth == 1


def test_the_undo_of_an_entry_that_is_the_last_one(bench: Bench, play: type[Play]) -> None:
    """If another thread has released the other entries, the undo of an entry ends the hold."""
    hold = bench.held()
    entering = bench.acquire()
    play(hold.release()).answer(1)
    undoing = entering.answer(KeyboardInterrupt())
    assert undoing.effect.args[-1] == 0 or 0 in undoing.effect.args
    assert not hold.valid(bench.now)
    with pytest.raises(KeyboardInterrupt):
        undoing.answer(1)
    assert (hold.state, hold.depth, len(bench.session.holds)) == (ENDED, 0, 0)


def test_an_interrupted_hand_over_is_believed_for_the_ticket_only(
    bench: Bench, play: type[Play]
) -> None:
    """After an interrupted hand-over, the hold is believed for the ticket's lease."""
    hold = bench.held()
    giving = play(transfer.hand_over(hold, 1.0))
    with pytest.raises(KeyboardInterrupt):
        giving.answer(KeyboardInterrupt()).answer(None)
    assert hold.state is HELD
    assert hold.valid_until == valid_until(bench.now, 1.0)
    assert hold.renewal is not None


def test_the_way_back_of_a_hand_over_cuts_no_extended_lease(bench: Bench, play: type[Play]) -> None:
    """A hold that was extended beyond its own lease is believed for that long on the way back."""
    hold = bench.held(lease=1.0)
    hold.extend_validity(bench.now, 9.0)
    back = play(transfer.hand_over(hold, 20.0)).answer(KeyboardInterrupt())
    assert back.effect.script.name == "lock_give"
    assert valid_until(bench.now, back.effect.args[2] / 1000) >= hold.valid_until - 0.001
    with pytest.raises(KeyboardInterrupt):
        back.answer(1)
    assert hold.valid(bench.now + 8)


def test_a_hand_over_does_not_come_back_beside_a_new_hold(bench: Bench, play: type[Play]) -> None:
    """If its owner holds the lock anew, an interrupted hand-over releases the former hold."""
    former = bench.held()
    giving = play(transfer.hand_over(former, 1.0))
    new = bench.held()
    taking_back = giving.answer(KeyboardInterrupt())
    assert taking_back.effect.script.name == "lock_give"
    releasing = taking_back.answer(1)
    assert releasing.effect.script.name == "lock_release"
    with pytest.raises(KeyboardInterrupt):
        releasing.answer(1)
    assert not former.valid(bench.now)
    assert bench.session.holds.get(bench.lock.hold_key, bench.owner) is new


def test_a_failed_adoption_does_not_give_a_later_one_away(bench: Bench, play: type[Play]) -> None:
    """The lock that a failed adoption gives back is not that of the next adoption."""
    adopting = play(iter(transfer.adopt(bench.lock, bench.owner, "ticket:1", None, None)))
    first = bench.session.holder(bench.owner)
    assert first in adopting.effect.args
    giving_back = adopting.answer(ServerUnavailableError("silence", sent=True))
    with pytest.raises(ServerUnavailableError):
        giving_back.answer(None)
    again = play(iter(transfer.adopt(bench.lock, bench.owner, "ticket:1", None, None)))
    assert first not in again.effect.args
    again.abandon()


def test_an_adoption_that_comes_after_its_way_back_does_nothing(
    bench: Bench, play: type[Play]
) -> None:
    """The way back of an interrupted adoption remembers the call, so a late copy finds that."""
    adopting = play(iter(transfer.adopt(bench.lock, bench.owner, "ticket:1", None, None)))
    taking = adopting.effect
    giving_back = adopting.answer(KeyboardInterrupt())
    back = giving_back.effect
    assert (back.script.name, back.keys) == (taking.script.name, taking.keys)
    assert back.args[:2] == taking.args[1::-1]
    assert (taking.args[3], back.args[3]) == (0, 1)
    with pytest.raises(KeyboardInterrupt):
        giving_back.answer(None)


def test_a_lock_is_left_locked_in_spite_of_an_interruption(bench: Bench, play: type[Play]) -> None:
    """The script is sent again after a Ctrl-C; the hold has ended, and its owner has another id."""
    hold = bench.held()
    leaving = play(transfer.leave_locked(hold, 1.0))
    sent = leaving.effect.args
    again = leaving.answer(KeyboardInterrupt())
    assert again.effect.args == sent
    with pytest.raises(KeyboardInterrupt):
        again.answer(1)
    assert (hold.state, len(bench.session.holds)) == (ENDED, 0)
    assert bench.session.holder(bench.owner) != hold.holder
