"""The end of a hold: carried through whatever happens, and never mistaken for what it was not."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from interlock._core.locks import lock_base
from interlock._core.model.effects import Cleanup, Eval, Wait
from interlock._core.model.holds import (
    ENDED,
    ENDING,
    HELD,
    LOST,
    PENDING,
    Hold,
    Owner,
    valid_until,
)
from interlock._core.upkeep.session import GRACE
from interlock.errors import HoldLostError, NotHeldError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play


def unavailable(*, sent: bool = True, transient: bool = False) -> ServerUnavailableError:
    """Return what a driver raises for a server that does not answer."""
    return ServerUnavailableError("no answer", sent=sent, transient=transient)


def depth_told(effect: object) -> object:
    """Return the depth that a release script tells."""
    call = effect.call if isinstance(effect, Cleanup) else effect
    assert isinstance(call, Eval)
    assert call.script.name == "lock_release"
    return call.args[1]


class TestRelease:
    """Going down by one."""

    @pytest.fixture
    def hold(self, bench: Bench) -> Hold:
        """Give a renewed hold of depth 1."""
        return bench.held()

    def test_last_release_frees(self, bench: Bench, play: type[Play], hold: Hold) -> None:
        """A hold of depth 1 ends: not renewed from the sending on, forgotten with the answer."""
        played = play(hold.release())
        assert hold.state is ENDING
        assert depth_told(played.effect) == 0
        played.answer(1)

        assert (hold.state, hold.depth) == (ENDED, 0)
        assert hold not in bench.session.holds

    def test_a_release_that_is_given_up_is_over(self, bench: Bench, hold: Hold) -> None:
        """A driver does not go on with a release that failed: the background releases the hold."""
        step = hold.release()
        assert step.begin() is not None
        bench.now += bench.session.options.lease * 0.9
        rest = step.rest(unavailable())
        effect = next(rest)
        with pytest.raises(ServerUnavailableError, match="not renewed any more"):
            while True:
                assert not step.over()
                bench.now += 1.0
                effect = rest.throw(unavailable()) if isinstance(effect, Eval) else next(rest)
        assert step.over()
        assert hold.state is ENDING

    @pytest.mark.parametrize("depth", [1, 2])
    def test_a_release_that_is_refused_is_over(
        self, bench: Bench, play: type[Play], depth: int
    ) -> None:
        """The driver leaves a refused release to the background once, and not once more."""
        step = bench.held(depth=depth).release()
        played = play(step)
        assert isinstance(played.answer(WrongTypeError("x")).effect, Cleanup)
        with pytest.raises(WrongTypeError):
            played.answer(None)
        assert step.over()

    def test_two_releases_at_the_same_time(self, bench: Bench, play: type[Play]) -> None:
        """Two releases at depth 2 both succeed without a loss, even if the outer one runs first."""
        hold = bench.held(depth=2)
        inner = play(hold.release())
        outer = play(hold.release())
        assert (depth_told(inner.effect), depth_told(outer.effect)) == (1, 0)
        outer.answer(1)
        inner.answer(None)

        assert (hold.state, hold.reason) == (ENDED, None)
        with pytest.raises(NotHeldError):
            play(hold.release())

    def test_entering_again_meanwhile_counts_from_there(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """A release by another thread and a simultaneous re-entry cancel each other out."""
        hold = bench.held()
        owner = hold.owner()
        assert owner is not None
        lock = hold.core
        entering = play(lock.acquire(owner, float("inf"), None))
        entering.answer(None)
        assert hold.depth == 2

        releasing_it = play(hold.release())
        entering = play(lock.acquire(owner, float("inf"), None))
        assert depth_told(releasing_it.effect) == 1
        assert entering.effect.args[2] == 2
        entering.answer(None)
        releasing_it.answer(1)
        assert hold.depth == 2

    def test_inner_release_keeps(self, bench: Bench, play: type[Play]) -> None:
        """A hold of depth 2 stays held, one less deep."""
        hold = bench.held(depth=2)
        played = play(hold.release())
        assert hold.state is HELD
        assert depth_told(played.effect) == 1
        played.answer(1)

        assert (hold.state, hold.depth) == (HELD, 1)

    @pytest.mark.parametrize("state", [PENDING, ENDED])
    def test_what_is_not_held_is_refused(
        self, bench: Bench, play: type[Play], hold: Hold, state: str
    ) -> None:
        """Nothing is sent for a hold that is not there yet, or not any more."""
        hold.state = state
        with pytest.raises(NotHeldError, match="lock 'x' is not held by thread 'main'") as raised:
            play(hold.release())

        assert (raised.value.name, raised.value.owner) == ("x", "thread 'main'")

    def test_hold_that_the_server_lost_is_reported(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """A release of a lock that was taken away raises HoldLostError; then nothing is held."""
        asking = play(hold.release()).answer(None)
        assert asking.effect.script.name == "forced_note_read", "it asks why"
        with pytest.raises(HoldLostError) as raised:
            asking.answer(b"stuck")

        assert (raised.value.reason, raised.value.detail) == ("force-released", "stuck")
        assert (hold.state, len(bench.session.holds)) == (LOST, 0)

    @pytest.mark.parametrize(
        ("note", "reason", "said"),
        [
            (b"", "force-released", "lost (force-released) before"),
            (
                None,
                "server lost it",
                "gone from the server (deleted, evicted, or the server lost its data or stepped",
            ),
            (
                unavailable(),
                "server lost it",
                "gone from the server (deleted, evicted, released by force, or the server",
            ),
        ],
        ids=["empty", "none", "no-answer"],
    )
    def test_the_note_decides_what_is_told(
        self, play: type[Play], hold: Hold, note: object, reason: str, said: str
    ) -> None:
        """Only a note tells of a forced release; without an answer both are named."""
        asking = play(hold.release()).answer(None)
        with pytest.raises(HoldLostError) as raised:
            asking.answer(note)

        assert raised.value.reason == reason
        assert said in str(raised.value)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (str(copy), copy.reason) == (str(raised.value), reason)

    def test_answer_of_a_repeated_release_proves_nothing(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """A release that finds nothing after one whose reply was lost has succeeded."""
        played = play(hold.release()).answer(unavailable(transient=True))
        assert isinstance(played.effect, Wait)
        played.answer(None).answer(None)

        assert hold.state is ENDED

    def test_repeated_release_retires_the_number(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """A first try that is still under way must not free the owner's next hold of the lock."""
        number = bench.owner.number
        play(hold.release()).answer(unavailable(transient=True)).answer(None).answer(1)

        assert bench.owner.number != number

    def test_answered_release_keeps_the_number(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """Nothing is under way after an answer, and holder ids stay what they were."""
        number = bench.owner.number
        play(hold.release()).answer(1)

        assert bench.owner.number == number

    def test_unanswered_release_may_be_tried_again(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """The background repeats a release without an answer, and the hold is not renewed.

        Another release by the owner succeeds.
        """
        number = bench.owner.number
        played = play(hold.release()).answer(unavailable())
        assert depth_told(played.effect) == 0
        assert played.effect.until == hold.valid_until
        with pytest.raises(ServerUnavailableError):
            played.answer(None)
        assert (hold.state, hold.depth) == (ENDING, 1)
        assert bench.owner.number != number

        play(hold.release()).answer(None)
        assert hold.state is ENDED

    @pytest.mark.parametrize(("left", "given_up"), [(0.5, True), (60.0, False)])
    def test_is_not_tried_beyond_the_validity(
        self, bench: Bench, play: type[Play], hold: Hold, left: float, given_up: bool
    ) -> None:
        """A release without an answer is repeated while there is something to release.

        It is given up after the outage time-out at the latest.
        """
        hold.valid_until = bench.now + left
        played = play(hold.release()).answer(unavailable(transient=True))
        assert isinstance(played.effect, Wait)
        bench.now += 1.0
        played.answer(None).answer(unavailable(transient=True))
        assert isinstance(played.effect, Cleanup) == given_up

    def test_second_caller_is_not_told_of_a_loss(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """Of two that release at once the one who finds nothing has not lost the hold."""
        first = play(hold.release())
        play(hold.release()).answer(None)

        assert first.answer(1).over
        assert hold.state is ENDED

    def test_unanswered_inner_release_is_done(self, bench: Bench, play: type[Play]) -> None:
        """An inner release needs no answer: the client counts, and tells the server later."""
        hold = bench.held(depth=2)
        played = play(hold.release()).answer(unavailable())
        assert depth_told(played.effect) == 1
        played.answer(None)

        assert (hold.state, hold.depth) == (HELD, 1)

    @pytest.mark.parametrize(("depth", "state"), [(1, ENDED), (2, HELD)])
    def test_interrupted_release_is_carried_through(
        self, bench: Bench, play: type[Play], depth: int, state: str
    ) -> None:
        """A Ctrl-C during a release is raised after it: at once if the server answers."""
        hold = bench.held(depth=depth)
        played = play(hold.release()).answer(KeyboardInterrupt())
        assert depth_told(played.effect) == depth - 1
        assert played.effect.deadline == bench.now + GRACE
        with pytest.raises(KeyboardInterrupt):
            played.answer(1)

        assert (hold.state, hold.depth) == (state, depth - 1)

    def test_abandoned_release_asks_for_nothing(
        self, bench: Bench, play: type[Play], hold: Hold
    ) -> None:
        """A release that nobody drives any more leaves a hold that is not renewed."""
        play(hold.release()).abandon()

        assert hold.state is ENDING

    def test_owner_that_is_gone_has_no_number_to_retire(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """A hold can be released, and fail to be, when its owner is gone."""
        hold = bench.held(owner=Owner("gone"))
        assert hold.owner() is None
        played = play(hold.release()).answer(unavailable())
        with pytest.raises(ServerUnavailableError):
            played.answer(None)


class TestLost:
    """Releasing what has ended before."""

    def test_expired_hold_is_buried(self, bench: Bench, play: type[Play]) -> None:
        """A late release raises HoldLostError, and gives back what the server may still have."""
        hold = bench.held(lease=5.0)
        number = bench.owner.number
        bench.now += 5.0
        played = play(hold.release())
        assert depth_told(played.effect) == 0
        assert played.effect.until == bench.now + GRACE
        with pytest.raises(HoldLostError) as raised:
            played.answer(None)

        assert raised.value.reason == "expired"
        assert "lost (expired) before thread 'main' released it" in str(raised.value)
        assert len(bench.session.holds) == 0
        assert bench.owner.number != number

    def test_hold_that_was_taken_away_needs_no_release(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """A hold that the server is known not to have is not released once more."""
        hold = bench.held()
        bench.session.lose(hold, "force-released")
        with pytest.raises(HoldLostError):
            play(hold.release())

    def test_hold_that_was_acquired_anew_is_left_alone(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """Releasing a lost hold touches nothing of the one that its owner holds by now."""
        old = bench.held(lease=5.0)
        bench.now += 5.0
        with pytest.raises(HoldLostError):
            play(old.release()).answer(None)
        new = bench.held()
        with pytest.raises(HoldLostError):
            play(old.release())

        assert new in bench.session.holds

    def test_reason_is_the_lease_where_none_is_known(self, bench: Bench) -> None:
        """A hold whose end nobody saw is said to have expired."""
        assert lock_base.lost(bench.hold()).reason == "expired"


class TestExtend:
    """Having a lock for longer."""

    def test_extends_from_sending(self, bench: Bench, play: type[Play]) -> None:
        """The new lease counts from when it was asked for."""
        hold = bench.held(lease=5.0)
        sent_at = bench.now
        played = play(bench.lock.extend(bench.owner, 60.0))
        assert played.effect.script.name == "lock_renew"
        bench.now += 1.0
        played.answer([1])

        assert hold.valid_until == valid_until(sent_at, 60.0)

    @pytest.mark.parametrize(("lease", "deadline"), [(5.0, 5.0), (100.0, 15.0)])
    def test_is_given_up_with_the_validity_or_the_outage(
        self, bench: Bench, play: type[Play], lease: float, deadline: float
    ) -> None:
        """An extension is given up at the end of the hold, or after the outage time-out."""
        bench.held(lease=lease)
        played = play(bench.lock.extend(bench.owner, 60.0))

        assert played.effect.deadline - bench.now == pytest.approx(deadline, abs=0.01)

    def test_server_that_lost_it_is_believed(self, bench: Bench, play: type[Play]) -> None:
        """A hold that is not there cannot be extended, and is lost."""
        hold = bench.held()
        asking = play(bench.lock.extend(bench.owner, 60.0)).answer([0])
        with pytest.raises(HoldLostError):
            asking.answer(None)

        assert (hold.state, len(bench.session.holds)) == (LOST, 0)

    def test_answer_that_comes_too_late_is_a_loss(self, bench: Bench, play: type[Play]) -> None:
        """An extension that is answered after what it asked for does not succeed."""
        hold = bench.held(lease=5.0)
        played = play(bench.lock.extend(bench.owner, 6.0))
        bench.now += 7.0
        with pytest.raises(HoldLostError):
            played.answer([1]).answer(None)

        assert hold.state is LOST


class TestStruckSteps:
    """A signal that strikes between two instructions of a step."""

    def test_a_release_is_over_only_when_it_was_answered(self, bench: Bench) -> None:
        """A release that was begun is not over: the driver performs its rest."""
        step = bench.held().release()
        assert not step.over()
        call = step.begin()
        assert call is not None
        assert not step.over()

        assert step.done(1)
        assert step.over()

    def test_an_acquire_is_not_over_while_it_may_hold(self, bench: Bench) -> None:
        """An acquire that has claimed the lock is not over until its hold was given back."""
        step = bench.lock.acquire(bench.owner, bench.now + 10, None)
        call = step.begin()
        assert call is not None
        assert not step.over()
        assert step.done(call.script.decode(None))
        assert not step.over()

        hold = step.result
        assert hold is not None
        bench.session.holds.end(hold)
        assert not step.over(), "the server may have it"
        hold.gave_back()
        bench.session.events.begin_wait(bench.lock, hold, bench.now)
        assert not step.over(), "operators are shown a wait"
        bench.session.events.end_wait(hold, None)
        assert step.over()

    def test_the_signal_goes_on_if_nothing_is_held(self, bench: Bench, play: type[Play]) -> None:
        """A Ctrl-C before a release of what is released already is raised, and nothing else."""
        hold = bench.held()
        play(hold.release()).answer(1)

        with pytest.raises(KeyboardInterrupt):
            play(hold.release().rest(KeyboardInterrupt()))

    def test_an_undone_reentry_ends_the_last_entry(self, bench: Bench, play: type[Play]) -> None:
        """A re-entry that is struck after others released the first entry frees the lock."""
        hold = bench.held()
        entering = bench.acquire()
        play(hold.release()).answer(1)
        entering.answer(KeyboardInterrupt())
        assert depth_told(entering.effect) == 0
        with pytest.raises(KeyboardInterrupt):
            entering.answer(1)

        assert hold not in bench.session.holds
