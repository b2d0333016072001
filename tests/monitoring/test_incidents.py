"""Incidents are played with real servers and processes, and operators are told the truth."""

from __future__ import annotations

import json

import pytest
from faultlab.incidents.monitoring import RULES, faster
from faultlab.incidents.page import PAGE, TIMES, rows
from faultlab.incidents.play import play
from faultlab.incidents.table import INCIDENTS
from tests.support.patience import GIVE_UP, wait_until

DASHBOARD = RULES.parents[1] / "grafana" / "interlock.json"

PLAYED = (
    "a holder with a long lease is killed",
    "the first in a queue is frozen",
    "two names look alike",
    "a key is deleted",
    "the server restarts with its data",
)
"""The incidents that tests play; ``python -m faultlab incidents`` plays all."""


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize("name", PLAYED)
def test_the_truth_is_told(name: str) -> None:
    """Log, commands, console, metrics and alerts tell what is so, and nothing else."""
    [incident] = [each for each in INCIDENTS if each.name == name]
    outcome = play(incident)
    assert outcome.lies == []
    assert outcome.missing == [], outcome.texts


@pytest.mark.needs("prometheus")
def test_each_panel_of_the_dashboard_shows_something() -> None:
    """A real Prometheus has values for each panel while locks are used, awaited and lost."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    queries = {
        each["expr"].replace("$__rate_interval", "20s") for p in panels for each in p["targets"]
    }
    # Nobody drops a hold here, and the server answers.
    queries = {each for each in queries if "abandoned" not in each and "failed" not in each}
    assert len(queries) > len(panels)
    [lost] = [each for each in INCIDENTS if each.name == "a key is deleted"]
    with lost.play() as stage:
        stage.start("crowd")
        left = set(queries)

        def shown() -> bool:
            left.difference_update([each for each in left if stage.monitoring.sees(each)])
            return not left

        wait_until(shown, GIVE_UP, "each panel has a value")


def test_there_are_twenty_incidents() -> None:
    """Each incident has a name of its own, and `interlock why` says something in each."""
    names = [each.name for each in INCIDENTS]
    assert len(set(names)) == len(names) >= 20
    assert all(each.says["why"] for each in INCIDENTS)


def test_the_page_has_the_table() -> None:
    """The page "On call" tells of each incident what each tool says, and after how long."""
    page = PAGE.read_text("utf-8")
    for row in rows(json.loads(TIMES.read_text())):
        assert row in page
        assert "not played" not in row


def test_the_rules_are_ten_times_as_fast() -> None:
    """Spans and bounds in seconds are a tenth, and nothing else is changed."""
    rules = faster(RULES.read_text("utf-8"))
    for text in ("[30000ms]", "offset 30000ms", "for: 6000ms", "seconds < 1.0", "> 360.0", "> 0"):
        assert text in rules
    assert "for: 1m" not in rules
