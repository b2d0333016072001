"""Operations of several locks in lockstep: what decides, and who is given up then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.bench import Play

from interlock._core.locks import composite
from interlock._core.locks.composite import lockstep
from interlock._core.locks.lock import Lock
from interlock._core.model.effects import LATE, NEVER, PAST, Cleanup, Gather, Op, RunOn
from interlock._core.scripts.lock import lock_acquire
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from tests.core.bench import Bench

    from interlock._core.locks.lock_base import Acquire
    from interlock._core.model.holds import Hold


def _tries(bench: Bench) -> tuple[list[Acquire], Play]:
    """Return three acquires, and the play of them all, of which two decide."""
    locks = [Lock(bench.session, name) for name in "abc"]
    steps: list[Any] = [lock.acquire(bench.owner, bench.now, None) for lock in locks]
    return steps, Play(lockstep([(bench.session, step) for step in steps], 1.0, enough=2))


def _asked(play: Play) -> list[str]:
    """Return which scripts are sent now."""
    assert isinstance(play.effect, Gather)
    return [call.script.name for _, call in play.effect.calls]


def test_a_signal_when_enough_have_decided(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Ctrl-C has struck is given back before it is raised, though others have decided."""
    steps, play = _tries(bench)
    done = type(steps[0]).done

    def struck(step: Acquire, answer: Any) -> bool:
        _ = done(step, answer)
        if step is steps[0]:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(type(steps[0]), "done", struck)
    _ = play.answer([None, None, None])
    assert _asked(play) == ["lock_release"]
    with pytest.raises(KeyboardInterrupt):
        _ = play.answer([1])
    assert all(isinstance(effect, Gather) for effect in play.effects)


def _clean(play: Play) -> None:
    """Answer the releases that *play* sends, and let the background take the others, to the end."""
    while True:
        reply: object = None
        if isinstance(play.effect, Gather):
            reply = [1 for _ in play.effect.calls]
        else:
            assert isinstance(play.effect, RunOn)
            try:
                _ = Play(play.effect.op).answer(None)
            except KeyboardInterrupt as signal:
                reply = signal
        _ = play.answer(reply)


@pytest.mark.parametrize("place", range(3))
def test_a_signal_while_a_command_is_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """It is raised, though enough other members are granted before its own clean-up is over."""
    locks = [Lock(bench.session, name) for name in "abc"]
    request = Lock.request

    def struck(lock: Lock, *of: Any) -> Any:
        if lock is locks[place]:
            raise KeyboardInterrupt
        return request(lock, *of)

    monkeypatch.setattr(Lock, "request", struck)
    steps: list[Any] = [lock.acquire(bench.owner, PAST, None) for lock in locks]
    play = Play(lockstep([(bench.session, step) for step in steps], 1.0, enough=2))
    granted: list[object] = [None] * 3
    granted[place] = 0  # the release has found nothing: the try may still arrive
    with pytest.raises(KeyboardInterrupt):
        _clean(play.answer(granted))


@pytest.mark.parametrize(("method", "call"), [("has_sent", 2), ("_return_call", 1)])
def test_a_signal_while_deadlines_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    """It is raised as it is, and the commands that locks keep have no deadline left in them."""
    locks, owner = [Lock(bench.session, name) for name in "abc"], bench.owner
    for lock in locks * 3:
        hold = Play(lock.acquire(owner, PAST, None)).answer(None).result
        _ = Play(hold.release()).answer(1)
    kept = [Play(lock.acquire(owner, PAST, None)) for lock in locks]
    commands = [play.effect for play in kept]
    for play in kept:
        _ = Play(play.answer(None).result.release()).answer(1)
    steps: list[Any] = [lock.acquire(owner, PAST, None) for lock in locks]
    play = Play(lockstep([(bench.session, step) for step in steps], 1.0))
    calls, whole = 0, getattr(composite._Run, method)

    def struck(*of: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        whole(*of)

    monkeypatch.setattr(composite._Run, method, struck)
    with pytest.raises(KeyboardInterrupt):
        _clean(play.answer([5000, None, None]))
    assert calls >= call
    assert [command.deadline for command in commands] == [NEVER] * 3


def test_a_late_member_is_given_up_once(bench: Bench, play: type[Play]) -> None:
    """Its own clean-up goes on undisturbed when the others have decided."""
    given_up: list[str] = []
    hold, calls = bench.held(), [lock_acquire(name, 30, "me:1", 1) for name in "ab"]

    def granted() -> Op[Hold]:
        _ = yield calls[0]
        return hold

    def late() -> Op[None]:
        try:
            _ = yield calls[1]
        except ServerUnavailableError as error:
            given_up.append(f"while it asked, sent: {error.sent}")
        try:
            yield from Cleanup(calls[1], NEVER)
        except ServerUnavailableError:
            given_up.append("while it cleaned up")

    session = bench.session
    played = play(lockstep([(session, granted()), (session, late())], enough=1))
    assert isinstance(played.effect, Gather)
    played.answer([None, LATE])
    cleaning = play(played.effect.op)
    assert isinstance(cleaning.effect, Cleanup)
    assert cleaning.answer(None).over
    assert played.answer(None).result == [hold, None]
    assert given_up == ["while it asked, sent: True"]


def test_a_decision_that_took_long_waits_as_long_again(bench: Bench, play: type[Play]) -> None:
    """Servers far away are given more time than those at hand; a refusal decides nothing."""
    calls = [lock_acquire(name, 30, "me:1", 1) for name in "abc"]
    asking = play(lockstep([(bench.session, iter(call)) for call in calls], enough=2))
    enough = asking.effect.enough

    assert enough(0, None, 0.0) is None
    assert enough(1, 5000, 0.0) is None
    assert enough(2, None, 0.0) == composite.LINGER
    assert enough(2, None, composite.LINGER + 1) == composite.LINGER + 1
