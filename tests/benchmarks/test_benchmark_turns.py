"""What is made of turns: the proof of exclusion, waits, fairness, and the goals' verdicts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from benchmarks.compare import Contender, Result
from benchmarks.environment import Environment
from benchmarks.measure import Case, NothingCountedError
from benchmarks.peer import ProgramPeer, SyncPeer
from benchmarks.peers import bare
from benchmarks.report import BEST, BEST_PYTHON, Column, Goal, Report, starves
from benchmarks.tables import as_markdown, as_table
from benchmarks.turns import OverlapError, Turn, check_exclusive, percentile, summarise


def test_turns_of_different_workers_that_overlap_are_found() -> None:
    """Two holders at once are an error, wherever they are; one after the other is none."""
    apart = [[Turn(0, 1, 2), Turn(2, 4, 5)], [Turn(0, 2.5, 3.5)]]
    check_exclusive(apart)
    with pytest.raises(OverlapError, match="2 workers"):
        check_exclusive([[Turn(0, 1, 2)], [Turn(0, 1.5, 3)]])


def test_more_holders_than_one_are_allowed_to_a_semaphore() -> None:
    """The limit is the number of permits."""
    three = [[Turn(0, 1, 4)], [Turn(0, 2, 4)], [Turn(0, 3, 4)]]
    check_exclusive(three, limit=3)
    with pytest.raises(OverlapError, match="3 workers"):
        check_exclusive(three, limit=2)


def test_a_percentile_is_one_of_the_figures() -> None:
    """It is the least figure that the share does not exceed, at both ends too."""
    figures = [float(number) for number in range(100, 0, -1)]
    assert percentile(figures, 0.5) == 50
    assert percentile(figures, 0.99) == 99
    assert percentile(figures, 1.0) == 100
    assert percentile([7.0], 0.01) == 7.0


def test_turns_are_summed_up_over_the_window_alone() -> None:
    """The warm-up counts for nothing, and waits are those of the turns that were got."""
    early, late = Turn(0.0, 0.5, 0.9), Turn(9.0, 11.5, 12.0)
    workers = [[early, Turn(0.9, 2.0, 3.0), Turn(3.0, 5.0, 6.0)], [Turn(1.0, 3.0, 5.0), late]]
    figures = summarise(workers, opens=1.0, closes=11.0)
    assert figures["rate"] == pytest.approx(0.3)
    assert (figures["least"], figures["most"], figures["mean"]) == (1, 2, 1.5)
    assert figures["uneven"] == 2
    assert figures["max_wait"] == 2.5  # began in the window, and ended after it
    assert figures["p99_of_ideal"] == pytest.approx(2.5 / (10 / 3))


def test_a_worker_that_never_has_its_turn_shows() -> None:
    """It makes the shares infinitely uneven, and its wait the longest."""
    workers = [[Turn(t, t + 0.1, t + 0.9) for t in range(10)], [Turn(0.0, 10.5, 11.0)]]
    figures = summarise(workers, opens=0.0, closes=10.0)
    assert figures["uneven"] == math.inf
    assert figures["max_wait"] == 10.5
    assert starves(Result(_contender("peer"), [figures]))


def test_nobody_having_a_turn_is_no_figure() -> None:
    """A peer that hands out nothing is an error, not a rate of nought."""
    with pytest.raises(NothingCountedError, match="nobody"):
        summarise([[], []], 0.0, 1.0)


CASE = Case("threads", 4, processes=2, work=0.001)


def _contender(name: str) -> Contender:
    return Contender(CASE, SyncPeer(name, (), open=bare.SYNC.open))


def _report(*goals: Goal) -> Report:
    fair, starving = {"least": 9.0, "mean": 10.0}, {"least": 0.0, "mean": 10.0}
    results = [
        Result(_contender("bare lock"), [{"rate": 500.0, **fair}] * 2),
        Result(_contender("interlock"), [{"rate": 90.0, **fair}, {"rate": 60.0, **fair}]),
        Result(_contender("slow"), [{"rate": 30.0, **fair}, {"rate": 30.0, **fair}]),
        Result(_contender("greedy"), [{"rate": 300.0, **starving}, {"rate": 300.0, **fair}]),
        Result(_contender("broken"), [], "ValueError: no"),
    ]
    here = Environment("now", "Linux", "a processor", 2, 0.0, "CPython", compiled=True, commit=None)
    return Report(
        "contended",
        "How?",
        (Column("rate", "acquisitions/s"),),
        {"rounds": 2},
        here,
        {"name": "redis", "version": "7"},
        results,
        ("slow",),
        goals,
    )


def test_the_best_peer_is_the_best_of_those_that_starve_nobody() -> None:
    """Neither the limit nor a peer that starves waiters in any round is what others are held to."""
    (verdict,) = _report(Goal(str(CASE), "rate", to=BEST, least=3.0)).verdicts()
    assert (verdict.rival, verdict.reached, verdict.met) == ("slow", 2.5, False)


def test_the_best_in_python_may_be_asked_for() -> None:
    """A program in another language is then no rival, however fast.

    It is one if the best of all is asked for.
    """
    program = ProgramPeer("other", (), build=lambda: None, other={})
    quick = Result(Contender(CASE, program), [{"rate": 600.0, "least": 9.0, "mean": 10.0}] * 2)
    goals = [Goal(str(CASE), "rate", to=to, least=1) for to in (BEST_PYTHON, BEST)]
    report = _report(*goals)
    verdicts = replace(report, results=[*report.results, quick]).verdicts()
    assert [verdict.rival for verdict in verdicts] == ["slow", "other"]


def test_a_goal_beside_a_peer_that_was_not_asked_for_is_none() -> None:
    """With some peers alone there is nothing to say about the others."""
    assert _report(Goal(str(CASE), "rate", to="redisson", least=1)).verdicts() == []


def test_a_goal_is_reached_missed_or_unknown() -> None:
    """A goal has the median of the ratios, or of the figures; without either it is unknown."""
    reached, missed, unknown, other = (
        Goal(str(CASE), "rate", least=70),
        Goal(str(CASE), "rate", most=70),
        Goal(str(CASE), "rate", to="broken", least=1),
        Goal("another case", "rate", least=70),
    )
    report = _report(reached, missed, unknown, other)
    assert [verdict.met for verdict in report.verdicts()] == [True, False, False]
    assert [verdict.reached for verdict in report.verdicts()] == [75, 75, None]
    table = as_table(report)
    assert "reached 2 x 4 threads, 1 ms: rate of interlock >= 70: 75" in table
    assert "MISSED  2 x 4 threads, 1 ms: rate of interlock <= 70: 75" in table
    assert "no figure" in table


def test_a_goal_may_be_a_difference() -> None:
    """What is to lie at most so far above another's figure is subtracted, round by round."""
    (verdict,) = _report(Goal(str(CASE), "rate", to="slow", most=50, apart=True)).verdicts()
    assert (verdict.reached, verdict.met, str(verdict.goal)[-16:]) == (45, True, "<= 50 above slow")


def test_a_goal_without_a_rival_says_so() -> None:
    """If every other peer starves somebody or fails, the table says that there is no rival."""
    report = _report(Goal(str(CASE), "rate", to=BEST, least=1))
    alone = replace(report, results=[one for one in report.results if one.error or starves(one)])
    with_ours = replace(report, results=[*alone.results, report.results[1]])
    (verdict,) = with_ours.verdicts()
    assert (verdict.reached, verdict.alone, verdict.met) == (None, True, False)
    assert "alone   " in as_table(with_ours)


def test_a_starving_peer_is_marked_and_an_error_is_told() -> None:
    """Both tables mark who starves its waiters and tell an error in place of figures."""
    for text in (as_table(_report()), as_markdown(_report())):
        (greedy,) = [line for line in text.splitlines() if "greedy" in line]
        assert "STARVES" in greedy
        assert text.count("STARVES") == 1
        assert "error: ValueError: no" in text
