"""A report: what was measured, where, what was to be reached, and all of it as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.compare import Result, Spread, differences, ratios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.environment import Environment

SCHEMA = 2  # raised when a reader of the JSON would have to change
OURS = "interlock"
BEST = "best"
BEST_PYTHON = "best in Python"
_BEST_OF = {
    BEST: " x the best that starves nobody",
    BEST_PYTHON: " x the best in Python that starves nobody",
}
LIMITS = ("bare", "bare lock", "bare over all")
_STARVED = 10  # a waiter who got less than a tenth of the mean was starved


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a work.

    Attributes:
        name: In what was measured and in the JSON.
        title: In tables, with the unit.
        form: How a number is printed.
        scale: The factor by which a number is multiplied before it is printed.
    """

    name: str
    title: str
    form: str = ",.0f"
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for one case.

    Attributes:
        case: As printed.
        column: The figure's name.
        to: The peer to compare with. BEST and BEST_PYTHON stand for the best of the peers that
            starve nobody. None: the figure itself counts.
        least: The median is to be no lower.
        most: The median is to be no higher.
        peer: Whose figure it is.
        apart: Whether to subtract the other's figure, not to divide by it.
    """

    case: str
    column: str
    to: str | None = None
    least: float = -math.inf
    most: float = math.inf
    peer: str = OURS
    apart: bool = False

    def __str__(self) -> str:
        bound = f">= {self.least:g}" if self.least > -math.inf else f"<= {self.most:g}"
        sign = "above" if self.apart else "x"
        to = "" if self.to is None else _BEST_OF.get(self.to, f" {sign} {self.to}")
        return f"{self.case}: {self.column} of {self.peer} {bound}{to}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and what was reached; None when there is no figure.

    Attributes:
        rival: With whom was compared.
        alone: Whether there is no peer to compare with: all others starved somebody, or failed.
    """

    goal: Goal
    reached: float | None
    rival: str | None = None
    alone: bool = False

    @property
    def met(self) -> bool:
        """Whether the median lies within the bounds."""
        return self.reached is not None and self.goal.least <= self.reached <= self.goal.most


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one work.

    Attributes:
        command: As given on the command line.
        question: What was asked.
        columns: The figures; the first is the one that ratios are made of.
        settings: Rounds, seconds and the like, the seed included.
        references: The peers, by name, whose share the others are told as.
        goals: What is to be reached.
        notes: What a reader of the figures must know.
    """

    command: str
    question: str
    columns: Sequence[Column]
    settings: Mapping[str, float]
    environment: Environment
    server: Mapping[str, str]
    results: Sequence[Result]
    references: Sequence[str]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()

    @property
    def failed(self) -> bool:
        """Whether any contender ended in an error."""
        return any(result.error is not None for result in self.results)

    def shares(self, result: Result) -> dict[str, list[float]]:
        """Return the ratios to each other reference of the same case that has figures."""
        shares = {
            other.contender.peer.name: ratios(result, other, self.columns[0].name)
            for other in self.results
            if other is not result and other.contender.case == result.contender.case
        }
        return {name: shares[name] for name in self.references if shares.get(name)}

    def verdicts(self) -> list[Verdict]:
        """Judge every goal whose peers were measured in its case."""
        measured = {(str(one.contender.case), one.contender.peer.name) for one in self.results}
        return [
            self._verdict(goal)
            for goal in self.goals
            if (goal.case, goal.peer) in measured
            and (goal.to in (None, *_BEST_OF) or (goal.case, goal.to) in measured)
        ]

    def _verdict(self, goal: Goal) -> Verdict:
        ours = self.result(goal.case, goal.peer)
        if ours is None or not ours.figures(goal.column):
            return Verdict(goal, None)
        if goal.to is None:
            return Verdict(goal, Spread.of(ours.figures(goal.column)).median)
        of_all = goal.to in _BEST_OF
        rival = self._best(goal) if of_all else self.result(goal.case, goal.to)
        if rival is None or not rival.figures(goal.column):
            return Verdict(goal, None, alone=of_all)
        figures = (differences if goal.apart else ratios)(ours, rival, goal.column)
        return Verdict(goal, Spread.of(figures).median, rival.contender.peer.name)

    def result(self, case: str, peer: str) -> Result | None:
        """Return what *peer* made in *case*; None if it was not measured."""
        for result in self.results:
            if (str(result.contender.case), result.contender.peer.name) == (case, peer):
                return result
        return None

    def _best(self, goal: Goal) -> Result | None:
        rivals = [
            result
            for result in self.results
            if str(result.contender.case) == goal.case
            and result.contender.peer.name not in (goal.peer, *LIMITS)
            and (goal.to == BEST or result.contender.peer.in_python)
            and result.figures(goal.column)
            and not starves(result)
        ]
        worth = max if goal.least > -math.inf else min
        return worth(
            rivals, key=lambda rival: Spread.of(rival.figures(goal.column)).median, default=None
        )


def starves(result: Result) -> bool:
    """Tell whether some waiter got less than a tenth of the mean, in any round."""
    return any(
        figures["least"] * _STARVED < figures["mean"]
        for figures in result.rounds
        if "least" in figures
    )


def as_json(report: Report) -> dict[str, Any]:
    """Return *report* as plain data; docs/reference/benchmarks.md describes it."""
    peers = {result.contender.peer.name: result.contender.peer for result in report.results}
    return {
        "schema": SCHEMA,
        "command": report.command,
        "question": report.question,
        "columns": {column.name: column.title for column in report.columns},
        "settings": dict(report.settings),
        "environment": asdict(report.environment),
        "server": dict(report.server),
        "peers": {name: peer.versions() for name, peer in peers.items()},
        "results": [_result_json(report, result) for result in report.results],
        "goals": [
            {"goal": str(verdict.goal), "reached": verdict.reached, "met": verdict.met}
            for verdict in report.verdicts()
        ],
        "notes": list(report.notes),
    }


def _result_json(report: Report, result: Result) -> dict[str, Any]:
    case, peer = result.contender.case, result.contender.peer
    names = {name: None for figures in result.rounds for name in figures}
    return {
        "case": str(case),
        "kind": case.kind,
        "workers": case.workers,
        "processes": case.processes,
        "work": case.work,
        "peer": peer.name,
        "error": result.error,
        "starves": starves(result),
        "figures": {name: _figures_json(result.figures(name)) for name in names} or None,
        "ratios": {name: _figures_json(figures) for name, figures in report.shares(result).items()},
    }


def _figures_json(figures: Sequence[float]) -> dict[str, Any]:
    # JSON has no infinity, and six digits are more than any figure here is worth.
    def plain(number: float) -> float | None:
        return float(f"{number:.6g}") if math.isfinite(number) else None

    spread = {name: plain(value) for name, value in asdict(Spread.of(figures)).items()}
    return {**spread, "rounds": [plain(figure) for figure in figures]}
