"""The turns of the thread that reports, played by hand: nothing that is due waits for another round."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import interlock
from interlock._core.insight.card import LOOK
from interlock._core.scripts.card import card_write
from interlock._drivers.background.reporter import PAUSE_AFTER_ERROR, RETRY, Reporter
from interlock._drivers.process import clock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def reporter(redis_url: str) -> Iterator[Reporter]:
    """Give a reporter whose thread is this one."""
    with interlock.connect(redis_url) as client:
        driver: Any = client._driver
        reporter = Reporter(driver.state, driver.topology, 1.0)
        reporter._thread = threading.current_thread()
        yield reporter


def test_what_an_error_has_stopped_is_done_soon(
    reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was due, and is not done: the thread does not rest before."""

    def fail() -> NoReturn:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(reporter, "_work", fail)
        broken.setattr("interlock._drivers.background.callbacks.report_aside", lambda *_: None)
        assert reporter._turn() == PAUSE_AFTER_ERROR
    looks: list[float] = []
    monkeypatch.setattr(reporter.card, "look", looks.append)
    seconds = reporter._turn()
    assert seconds is not None
    assert seconds <= LOOK
    assert len(looks) == 1


def test_a_card_that_a_busy_lane_does_not_take_is_due_again(
    reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put off, and no whole round."""
    card = card_write("interlock_client:{1}", "", "1", 1, 1.0, [])
    monkeypatch.setattr(reporter.card, "look", lambda now: card)
    put_off: list[bool] = []
    monkeypatch.setattr(reporter.card, "put_off", lambda: put_off.append(True))
    lane: Any = reporter._lane(reporter._topology.owner(card.keys[0]))
    monkeypatch.setattr(lane, "take", lambda work: False)
    reporter._work()
    assert put_off == [True]
    assert reporter._due <= clock.now() + RETRY


def test_a_closed_reporter_has_no_turn(reporter: Reporter) -> None:
    """Nor has a thread that is not the one that was noted."""
    reporter._thread = threading.Thread()
    assert reporter._turn() is None
    reporter._thread = threading.current_thread()
    reporter._closing = True
    assert reporter._turn() is None
