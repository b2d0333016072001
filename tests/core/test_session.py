"""What a client's operations share: identities, and commands that are sent until answered."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.model.effects import NEVER, Cleanup, Eval, Script, Wait
from interlock._core.model.holds import ENDED, ENDING, HELD, LOST, PENDING
from interlock._core.queue.waiters import Waiters
from interlock._core.upkeep.session import DEAF_POLL, FIRST_RETRY_PAUSE, GRACE, LONGEST_RETRY_PAUSE
from interlock.errors import ClosedError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.bench import Bench, Play

    from interlock._core.model.holds import Hold

SCRIPT: Script[bool] = Script("script", "return ARGV[1]", lambda reply: reply == 1)


def call(deadline: float = NEVER) -> Eval[bool]:
    """Return something to send."""
    return Eval(SCRIPT, ("x",), (), deadline)


def unavailable(*, sent: bool = False, transient: bool = True) -> ServerUnavailableError:
    """Return what a driver raises for a server that does not answer."""
    return ServerUnavailableError("no answer", sent=sent, transient=transient)


def test_holder_is_client_and_owner(bench: Bench) -> None:
    """The hash field names the client and the owner's number."""
    assert bench.session.holder(bench.owner) == f"c0ffee:{bench.owner.number}"


def test_key_is_what_the_name_mapper_says(make_bench: Callable[..., Bench]) -> None:
    """A name is its own key unless the user maps names."""
    assert make_bench().session.key("x") == "x"
    assert make_bench(name_mapper=lambda name: f"app:{name}").session.key("x") == "app:x"


def test_farewell_releases_what_another_thread_begins_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim may arrive while the releases are made; its hold would stay for a whole lease."""
    held, waiting = bench.hold("a"), bench.hold("b", state=PENDING)
    release = held.core.release_script

    def begin(hold: Hold, depth: int) -> Eval[int]:
        assert waiting.start(None, bench.now + 1, bench.now)
        return release(hold, depth)

    monkeypatch.setattr(held.core, "release_script", begin)
    calls = bench.session.releases_on_close()
    assert [call.keys[0] for call in calls] == ["a", "b"]
    assert bench.session.releases_on_close() is calls
    assert waiting.state is ENDED


def test_a_claim_does_not_begin_in_a_closed_client(bench: Bench) -> None:
    """Another thread closes the client between the look at the claim and the start."""
    hold = bench.hold(state=PENDING)
    bench.session.releases_on_close()
    assert not hold.start(None, bench.now + 1, bench.now)
    assert hold.state is ENDED


def test_farewell_releases_what_may_be_held(bench: Bench) -> None:
    """A client that closes releases what it holds, or may hold unheard, and forgets everything."""
    for name, state in (
        ("a", HELD),
        ("b", ENDING),
        ("c", PENDING),
        ("d", LOST),
    ):
        bench.hold(name, state=state)
    bench.hold("e", state=PENDING).sent()

    assert [call.keys for call in bench.session.releases_on_close()] == [
        (name, f"interlock_queue:{{{name}}}") for name in "abe"
    ]
    assert len(bench.session.holds) == 0


def test_farewell_is_not_for_what_has_ended(bench: Bench) -> None:
    """A hold whose time is up when its client closes is lost, although nobody has noted that yet.

    So an error of its release would not mean anything.
    """
    hold = bench.hold("a")
    hold.listen(lambda: "told")
    bench.session.watchdog.watch(hold)
    bench.now = hold.valid_until

    assert bench.session.releases_on_close() == []
    assert (hold.state, bench.told) == (LOST, ["told"])


def test_forked_child_holds_nothing(bench: Bench) -> None:
    """In a forked child the client is another one, with queues of its own and without holds."""
    hold, waiters = bench.hold(), Waiters(bench.waiters._mutex, bench)
    bench.session.become("facade", waiters)

    assert bench.session.holder(bench.owner).startswith("facade:")
    assert bench.session.waiters is waiters
    assert (len(bench.session.holds), hold.state) == (0, ENDED)


def test_loss_is_told(bench: Bench) -> None:
    """Everybody who listens to a hold is told of its loss."""
    hold = bench.hold()
    hold.listen(lambda: "told")
    bench.session.lose(hold, "expired")

    assert bench.told == ["told"]


@pytest.mark.parametrize(
    ("hearing", "random", "expected"),
    [(True, 0.0, 1.5), (True, 1.0, 2.0), (False, 1.0, DEAF_POLL)],
)
def test_polls_are_spread_and_frequent_without_messages(
    bench: Bench, hearing: bool, random: float, expected: float
) -> None:
    """Waiters look at different times, within the poll cap, and often while no messages come."""
    bench.waiters.hearing, bench.random = hearing, random

    assert bench.session.poll_interval() == pytest.approx(expected)


class TestPersist:
    """Sending what may be repeated."""

    def test_answer_is_decoded(self, bench: Bench, play: type[Play]) -> None:
        """A first try that is answered is all."""
        played = play(bench.session.persist(call()))

        assert played.answer(1).result is True
        assert len(played.effects) == 1

    def test_sends_again_after_growing_pauses(self, bench: Bench, play: type[Play]) -> None:
        """A server that does not answer is asked again, less and less often."""
        bench.random = 0.5
        asked = call()
        played = play(bench.session.persist(asked))
        pauses: list[float] = []
        for _ in range(7):
            assert played.effect is asked
            played.answer(unavailable())
            assert isinstance(played.effect, Wait)
            pauses.append(played.effect.until - bench.now)
            bench.now = played.effect.until
            played.answer(None)

        assert pauses == pytest.approx(
            [min(FIRST_RETRY_PAUSE * 2**n, LONGEST_RETRY_PAUSE) for n in range(7)]
        )
        assert played.answer(1).result is True

    @pytest.mark.parametrize("sent", [False, True])
    def test_remembers_that_a_try_may_have_run(
        self, bench: Bench, play: type[Play], sent: bool
    ) -> None:
        """Once a reply is lost the outcome is unknown, whatever the later tries come to."""
        asked = call(bench.now + 1)
        played = play(bench.session.persist(asked))
        played.answer(unavailable(sent=sent)).answer(None)
        bench.now += 2
        with pytest.raises(ServerUnavailableError) as raised:
            played.answer(unavailable(sent=False))

        assert asked.unknown == sent
        assert raised.value.sent is sent

    def test_what_others_are_told_is_theirs(self, bench: Bench, play: type[Play]) -> None:
        """An error that several hear of does not tell one of them what another one sent."""
        shared = unavailable(sent=False)
        played = play(bench.session.persist(call(bench.now + 1)))
        played.answer(unavailable(sent=True)).answer(None)
        bench.now += 2
        with pytest.raises(ServerUnavailableError) as raised:
            played.answer(shared)

        assert raised.value.sent
        assert not shared.sent

    def test_a_pause_that_takes_too_long_is_the_end(self, bench: Bench, play: type[Play]) -> None:
        """Who sleeps past the deadline, because the machine stood still, does not try again."""
        played = play(bench.session.persist(call(bench.now + 1)))
        played.answer(unavailable())
        bench.now += 2
        with pytest.raises(ServerUnavailableError):
            played.answer(None)

    def test_gives_up_at_the_deadline(self, bench: Bench, play: type[Play]) -> None:
        """No pause is begun that would not leave time for another try."""
        played = play(bench.session.persist(call(bench.now + FIRST_RETRY_PAUSE / 2)))

        with pytest.raises(ServerUnavailableError):
            played.answer(unavailable())

    def test_no_try_is_made_when_time_is_up(self, bench: Bench, play: type[Play]) -> None:
        """A pause is not begun if chance would make it end after the deadline.

        A try after the deadline would have time of its own.
        """
        bench.random = 0.9
        played = play(bench.session.persist(call(bench.now + FIRST_RETRY_PAUSE * 1.2)))

        with pytest.raises(ServerUnavailableError):
            played.answer(unavailable())

    def test_a_single_try_has_a_second_one(self, bench: Bench, play: type[Play]) -> None:
        """A single try may meet a connection that is stale; it soon fails, and is made once more.

        A try that was slow is not.
        """
        asked = call(bench.now)
        asked.patient = True
        played = play(bench.session.persist(asked)).answer(unavailable(sent=True))
        assert isinstance(played.effect, Wait)
        assert played.answer(None).answer(1).result is True

        played = play(bench.session.persist(asked))
        bench.now += GRACE
        with pytest.raises(ServerUnavailableError):
            played.answer(unavailable(sent=True))

    def test_sits_out_an_outage_without_a_deadline(self, bench: Bench, play: type[Play]) -> None:
        """A command without a deadline is given up one outage time-out after its first failure."""
        played = play(bench.session.persist(call()))
        bench.now += 100
        played.answer(unavailable()).answer(None)
        bench.now += bench.session.options.outage_timeout
        with pytest.raises(ServerUnavailableError):
            played.answer(unavailable())

    @pytest.mark.parametrize(
        "error", [unavailable(transient=False), WrongTypeError("x"), KeyboardInterrupt()]
    )
    @pytest.mark.parametrize("tries", [1, 2])
    def test_raises_what_trying_again_does_not_help(
        self, bench: Bench, play: type[Play], error: BaseException, tries: int
    ) -> None:
        """A refusal or an interruption ends it, at the first try and at later ones."""
        played = play(bench.session.persist(call()))
        if tries == 2:
            played.answer(unavailable()).answer(None)
        with pytest.raises(type(error)):
            played.answer(error)

    def test_again_goes_on_after_a_failed_try(self, bench: Bench, play: type[Play]) -> None:
        """A caller may make the first try itself."""
        asked = call()
        played = play(bench.session.again(asked, unavailable(sent=True)))
        assert isinstance(played.effect, Wait)

        assert played.answer(None).answer(1).result is True
        assert asked.unknown

    def test_again_raises_what_is_no_failure_of_the_server(
        self, bench: Bench, play: type[Play]
    ) -> None:
        """An interruption of the first try is raised before anything is sent again."""
        with pytest.raises(KeyboardInterrupt):
            play(bench.session.again(call(), KeyboardInterrupt()))


class TestCleanUp:
    """Bringing to the server what nobody waits for any more."""

    def clean_up(self, bench: Bench, play: type[Play], **options: Any) -> Play:
        """Play settling something for five seconds."""
        played = play(bench.session.clean_up(call(), bench.now + 5, **options))
        assert played.effect.deadline == bench.now + GRACE
        return played

    @pytest.mark.parametrize(("reply", "late"), [(1, False), (1, True), (None, False)])
    def test_prompt_answer_is_enough(
        self, bench: Bench, play: type[Play], reply: int | None, late: bool
    ) -> None:
        """A server that answers in time leaves nothing to the background."""
        played = self.clean_up(bench, play, late=late).answer(reply)

        assert played.over
        assert len(played.effects) == 1

    @pytest.mark.parametrize(
        ("answer", "late"),
        [(unavailable(), False), (ClosedError("closed"), True), (None, True)],
    )
    def test_rest_is_left_to_the_background(
        self, bench: Bench, play: type[Play], answer: object, late: bool
    ) -> None:
        """The background repeats an unanswered call, and an undo that may have come too early."""
        played = self.clean_up(bench, play, late=late).answer(answer)

        assert played.effect == Cleanup(call(), bench.now + 5, late)
        assert played.answer(None).over

    @pytest.mark.parametrize("answer", [1, unavailable(), KeyboardInterrupt(), GeneratorExit()])
    def test_a_client_that_closes_sends_what_has_no_answer(
        self, bench: Bench, play: type[Play], answer: object
    ) -> None:
        """Its hold is forgotten already. When the background has the call, that sends it."""
        played = self.clean_up(bench, play)
        assert bench.session.holds.clean_up_calls() == [played.effect]
        with suppress(KeyboardInterrupt, GeneratorExit):
            while not played.over:
                played.answer(answer)
                answer = None
        assert bench.session.holds.clean_up_calls() == []
