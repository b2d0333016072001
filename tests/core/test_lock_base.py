"""What all lock-likes share: acquire, re-enter, give up, undo, ask.

The plain lock is played by hand, reply by reply.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest

from interlock._core.insight.events import ForceReleased
from interlock._core.model.effects import NEVER, Cleanup, Enqueue, Eval, Wait
from interlock._core.model.holds import ENDED, ENDING, HELD, LOST, PENDING, Owner, valid_until
from interlock._core.scripts.script import GRANTED
from interlock._core.upkeep.session import GRACE
from interlock.errors import (
    AcquireTimeoutError,
    ClosedError,
    HoldLostError,
    NotHeldError,
    ReentryError,
    ServerUnavailableError,
    WrongTypeError,
)
from interlock.inspection.kinds import force_release

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play

    from interlock._core.insight.events import Event
    from interlock._core.model.holds import Hold


def lost_reply() -> ServerUnavailableError:
    """Return what a driver raises when no reply was read."""
    return ServerUnavailableError("no answer", sent=True, transient=True)


def refusal() -> ServerUnavailableError:
    """Return what a driver raises for a server that says no."""
    return ServerUnavailableError("out of memory", code="OOM")


def busy() -> ServerUnavailableError:
    """Return what a driver raises for a server that cannot be reached just now."""
    return ServerUnavailableError("busy", transient=True)


def told(effect: object) -> tuple[str, tuple[str | int, ...]]:
    """Return the script that an effect is about, and what it is told."""
    call = effect.call if isinstance(effect, Cleanup) else effect
    assert isinstance(call, Eval)
    return call.script.name, call.args


class TestAcquire:
    """Taking what is not held here."""

    def test_free_lock_is_had_in_one_round_trip(self, bench: Bench) -> None:
        """A grant makes a renewed hold, valid since the sending, which the watchdog knows of."""
        sent_at = bench.now
        played = bench.acquire()
        assert told(played.effect) == ("lock_acquire", (30_000, f"c0ffee:{bench.owner.number}", 1))
        bench.now += 0.5
        hold = played.answer(None).result

        assert (hold.state, hold.depth, hold.token) == (HELD, 1, None)
        assert hold.valid_until == valid_until(sent_at, 30.0)
        assert hold.renewal is not None
        assert hold in bench.session.holds
        assert bench.wakes == 1

    def test_hold_is_in_the_table_before_anything_is_sent(self, bench: Bench) -> None:
        """An interruption at any point finds the hold."""
        played = bench.acquire()
        [hold] = bench.session.holds

        assert not played.over
        assert (hold.state, hold.late_grants()) == (PENDING, 1)

    def test_one_try_that_fails_leaves_no_reservation(self, bench: Bench) -> None:
        """A single try does not wait for a lock that is taken, and leaves nothing in the table."""
        played = bench.acquire(timeout=0).answer(5000)

        assert played.over
        assert played.result is None
        assert len(bench.session.holds) == 0

    def test_one_try_has_time_for_its_answer(self, bench: Bench) -> None:
        """A deadline that has passed still leaves one round trip."""
        assert bench.acquire(timeout=0).effect.deadline == bench.now + GRACE
        assert bench.acquire(timeout=5, owner=Owner("other")).effect.deadline == bench.now + 5

    def test_taken_lock_is_waited_for(self, bench: Bench) -> None:
        """After a failed try the owner queues, looks again when told to, and gets the lock."""
        played = bench.acquire().answer(5000)
        assert played.effect == Enqueue(bench.lock.channel)
        waiter = bench.waiters.join(bench.lock.channel, lambda: None)
        played.answer(waiter)
        assert isinstance(played.effect, Wait)
        bench.waiters.notify(bench.lock.channel, b"0")
        played.answer(None)
        hold = played.answer(None).result

        assert hold.state is HELD
        assert waiter.successor_look == hold.lease

    @pytest.mark.parametrize("silent", [True, False])
    def test_interrupted_waiter_waits_for_a_silent_server_once(
        self, bench: Bench, silent: bool
    ) -> None:
        """After a Ctrl-C an outage costs one `GRACE`: the background leaves the server's queue."""
        bench.waiters.place_for(bench.lock.channel, bench.session.client_id)
        waiter = bench.waiters.join(bench.lock.channel, lambda: None)
        played = bench.acquire()
        waiter.should_ask = True
        played.answer(waiter)
        assert told(played.effect)[0] == "lock_acquire"
        played.answer(KeyboardInterrupt())
        assert told(played.effect)[0] == "lock_release"
        if silent:
            bench.now += GRACE
            played.answer(lost_reply())
            assert isinstance(played.effect, Cleanup)
            played.answer(None)
            assert isinstance(played.effect, Cleanup)
        else:
            # One grant is found. The background looks for the one that the queue may give.
            played.answer(1)
            assert isinstance(played.effect, Cleanup)
            played.answer(None)
            assert told(played.effect)[0] == "lock_release"
        with pytest.raises(KeyboardInterrupt):
            played.answer(1)

    def test_failed_try_is_repeated(self, bench: Bench) -> None:
        """A try without an answer is repeated, and the answer counts as one to the first try."""
        played = bench.acquire().answer(lost_reply())
        assert isinstance(played.effect, Wait)

        assert played.answer(None).answer(None).result.state is HELD

    def test_answer_that_outlasts_the_lease_is_no_hold(self, bench: Bench) -> None:
        """A grant that comes when its lease may be over is given back, and acquired anew."""
        played = bench.acquire(timeout=60, lease=1.0)
        bench.now += 1.0
        played.answer(None)
        [hold] = bench.session.holds
        holder = hold.holder
        assert told(played.effect)[0] == "lock_release"
        assert hold.state is PENDING
        played.answer(1)

        assert played.effect == Enqueue(bench.lock.channel)
        assert hold.holder == holder

    def test_unknown_end_of_a_late_grant_changes_the_holder(self, bench: Bench) -> None:
        """The next try has another field, because the give-back may still be under way."""
        played = bench.acquire(timeout=60, lease=1.0)
        bench.now += 1.0
        played.answer(None)
        [hold] = bench.session.holds
        holder = hold.holder
        played.answer(lost_reply()).answer(None).answer(None)

        assert hold.holder == bench.session.holder(bench.owner) != holder

    def test_unknown_end_without_an_owner_keeps_the_holder(self, bench: Bench) -> None:
        """Of an owner that is gone nothing follows that could be met."""
        played = bench.acquire(timeout=60, lease=1.0)
        bench.now += 1.0
        played.answer(None)
        [hold] = bench.session.holds
        holder, hold.owner = hold.holder, lambda: None  # type: ignore[assignment]
        played.answer(lost_reply()).answer(None).answer(None)

        assert hold.holder == holder

    def test_closed_client_acquires_nothing(self, bench: Bench) -> None:
        """A grant after the client was closed is an error: closing has given the lock back."""
        played = bench.acquire()
        list(bench.session.releases_on_close())
        with pytest.raises(ClosedError):
            played.answer(None)

    def test_a_thread_does_not_wait_for_itself(self, bench: Bench) -> None:
        """A thread that acquires what it is just acquiring, as in a signal handler, is refused."""
        first = bench.acquire()
        with pytest.raises(ReentryError, match="just being acquired"):
            bench.acquire()

        assert not first.over


class TestUndo:
    """What an acquire leaves behind that ends by an error."""

    def fail(self, bench: Bench, *answers: object, timeout: float = 0.0) -> Play:
        """Play an acquire up to the last answer, which ends it."""
        played = bench.acquire(timeout=timeout)
        for answer in answers:
            played.answer(answer)
        return played

    @pytest.mark.parametrize("error", [refusal(), WrongTypeError("x")])
    def test_refusal_needs_no_undoing(self, bench: Bench, error: Exception) -> None:
        """A server that said no has done nothing."""
        number = bench.owner.number
        with pytest.raises(type(error)):
            self.fail(bench, error)

        assert len(bench.session.holds) == 0
        assert bench.owner.number == number

    def test_lost_reply_is_undone_in_the_background(self, bench: Bench) -> None:
        """An acquire that may have been executed is released; its number is not used again."""
        number = bench.owner.number
        played = self.fail(bench, lost_reply(), timeout=0.01)
        assert isinstance(played.effect, Cleanup)
        assert told(played.effect)[1][:2] == (f"c0ffee:{number}", 0)
        assert (played.effect.late, played.effect.until) == (True, bench.now + 30.0)
        assert bench.owner.number != number
        with pytest.raises(ServerUnavailableError):
            played.answer(None)
        assert len(bench.session.holds) == 0

    def test_lost_reply_of_an_earlier_try_counts(self, bench: Bench) -> None:
        """A refusal after a reply that was lost leaves the outcome unknown, and is undone."""
        played = self.fail(bench, lost_reply(), None, refusal(), timeout=10)

        assert isinstance(played.effect, Cleanup)

    def test_interruption_is_undone_at_once(self, bench: Bench) -> None:
        """A Ctrl-C is raised after the release; the background repeats one that found nothing."""
        played = self.fail(bench, KeyboardInterrupt())
        assert told(played.effect)[0] == "lock_release"
        played.answer(None)
        assert played.effect.late
        with pytest.raises(KeyboardInterrupt):
            played.answer(None)

    def test_interruption_before_anything_was_sent_sends_nothing(self, bench: Bench) -> None:
        """An owner that is interrupted while it queues has nothing to give back."""
        bench.waiters.join(bench.lock.channel, lambda: None)
        with pytest.raises(KeyboardInterrupt):
            bench.acquire().answer(KeyboardInterrupt())

        assert len(bench.session.holds) == 0

    def test_interruption_after_an_answer_sends_nothing(self, bench: Bench) -> None:
        """An owner that was told of another holder has nothing to give back."""
        with pytest.raises(KeyboardInterrupt):
            self.fail(bench, 5000, KeyboardInterrupt(), timeout=10)

    def test_interrupted_give_back_is_repeated(self, bench: Bench) -> None:
        """A grant that came too late is given back even if giving it back is interrupted."""
        played = bench.acquire(lease=1.0)
        bench.now += 1.0
        played.answer(None).answer(KeyboardInterrupt())
        assert told(played.effect)[0] == "lock_release"
        with pytest.raises(KeyboardInterrupt):
            played.answer(1)

    def test_closing_leaves_the_outcome_open(self, bench: Bench) -> None:
        """A client that closes says nothing of whether an earlier try was executed."""
        played = self.fail(bench, lost_reply(), ClosedError("closed"), timeout=10)

        assert isinstance(played.effect, Cleanup)

    def test_abandoned_acquire_leaves_no_reservation(self, bench: Bench) -> None:
        """An acquire that nobody drives any more does not bar its owner from the next."""
        played = bench.acquire()
        played.abandon()

        assert len(bench.session.holds) == 0


class TestObserver:
    """What is told of each use of a lock."""

    def test_an_acquire_and_a_release_are_told_once(self, bench: Bench, play: type[Play]) -> None:
        """The observer hears of a hold with its time of sending, and of its end."""
        told: list[tuple[str, Hold, float]] = []

        class Observer:
            def acquired(self, hold: Hold, sent_at: float) -> None:
                assert hold.state is HELD
                told.append(("acquired", hold, sent_at))

            def released(self, hold: Hold) -> None:
                told.append(("released", hold, bench.now))

        bench.session.holds.observer = Observer()
        sent_at = bench.now
        acquiring = bench.acquire()
        bench.now += 1
        hold = acquiring.answer(None).result
        assert told == [("acquired", hold, sent_at)]
        assert play(bench.lock.release(bench.owner)).answer(1).over
        assert told[1:] == [("released", hold, bench.now)]

    def test_a_grant_that_nobody_got_is_told_as_released(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """The observer hears of both ends of a hold that a Ctrl-C has undone at once, once each."""
        heard: list[str] = []

        class Observer:
            def acquired(self, hold: Hold, sent_at: float) -> None:
                heard.append("acquired")

            def released(self, hold: Hold) -> None:
                heard.append("released")

        bench.session.holds.observer = Observer()
        step = bench.lock.acquire(bench.owner, NEVER, None)
        assert step.begin() is not None
        assert step.done(GRANTED)
        undone = play(step.rest(KeyboardInterrupt()))
        assert isinstance(undone.answer(KeyboardInterrupt()).effect, Cleanup)
        with pytest.raises(KeyboardInterrupt):
            undone.answer(None)
        with pytest.raises(KeyboardInterrupt):
            play(step.rest(KeyboardInterrupt())).answer(1)
        assert step.over()
        assert heard == ["acquired", "released"]

    @pytest.mark.parametrize("end", ["granted", "out of time", "interrupted"])
    def test_a_wait_is_known_until_it_ends(self, bench: Bench, end: str) -> None:
        """An observer finds each wait while it lasts, and none after it."""
        waiting = bench.acquire().answer(5000)
        assert [wait.lock for wait in bench.session.events.waits.values()] == [bench.lock]
        if end == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                waiting.answer(KeyboardInterrupt())
        elif end == "out of time":
            bench.now += 20
            while not waiting.over:
                waiting.answer(bench.waiters.join("elsewhere", lambda: None))
        else:
            waiter = bench.waiters.join(bench.lock.channel, lambda: None)
            waiting.answer(waiter)
            bench.waiters.notify(bench.lock.channel, b"0")
            waiting.answer(None)
            assert waiting.answer(None).over
        assert bench.session.events.waits == {}

    def test_a_refused_try_is_not_told(self, bench: Bench) -> None:
        """The observer hears of no acquire that another holder refused."""
        told: list[object] = []

        class Observer:
            def acquired(self, hold: Hold, sent_at: float) -> None:
                told.append(hold)

            def released(self, hold: Hold) -> None:
                told.append(hold)

        bench.session.holds.observer = Observer()
        _ = bench.acquire(timeout=0.0).answer(5000)
        assert told == []


class TestReenter:
    """Taking again what is held."""

    def test_goes_one_deeper(self, bench: Bench) -> None:
        """The owner of a hold enters it again, with one round trip that tells the depth."""
        hold = bench.held()
        sent_at = bench.now = bench.now + 5
        played = bench.acquire()
        assert told(played.effect)[1][2] == 2

        assert played.answer(None).result is hold
        assert (hold.depth, hold.valid_until) == (2, valid_until(sent_at, 30.0))

    def test_renewal_is_begun_but_never_ended(self, bench: Bench) -> None:
        """A hold is renewed once any of its entries wants it to be."""
        hold = bench.held(lease=5.0)
        bench.held(lease=5.0)
        assert hold.renewal is None
        bench.held()
        assert hold.renewal is not None
        bench.held(lease=5.0)

        assert hold.renewal is not None

    @pytest.mark.parametrize("reply", [-2, 5000])
    def test_hold_that_the_server_lost_is_not_taken_anew(self, bench: Bench, reply: int) -> None:
        """A re-entry of a hold that is gone raises HoldLostError, and makes no new hold."""
        hold = bench.held()
        asking = bench.acquire().answer(reply)
        assert asking.effect.script.name == "forced_note_read", "it asks why"
        with pytest.raises(HoldLostError, match=r"gone from the server \(deleted, evicted, or"):
            asking.answer(None)

        assert hold.state is LOST

    def test_lost_hold_is_not_entered(self, bench: Bench, play: type[Play]) -> None:
        """Entering a lost hold raises each time, until the hold is released."""
        old = bench.held()
        bench.now += 31.0
        for _ in "12":
            with pytest.raises(HoldLostError, match="expired"):
                bench.acquire()
        with pytest.raises(HoldLostError):
            play(bench.lock.release(bench.owner)).answer(None)
        new = bench.held()

        assert (old.state, new.depth) == (LOST, 1)
        assert old.holder != new.holder

    def test_lease_that_the_owner_chose_may_run_out(self, bench: Bench) -> None:
        """A hold that ended with its own lease is over: its owner acquires another."""
        old = bench.held(lease=5.0)
        bench.now += 5.0
        new = bench.held()

        assert (old.state, new.depth) == (LOST, 1)
        assert old.holder != new.holder

    def test_block_whose_lease_ran_out_is_lost(self, bench: Bench) -> None:
        """Inside of a block, the owner hears that the lease is over."""
        old = bench.held(lease=5.0)
        block = Owner("a block")
        old.hand(weakref.ref(block))
        bench.now += 5.0
        with pytest.raises(HoldLostError, match="expired"):
            bench.acquire()

    def test_lost_hold_that_nobody_is_inside_of_is_acquired_anew(self, bench: Bench) -> None:
        """After a failed release and the end of the lease, the owner acquires a new hold."""
        old = bench.held(lease=5.0)
        old.state = ENDING
        bench.now += 5.0
        bench.session.lose(old, "expired")

        assert bench.held().depth == 1

    def test_answer_that_comes_too_late_is_a_loss(self, bench: Bench) -> None:
        """A re-entry that is answered after the lease fails: another may hold the lock by then."""
        hold = bench.held()
        played = bench.acquire(timeout=100.0)
        bench.now += 31.0
        with pytest.raises(HoldLostError, match="expired"):
            played.answer(None)

        assert hold.state is LOST

    def test_hold_that_is_being_released_is_acquired_anew(self, bench: Bench) -> None:
        """Another thread's release, still under way, does not meet the owner's next hold."""
        old = bench.held()
        old.state = ENDING
        new = bench.held()

        assert old.holder != new.holder
        assert new in bench.session.holds

    @pytest.mark.parametrize("error", [refusal(), WrongTypeError("x")])
    def test_refusal_changes_nothing(self, bench: Bench, error: Exception) -> None:
        """A re-entry that the server refused leaves the hold as it was."""
        hold = bench.held()
        with pytest.raises(type(error)):
            bench.acquire().answer(error)

        assert (hold.state, hold.depth) == (HELD, 1)

    def test_lost_reply_is_undone_in_the_background(self, bench: Bench) -> None:
        """The server is told the former depth again, for as long as the hold is valid."""
        hold = bench.held()
        played = bench.acquire(timeout=0.01).answer(lost_reply())
        assert told(played.effect)[1][1] == 1
        assert played.effect.until == hold.valid_until
        with pytest.raises(ServerUnavailableError):
            played.answer(None)
        assert hold.depth == 1

    def test_interruption_is_undone_at_once(self, bench: Bench) -> None:
        """A Ctrl-C during a re-entry is raised when the server was told the former depth."""
        hold = bench.held()
        played = bench.acquire().answer(KeyboardInterrupt())
        assert told(played.effect)[:1] == ("lock_release",)
        assert told(played.effect)[1][1] == 1
        with pytest.raises(KeyboardInterrupt):
            played.answer(1)
        assert (hold.state, hold.depth) == (HELD, 1)


class TestRefusal:
    """What a with statement raises that did not get the lock."""

    @pytest.mark.parametrize(
        ("answer", "holder", "says"),
        [
            ([4000, b"java:7", b"1"], "java:7", "; held by java:7"),
            ([-2], None, ""),
            (busy(), None, ""),
        ],
    )
    def test_failure_names_the_holder(
        self, bench: Bench, play: type[Play], answer: object, holder: str | None, says: str
    ) -> None:
        """A time-out tells who has the lock, where the server can be asked."""
        played = play(bench.lock.refusal(2.5))
        assert told(played.effect)[0] == "lock_query"
        error = played.answer(answer).result
        assert isinstance(error, AcquireTimeoutError)
        assert str(error).endswith(f"not acquired in 2.5 s{says}")
        assert (error.name, error.timeout, error.holder) == ("x", 2.5, holder)


class TestOthers:
    """Releasing, extending, asking, forcing."""

    @pytest.mark.parametrize(("reply", "released"), [(1, True), (0, False)])
    def test_force_release_frees_whoever_holds(
        self, bench: Bench, play: type[Play], reply: int, released: bool
    ) -> None:
        """Anybody can free a lock; the holds of this client know at once."""
        hold, elsewhere = bench.held(), bench.hold("y")
        played = play(bench.lock.force_release()).answer([4000, hold.holder.encode(), b"1"])
        assert told(played.effect)[0] == "lock_force_release"

        assert played.answer(reply).result is released
        assert (hold.state, hold.reason) == (LOST, "force-released")
        assert elsewhere.state is HELD

    def test_force_release_of_unknown_outcome_counts(self, bench: Bench, play: type[Play]) -> None:
        """A repeated release that finds nothing may have freed the lock with its first try."""
        played = play(bench.lock.force_release()).answer([4000, b"java:7", b"1"])
        (note,) = played.effect.evals
        assert note.keys == ("interlock_forced:{x}:java:7",), "its holder can ask why"
        played.answer([1]).answer(lost_reply())

        assert played.answer(None).answer(0).result is True

    def test_force_release_of_a_free_lock_is_one_round_trip(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """Nothing is written for a lock that nobody holds; a hold of this client is gone."""
        hold = bench.held()

        assert play(bench.lock.force_release()).answer([-2]).result is False
        assert (hold.state, hold.reason) == (LOST, "server lost it")

    @pytest.mark.parametrize("kind", ["lock", "group_lock"])
    def test_a_hold_whose_breaking_lost_its_reply_counts_as_broken(
        self, bench: Bench, play: type[Play], kind: str
    ) -> None:
        """Its holder can still read the reason, and the event is told."""
        seen: list[Event] = []
        bench.session.events.emit = seen.append
        played = play(force_release(bench.session, kind, "x", "java:7", "stuck"))
        if kind == "lock":
            played.answer([4000, b"java:7", b"1"])
        assert told(played.effect)[0] == "forced_note_write"
        played.answer(1).answer(lost_reply())  # the break is done, and sent again after a pause

        assert played.answer(None).answer(0).result is True
        assert isinstance(seen[0], ForceReleased)
        assert seen[0].reason == "stuck"

    @pytest.mark.parametrize(("state", "becomes"), [(HELD, LOST), (ENDING, ENDING)])
    def test_depth_of_nothing_is_a_loss(
        self, bench: Bench, play: type[Play], state: str, becomes: str
    ) -> None:
        """A hold that the server does not have is lost, unless it was released meanwhile."""
        hold = bench.held()
        played = play(bench.lock.depth_of(bench.owner))
        hold.state = state

        assert played.answer([-2]).result == 0
        assert hold.state is becomes

    def test_hold_of_an_owner_is_what_it_was_given(self, bench: Bench) -> None:
        """A hold that is not granted yet is nobody's hold."""
        assert bench.lock.hold_of(bench.owner) is None
        pending = bench.acquire()
        assert bench.lock.hold_of(bench.owner) is None
        assert not pending.over
        other = Owner("other")
        hold = bench.held(owner=other)

        assert bench.lock.hold_of(other) is hold


@pytest.mark.parametrize("answered", [True, False])
def test_a_re_entry_that_others_have_released_holds_nothing(
    bench: Bench, play: type[Play], answered: bool
) -> None:
    """Other threads of the same owner release once too often, while one enters.

    It is told that it holds nothing, and sends nothing: a release could meet a later hold.
    """
    losses: list[str] = []
    hold = bench.held()
    assert hold.listen(lambda: losses.append("lost"))
    again = bench.acquire()
    assert play(hold.release()).answer(1).over
    last = play(hold.release())
    if answered:
        assert last.answer(1).over
    assert hold.state is (ENDED if answered else ENDING)
    with pytest.raises(NotHeldError):
        again.answer(None)
    assert losses == []
    assert hold.depth == (0 if answered else 1)
    assert last.over or last.answer(1).over


def test_who_is_refused_before_a_grant_to_another_asks(bench: Bench) -> None:
    """A grant to a newcomer takes the client out of the server's queue: who waits here must ask."""
    lock = bench.lock
    bench.waiters.place_for(lock.channel, bench.session.client_id)
    bench.waiters.leave(bench.waiters.join(lock.channel, lambda: None))
    refused = bench.acquire(owner=Owner("thread 'refused'")).answer(5000)
    assert refused.effect == Enqueue(lock.channel)
    newcomer = bench.acquire()
    assert newcomer.effect.spare_args
    assert newcomer.answer(None).over
    waiter = bench.waiters.join(lock.channel, lambda: None)
    assert waiter.should_ask


def test_a_refused_single_try_makes_no_place(bench: Bench) -> None:
    """Nobody would ever take the place away: a client that only tries would grow for ever."""
    played = bench.acquire(timeout=0)
    assert played.answer(5000).over
    assert played.result is None
    assert bench.waiters.places == {}
