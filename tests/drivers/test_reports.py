"""What the upkeep reports, and its turns, played by hand: nothing that is due waits for another round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import interlock
from interlock._core.scripts.card import card_write
from interlock._drivers.background.reports import RETRY, Report
from interlock._drivers.background.upkeep import Lane, Upkeep
from interlock._drivers.process import clock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def upkeep(redis_url: str) -> Iterator[Upkeep]:
    """Give the upkeep of a client, whose thread has not begun."""
    with interlock.connect(redis_url) as client:
        upkeep: Upkeep = client._driver._upkeep
        yield upkeep


def test_cards_that_cannot_be_composed_end_no_round(
    upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are reported, and given up: locks are renewed all the same."""
    told: list[Any] = []
    monkeypatch.setattr(
        "interlock._drivers.background.callbacks.report_aside", lambda *args: told.append(args)
    )
    monkeypatch.setattr(upkeep.reports.card, "look", lambda now: 1 / 0)
    _ = upkeep._turn()
    [(_, error)] = told
    assert isinstance(error, ZeroDivisionError)
    assert upkeep.reports.card.refused


def test_a_card_that_a_busy_lane_does_not_take_is_due_again(
    upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put off, and no whole round."""
    card = card_write("interlock_client:{1}", "", "1", 1.0, [])
    monkeypatch.setattr(upkeep.reports.card, "look", lambda now: card)
    put_off: list[bool] = []
    monkeypatch.setattr(upkeep.reports.card, "put_off", lambda: put_off.append(True))
    refused: list[Report] = []

    def refuse(lane: Lane, work: Any, report: Report) -> bool:
        refused.append(report)
        return False

    monkeypatch.setattr(Lane, "take", refuse)
    due = upkeep._turn()
    assert [each.card for each in refused] == [card]
    assert put_off == [True]
    assert due <= clock.now() + RETRY
    upkeep.close(1)
