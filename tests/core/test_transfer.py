"""Two threads cross on one hold, played reply by reply: each counts, and no belief is false."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.locks import transfer
from interlock._core.model.holds import State, valid_until
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
    assert hold.state is State.ENDING
    assert hold.enter() is None
    assert hold.depth == 1


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
    assert former.state is State.ENDED
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
    assert (hold.state, hold.depth, len(bench.session.holds)) == (State.ENDED, 0, 0)


def test_a_renewal_that_was_sent_before_a_cut_says_nothing(bench: Bench) -> None:
    """The reply to a renewal does not lengthen a hold that was cut short afterwards."""
    hold, sent_at = bench.held(lease=9.0), bench.now
    bench.now += 0.1
    hold.ask_lease(bench.now, 1.0)
    hold.extend_validity(sent_at, 9.0)
    assert hold.valid_until == valid_until(bench.now, 1.0)
    hold.extend_validity(bench.now, 9.0)
    assert hold.valid_until == valid_until(bench.now, 9.0)


def test_an_interrupted_hand_over_is_believed_for_the_ticket_only(
    bench: Bench, play: type[Play]
) -> None:
    """After an interrupted hand-over, the hold is believed for the ticket's lease."""
    hold = bench.held()
    giving = play(transfer.hand_over(hold, 1.0))
    with pytest.raises(KeyboardInterrupt):
        giving.answer(KeyboardInterrupt()).answer(None)
    assert hold.state is State.HELD
    assert hold.valid_until == valid_until(bench.now, 1.0)
    assert hold.renewal is not None


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
    assert (hold.state, len(bench.session.holds)) == (State.ENDED, 0)
    assert bench.session.holder(bench.owner) != hold.holder
