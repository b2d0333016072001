"""Operations of several locks in lockstep: what decides, and who is given up then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.bench import Play

from interlock._core.locks.composite import lockstep
from interlock._core.locks.lock import Lock
from interlock._core.model.effects import Gather

if TYPE_CHECKING:
    from tests.core.bench import Bench

    from interlock._core.locks.lock_base import Acquire


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
