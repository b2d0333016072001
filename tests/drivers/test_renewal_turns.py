"""The turns of the renewal thread, played by hand: nothing that is due waits for another round."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from tests.core.bench import Bench

from interlock._core.insight.card import LOOK
from interlock._core.model.effects import NEVER
from interlock._drivers.background.renewer import PAUSE_AFTER_ERROR, Renewer
from interlock._drivers.process import clock
from interlock._drivers.process.unclaimed import Unclaimed
from interlock._drivers.threads import current_owner

if TYPE_CHECKING:
    from collections.abc import Callable


class Nodes:
    """The servers of a client that has a lane for each."""

    only = None
    nodes = ("node",)

    def owner(self, key: str) -> str:
        """Return the only node."""
        del key
        return "node"


@pytest.fixture
def renewer() -> Renewer:
    """Give a renewer whose thread is this one."""
    nodes: Any = Nodes()
    unclaimed = Unclaimed(current_owner)
    renewer = Renewer(Bench().session, nodes, 1.0, unclaimed)
    renewer._thread = threading.current_thread()
    return renewer


def _note_work(renewer: Renewer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the renewer note its work in place of doing it, and return the notes."""
    turns: list[int] = []

    def work() -> None:
        renewer._card_due = NEVER
        turns.append(1)

    monkeypatch.setattr(renewer, "_work", work)
    return turns


def test_what_an_error_has_stopped_is_done_soon(
    renewer: Renewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread was woken for something, and has not done it: it does not rest before."""
    turns = _note_work(renewer, monkeypatch)
    assert renewer._turn(rung=True)

    def fail() -> NoReturn:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(renewer, "_work", fail)
        broken.setattr("interlock._drivers.background.callbacks.report_aside", lambda *_: None)
        assert renewer._turn(rung=True) == PAUSE_AFTER_ERROR
    assert renewer._turn(rung=False)
    assert len(turns) == 2


def test_each_turn_of_work_looks_for_operators(
    renewer: Renewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was woken for, it looks; then the next look is due."""
    looks: list[float] = []
    monkeypatch.setattr(renewer.card, "look", looks.append)
    for number in (1, 2):
        seconds = renewer._turn(rung=True)
        assert seconds is not None
        assert seconds <= LOOK
        assert len(looks) == number


def test_a_look_that_was_put_off_is_no_work(
    renewer: Renewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that releases a lock again and again puts off its look each time."""
    turns = _note_work(renewer, monkeypatch)
    looks, lock = renewer._session.looks, Bench().lock
    looks.given(lock, clock.now() - 10)
    assert renewer._turn(rung=True) == 0
    assert renewer._turn(rung=False) == 0
    looks.given(lock, clock.now())
    assert renewer._turn(rung=False)
    assert len(turns) == 2


def test_a_look_that_a_busy_lane_does_not_take_comes_later(renewer: Renewer) -> None:
    """Otherwise the next client would wait until it polls."""
    session: Any = renewer._session
    ignored: Callable[..., bool] = lambda _: False  # noqa: E731 - it stands in place of a method
    lane: Any = renewer._lane(None)
    renewer._lanes = {"node": lane}  # type: ignore[dict-item]
    lane.take = ignored
    session.looks.given(Bench().lock, clock.now() - 10)
    renewer._work()
    assert len(session.looks.calls()) == 1
    assert session.looks.next_due() > clock.now()
