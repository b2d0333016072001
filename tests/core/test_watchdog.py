"""The watchdog renews in rounds and batches; unknown is not lost; no failure stops the others."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import TYPE_CHECKING, NoReturn

import pytest

from interlock._core.model.effects import NEVER, Batch
from interlock._core.model.holds import (
    CLAIM,
    ENDED,
    ENDING,
    HELD,
    LOST,
    PENDING,
    Hold,
    Holds,
    Owner,
    valid_until,
)
from interlock._core.upkeep.watchdog import ANSWER_WITHIN, CLAIMS_FOR, CONFIRM_AFTER, Round
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.core.bench import Bench, Play

    from interlock._core.model.effects import Op


UNAVAILABLE = ServerUnavailableError("no answer", sent=True, transient=True)


def one_round(bench: Bench) -> Op[Round]:
    """Do what the renewal thread does in one turn."""
    watchdog, result = bench.session.watchdog, Round()
    due = watchdog.due(bench.now, result)
    yield from watchdog.renew(due, lambda: bench.now, result)
    _ = watchdog.end_overdue(bench.now)
    return result


class Rounds:
    """Runs rounds of the watchdog; a function gives the reply to each script from its keys."""

    def __init__(self, bench: Bench, play: type[Play]) -> None:
        self.bench, self._play = bench, play
        self.watchdog = bench.session.watchdog
        self.batches: list[tuple[tuple[str, ...], ...]] = []

    def run(
        self, answer: Callable[[tuple[str, ...]], object] = lambda keys: [1] * len(keys)
    ) -> Round:
        """Run one round; remember the keys of each batch, script by script."""
        played = self._play(one_round(self.bench))
        while not played.over:
            assert isinstance(played.effect, Batch)
            self.batches.append(tuple(call.keys for call in played.effect.evals))
            played.answer([answer(call.keys) for call in played.effect.evals])
        result: Round = played.result
        return result


@pytest.fixture
def rounds(bench: Bench, play: type[Play]) -> Rounds:
    """Give a watchdog whose first round is over."""
    bench.session.watchdog.next_due(bench.now)
    return Rounds(bench, play)


def watched(bench: Bench, *names: str) -> list[Hold]:
    """Return renewed holds that the watchdog knows of."""
    holds = [bench.hold(name) for name in names]
    for hold in holds:
        bench.session.watchdog.watch(hold)
    return holds


def later(bench: Bench, periods: float = 1.0) -> None:
    """Let some periods of the watchdog pass."""
    bench.now += periods * bench.session.watchdog.period


class TestDue:
    """When the watchdog has something to do."""

    def test_every_third_of_the_lease(self, bench: Bench) -> None:
        """Without holds the watchdog is due once in a period."""
        watchdog = bench.session.watchdog

        assert watchdog.next_due(bench.now) == bench.now + 10.0
        bench.now += 4.0
        assert watchdog.next_due(bench.now) == bench.now + 6.0

    def test_a_new_hold_joins_the_next_round(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that is acquired between two rounds needs no wake-up of its own."""
        later(bench, 0.5)
        [hold] = watched(bench, "a")

        assert hold.renew_at == bench.now + rounds.watchdog.period / 2
        assert rounds.watchdog.next_due(bench.now) == hold.renew_at

    def test_a_hold_that_ends_before_the_next_round_pokes(
        self, bench: Bench, rounds: Rounds
    ) -> None:
        """A short lease is noticed to end in time, and not at the next round."""
        hold = bench.hold()
        hold.renewal, hold.valid_until = None, bench.now + 1.0
        assert bench.wakes == 0
        rounds.watchdog.watch(hold)

        assert bench.wakes == 1
        assert rounds.watchdog.next_due(bench.now) == hold.valid_until

    def test_claims_that_end_soon_wake_nobody(self, bench: Bench, rounds: Rounds) -> None:
        """The thread that confirms claims looks for them by itself, and rests if there are none."""
        watchdog, names = rounds.watchdog, iter("abc")

        def claimed() -> Hold:
            hold = bench.hold(next(names))
            hold.asked_by, hold.valid_until = NEVER, bench.now + CLAIM
            watchdog.expect(hold, bench.now)
            return hold

        first = claimed()
        assert bench.wakes == 1
        assert watchdog.next_due(bench.now) == first.renew_at == bench.now + CONFIRM_AFTER
        bench.session.holds.end(first)
        bench.now += CONFIRM_AFTER / 2
        bench.session.holds.end(claimed())
        bench.now += CONFIRM_AFTER / 2
        assert watchdog.rest(bench.now) == bench.now + CONFIRM_AFTER
        bench.now += CONFIRM_AFTER / 2

        lasting = claimed()
        bench.now += CONFIRM_AFTER / 2

        assert bench.wakes == 1
        assert watchdog.rest(bench.now) == lasting.renew_at == bench.now + CONFIRM_AFTER / 2
        bench.now = lasting.renew_at
        assert watchdog.rest(bench.now) <= bench.now
        rounds.run()
        assert rounds.batches == [((lasting.key,),)]

    def test_a_confirmed_claim_with_a_lease_of_its_own(self, bench: Bench, rounds: Rounds) -> None:
        """It woke nobody when it began. The thread notices all the same when it ends."""
        watchdog, first = rounds.watchdog, bench.hold("first")
        watchdog.expect(first, bench.now)
        bench.session.holds.end(first)
        assert watchdog.next_due(bench.now) == bench.now + CONFIRM_AFTER
        wakes, hold = bench.wakes, bench.hold("short")
        hold.renewal, hold.asked_by, hold.valid_until = None, NEVER, bench.now + CLAIM
        watchdog.expect(hold, bench.now)
        hold.extend_validity(bench.now, 2.0)
        bench.now += CLAIMS_FOR
        assert bench.wakes == wakes
        assert watchdog.rest(bench.now) == hold.valid_until

    def test_a_hold_that_is_acquired_during_the_look(
        self, bench: Bench, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The look has passed it by. It woke nobody, because the look before was just due."""
        watchdog, hold = rounds.watchdog, bench.hold(state=PENDING)
        hold.renewal = None
        later(bench)
        looks = iter([()])

        class Looked(Holds):
            def __iter__(self) -> Iterator[Hold]:
                return iter(next(looks, (hold,)))

        monkeypatch.setattr(watchdog, "_holds", Looked())
        hold.state, hold.valid_until = HELD, bench.now + 1.0
        watchdog.watch(hold)
        assert bench.wakes == 0
        assert watchdog.next_due(bench.now) == hold.valid_until

    def test_a_claim_that_is_over_before_anybody_could_ask(
        self, bench: Bench, rounds: Rounds
    ) -> None:
        """While the thread of its node is busy, the thread that decides does not run in circles."""
        hold = bench.hold()
        hold.asked_by, hold.valid_until = NEVER, bench.now + CLAIM
        rounds.watchdog.expect(hold, bench.now)
        bench.now += 2 * CLAIM
        assert rounds.watchdog.due(bench.now, Round()) == [hold]
        assert rounds.watchdog.next_due(bench.now) == bench.now + CONFIRM_AFTER
        bench.now += ANSWER_WITHIN
        assert rounds.watchdog.due(bench.now, Round()) == []
        assert hold.state is LOST, "nobody has asked in time"

    def test_a_hold_that_comes_late_is_renewed_at_once(self, bench: Bench, rounds: Rounds) -> None:
        """After an outage, a hold may end soon, because its validity counts from its first try."""
        watchdog = rounds.watchdog
        later(bench, 0.5)
        fixed, new = bench.hold("fixed"), bench.hold("new")
        fixed.renewal, fixed.valid_until = None, bench.now + watchdog.period
        new.valid_until = bench.now + 1.5 * watchdog.period
        for hold in (fixed, new):
            watchdog.watch(hold)
        assert bench.wakes == 0
        assert watchdog.next_due(bench.now) == new.renew_at > bench.now
        late = bench.hold("late")
        late.valid_until = bench.now + watchdog.period
        watchdog.watch(late)
        assert bench.wakes == 1
        assert watchdog.next_due(bench.now) <= bench.now

        rounds.run()

        assert rounds.batches == [(("late",),)]
        assert late.valid_until > bench.now + 0.9 * watchdog.lease
        assert watchdog.next_due(bench.now) == late.renew_at == new.renew_at

    def test_a_reply_that_a_frozen_process_reads_late(
        self, bench: Bench, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It confirms a hold that began with a claim. Little is left of the lease by then."""
        hold, watchdog, sent_at = bench.hold(), rounds.watchdog, bench.now
        hold.asked_by, hold.valid_until = NEVER, bench.now + CLAIM
        watchdog.expect(hold, bench.now)

        def hear() -> None:
            hold.extend_validity(sent_at, 30.0)
            watchdog.confirmed(hold, sent_at)

        monkeypatch.setattr(bench.session.holds, "hear", hear)
        later(bench, 2.4)
        rounds.run()

        assert rounds.batches == [((hold.key,),)]
        assert hold.valid_until == valid_until(bench.now, 30.0)

    @pytest.mark.parametrize("state", [PENDING, ENDING, LOST])
    def test_only_what_is_held_counts(self, bench: Bench, rounds: Rounds, state: str) -> None:
        """A hold in any other state makes nothing due."""
        hold = bench.hold(state=state)
        hold.renew_at = hold.valid_until = bench.now

        assert rounds.watchdog.next_due(bench.now) == bench.now + rounds.watchdog.period


class TestRenewal:
    """What a round renews."""

    def test_holds_in_batches(self, make_bench: Callable[..., Bench], play: type[Play]) -> None:
        """Holds cost one round trip per batch, and are kept for a lease from the sending."""
        bench = make_bench(renew_batch=3)
        rounds = Rounds(bench, play)
        holds = watched(bench, *"abcdefg")
        later(bench)
        result = rounds.run()

        assert rounds.batches == [(("a", "b", "c"),), (("d", "e", "f"),), (("g",),)]
        assert result.renewed == 7
        assert {hold.valid_until for hold in holds} == {valid_until(bench.now, 30.0)}
        assert rounds.watchdog.next_due(bench.now) == bench.now + rounds.watchdog.period

    def test_a_hold_that_is_to_end(self, bench: Bench, play: type[Play]) -> None:
        """A hold that ends at a certain time is renewed until then, and for no longer."""
        ending, other = watched(bench, "a", "b")
        ends_at = bench.now + 45.0
        ending.end_by(ends_at)
        leases: list[list[tuple[tuple[str, ...], object]]] = []
        for _ in range(4):
            later(bench)
            played = play(one_round(bench))
            assert isinstance(played.effect, Batch)
            leases.append([(call.keys, call.args[0]) for call in played.effect.evals])
            played.answer([[1] * len(call.keys) for call in played.effect.evals])

        assert leases == [
            [(("a", "b"), 30_000)],
            [(("a",), 25_000), (("b",), 30_000)],
            [(("b",), 30_000)],
            [(("b",), 30_000)],
        ]
        assert ending.valid_until == valid_until(ends_at - 25.0, 25.0)
        assert ending.expiry_reason() == "expired"
        assert other.valid(bench.now)

    def test_validity_counts_from_sending(self, bench: Bench, play: type[Play]) -> None:
        """Validity counts from the sending, not from the answer."""
        [hold] = watched(bench, "a")
        later(bench)
        sent_at = bench.now
        played = play(one_round(bench))
        bench.now += 5.0
        played.answer([[1]])

        assert hold.valid_until == valid_until(sent_at, 30.0)

    def test_all_at_once_when_told_to_hasten(self, bench: Bench, rounds: Rounds) -> None:
        """If another server answers, every hold is asked for at once; rounds go on as before."""
        hold, other = watched(bench, "a", "b")
        wakes = bench.wakes
        rounds.watchdog.renew_now(bench.now)
        assert bench.wakes == wakes + 1
        assert rounds.watchdog.next_due(bench.now) == bench.now
        rounds.run(lambda keys: [int(key == "a") for key in keys])
        assert rounds.batches[0] == (("a", "b"),)
        assert (hold.state, other.state) == (HELD, LOST)
        assert hold.renew_at > bench.now + 1

    def test_what_a_former_server_answers_late(self, bench: Bench, play: type[Play]) -> None:
        """The next server is asked all the same: it may have given the lock to somebody else."""
        renewed, claimed = watched(bench, "a", "b")
        watchdog, sent_at = bench.session.watchdog, bench.now
        claimed.asked_by = NEVER
        watchdog.expect(claimed, sent_at)
        renewed.renew_at = bench.now
        played = play(one_round(bench))
        assert [call.keys for call in played.effect.evals] == [("a",)]
        bench.now += 0.01
        watchdog.renew_now(bench.now)
        played.answer([[1]])
        claimed.extend_validity(sent_at, 30.0)
        watchdog.confirmed(claimed, sent_at)
        assert watchdog.due(bench.now, Round()) == [renewed, claimed]

    def test_at_once_what_another_node_serves(self, bench: Bench, rounds: Rounds) -> None:
        """Only holds whose slot has moved since their last renewal are asked for earlier."""
        watched(bench, "stays", "moves")
        bench.now += 5.0
        moved_at = bench.now
        bench.now += 0.2

        def took_over(key: str) -> float:
            return bench.now - moved_at if key == "moves" else NEVER

        bench.session.took_over = took_over
        for wakes in (1, 2):
            rounds.watchdog.follow_keys()
            assert bench.wakes == wakes
            rounds.run()
            bench.now += 1.0
        assert rounds.batches == [(("moves",),)]

    def test_nothing_that_is_not_due(self, bench: Bench, rounds: Rounds) -> None:
        """Holds are renewed once in a round, and those with a lease of their own never."""
        watched(bench, "a")
        bench.hold("b").renewal = None
        later(bench)
        rounds.run()
        rounds.run()

        assert rounds.batches == [(("a",),)]

    def test_slots_and_kinds_apart(self, bench: Bench, rounds: Rounds) -> None:
        """Holds in other slots, or renewed differently, share a write but not a script."""
        rounds.watchdog._apart = lambda key: ord(key) % 2
        holds = watched(bench, *"abcd")
        holds[3].renewal = functools.partial(bench.lock.renewal)
        later(bench)
        result = rounds.run()

        assert rounds.batches == [(("a", "c"), ("b",), ("d",))]
        assert result.renewed == 4

    def test_nothing_that_was_released_while_it_waited(
        self, bench: Bench, rounds: Rounds, play: type[Play]
    ) -> None:
        """Its owner's next hold may have the same id, and a shorter lease."""
        released, _ = watched(bench, "a", "b")
        later(bench)
        result = Round()
        due = rounds.watchdog.due(bench.now, result)
        assert len(due) == 2
        bench.session.holds.end(released)
        played = play(rounds.watchdog.renew(due, lambda: bench.now, result))
        assert isinstance(played.effect, Batch)
        assert [call.keys for call in played.effect.evals] == [("b",)]

    def test_nothing_that_has_stopped_being_renewed_meanwhile(
        self, make_bench: Callable[..., Bench], play: type[Play]
    ) -> None:
        """A hold that changes while an earlier batch is under way is not asked for."""
        bench = make_bench(renew_batch=1)
        rounds = Rounds(bench, play)
        _, second = watched(bench, "a", "b")

        def answer(_: object) -> object:
            second.renewal = None
            return [1]

        later(bench)
        rounds.run(answer)

        assert rounds.batches == [(("a",),), ()]

    def test_deadline_is_the_earliest_end(self, bench: Bench, play: type[Play]) -> None:
        """A renewal is of no use to the hold that ends first once that is over."""
        early, _ = watched(bench, "a", "b")
        early.valid_until -= 5.0
        later(bench)
        played = play(one_round(bench))

        assert played.effect.evals[0].deadline == early.valid_until


class TestTrouble:
    """What is lost, and what is only unknown."""

    def test_not_ours_is_lost(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that the server does not know is lost at once, and its listeners are told.

        The others are kept.
        """
        gone, kept = watched(bench, "a", "b")
        gone.listen(lambda: "told")
        later(bench)
        rounds.run(lambda _: [0, 1])

        assert (gone.state, gone.reason) == (LOST, "server lost it")
        assert bench.told == ["told"]
        assert kept.valid(bench.now)

    def test_released_meanwhile_is_not_lost(self, bench: Bench, play: type[Play]) -> None:
        """An answer about a hold that was released while it was asked for says nothing."""
        [hold] = watched(bench, "a")
        later(bench)
        played = play(one_round(bench))
        hold.state = ENDING
        played.answer([[0]])

        assert hold.state is ENDING

    def test_no_answer_is_asked_again_soon(self, bench: Bench, rounds: Rounds) -> None:
        """Without an answer no valid hold is lost; the batch is repeated before the next round."""
        a, b = watched(bench, "a", "b")
        b.renewal = functools.partial(bench.lock.renewal)
        later(bench)
        result = rounds.run(lambda keys: UNAVAILABLE if keys == ("a",) else [1])

        assert result.failures == [UNAVAILABLE]
        assert result.renewed == 1
        assert (a.state, b.state) == (HELD, HELD)
        assert rounds.watchdog.next_due(bench.now) == bench.now + rounds.watchdog.retry
        bench.now += rounds.watchdog.retry
        rounds.run()
        assert rounds.batches[-1] == (("a",),)

    @pytest.mark.parametrize("where", ["script", "answer"])
    def test_an_error_of_one_renewal(self, bench: Bench, rounds: Rounds, where: str) -> None:
        """A renewal that raises, or is answered by nonsense, stops no other one."""
        a, b = watched(bench, "a", "b")

        def broken(*_: object, **__: object) -> NoReturn:
            raise ZeroDivisionError

        a.renewal = functools.partial(broken if where == "script" else bench.lock.renewal)
        later(bench)
        result = rounds.run(lambda keys: [] if keys == ("a",) else [1])

        assert [type(error) for error in result.failures] == [
            ZeroDivisionError if where == "script" else ValueError
        ]
        assert result.renewed == 1
        assert b.valid_until > a.valid_until

    def test_no_answer_until_the_end_is_lost(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that could not be renewed in time is lost when its validity ends, not later."""
        [hold] = watched(bench, "a")
        later(bench)
        while bench.now + rounds.watchdog.retry < hold.valid_until:
            rounds.run(lambda _: UNAVAILABLE)
            assert hold.state is HELD
            bench.now += rounds.watchdog.retry

        def answer(_: object) -> object:
            bench.now = hold.valid_until
            return UNAVAILABLE

        rounds.run(answer)

        assert (hold.state, hold.reason) == (LOST, "unreachable past validity")

    def test_a_pause_until_the_end_is_no_outage(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that nobody tried to renew until its validity ended has expired."""
        renewed, new = watched(bench, "a", "b")
        later(bench)
        rounds.run()
        watched_late = bench.hold("c")
        bench.session.watchdog.watch(watched_late)
        bench.now = max(renewed.valid_until, watched_late.valid_until)
        rounds.run()

        for hold in (renewed, new, watched_late):
            assert (hold.state, hold.reason) == (LOST, "expired")

    def test_overdue_is_ended_without_a_round(self, bench: Bench) -> None:
        """`end_overdue` notes without a round what is over, and returns when the next hold ends."""
        over, ending, valid = (bench.hold(name) for name in "abc")
        ending.state = ENDING
        bench.hold("d", state=PENDING).valid_until = 0.0
        over.valid_until = ending.valid_until = bench.now

        assert bench.session.watchdog.end_overdue(bench.now) == valid.valid_until
        assert (over.state, ending.state) == (LOST, LOST)

    def test_what_was_taken_during_a_long_round_is_over_in_time(
        self, bench: Bench, rounds: Rounds
    ) -> None:
        """A new hold that ends after the next round, but before all known ones, is noticed."""
        watched(bench, "a")
        bench.session.watchdog.end_overdue(bench.now)
        short = bench.hold("b")
        short.valid_until = rounds.watchdog.next_due(bench.now) + 1.0
        bench.session.watchdog.watch(short)

        bench.session.watchdog.end_overdue(short.valid_until)

        assert short.state is LOST

    def test_nothing_is_overdue_without_holds(self, bench: Bench) -> None:
        """With nothing held nothing ends."""
        assert bench.session.watchdog.end_overdue(bench.now) == NEVER


class TestAbandoned:
    """Holds that nobody is left to release."""

    @pytest.fixture
    def orphan(self, bench: Bench) -> Hold:
        """Give a renewed hold whose owner is gone."""
        hold = bench.hold("a", owner=Owner("ended", lambda: True))
        gc.collect()
        return hold

    def test_released_while_it_is_looked_at(self, bench: Bench, rounds: Rounds) -> None:
        """A hold whose thread releases it and ends, just while we look, was not abandoned."""

        def ended() -> bool:
            hold.state = ENDED
            return True

        owner = Owner("ends", ended)
        hold = bench.hold("a", owner=owner)
        bench.session.watchdog.watch(hold)
        later(bench)

        assert rounds.run().abandoned == []

    def test_are_not_renewed(self, bench: Bench, rounds: Rounds, orphan: Hold) -> None:
        """The hold of a thread that has ended is reported, forgotten, and left to its lease."""
        later(bench)
        result = rounds.run()

        assert result.abandoned == [orphan]
        assert rounds.batches == []
        assert orphan not in bench.session.holds

    def test_are_not_confused_with_the_next_hold_of_the_owner(
        self, bench: Bench, rounds: Rounds
    ) -> None:
        """A late release of an abandoned hold names another holder than its owner's next hold."""
        hold = bench.held()
        hold.disown()
        result = rounds.run()

        assert result.abandoned == [hold]
        assert bench.held().holder != hold.holder

    def test_are_forgotten_when_lost(self, bench: Bench, rounds: Rounds, orphan: Hold) -> None:
        """A lost hold stays in the table until its owner hears of it or is gone."""
        orphan.lose("expired")
        stays = bench.hold("b")
        stays.lose("expired")
        rounds.run()

        assert list(bench.session.holds) == [stays]

    def test_that_ran_out_are_forgotten(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that ended with its own lease leaves the table a lease later, if outside a block.

        Its owner then draws a new number, so that a late command cannot hit the next hold.
        """
        hold, number = bench.held(lease=60.0), bench.owner.number
        bench.now += 60.0
        rounds.run()
        assert list(bench.session.holds) == [hold]
        bench.now += 60.0 + 1
        rounds.run()
        assert len(bench.session.holds) == 0
        assert bench.owner.number != number

    def test_that_ran_out_inside_a_block_stay(self, bench: Bench, rounds: Rounds) -> None:
        """A hold that ran out inside a block stays until the block is left and raises."""
        hold, block = bench.held(lease=30.0), Owner("a block")
        hold.hand(weakref.ref(block))
        bench.now += 300.0
        rounds.run()
        assert list(bench.session.holds) == [hold]

    def test_with_a_lease_of_their_own_end_with_it(
        self, bench: Bench, rounds: Rounds, orphan: Hold
    ) -> None:
        """A hold that was meant to end by itself is not reported."""
        orphan.renewal = None

        assert rounds.run().abandoned == []
