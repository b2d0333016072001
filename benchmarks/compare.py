"""Compare contenders round by round, so that a machine's changing speed cancels out.

In every round each case is measured with all its contenders, one directly after the other, in an
order shuffled from a seed. A peer and its own bare limit are neighbours. A ratio divides two
figures of the same round and case. The report has the median of these ratios and their spread,
never the ratio of two medians.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.measure import Case
    from benchmarks.peer import Peer


BARE, PLAIN = "bare", "interlock"
"""The bare limit of the plain lock, and that lock."""
OF_ITS_OWN = f"{BARE} "
"""What goes before the name of a peer in that of its own bare limit."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One peer in one case."""

    case: Case
    peer: Peer


@dataclass(slots=True)
class Result:
    """The outcome of one contender: each round's figures by name, or the error that ended it."""

    contender: Contender
    rounds: list[Mapping[str, float]] = field(default_factory=list["Mapping[str, float]"])
    error: str | None = None

    def figures(self, name: str) -> list[float]:
        """Return the figure *name* of each round; empty with an error."""
        return [figures[name] for figures in self.rounds if name in figures]


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some figures and how far they lie apart; quartiles are inclusive."""

    median: float
    low: float
    high: float
    q1: float
    q3: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """Summarise *figures*, of which there is at least one."""
        if len(figures) == 1:
            return cls(*[figures[0]] * 5)
        q1, median, q3 = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(median, min(figures), max(figures), q1, q3)


def compare(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    seed: int,
    measure: Callable[[Contender], Mapping[str, float]],
    progress: Callable[[int, Contender], None],
    by_case: bool = False,
) -> list[Result]:
    """Measure all contenders in *rounds* interleaved rounds.

    With *by_case* the rounds of a case follow each other, and then comes the next case.

    A contender whose measurement raises is not measured again: its result is the error.
    """
    results = [Result(contender) for contender in contenders]
    for number, result in _schedule(results, rounds, random.Random(seed), by_case=by_case):
        if result.error is not None:
            continue
        progress(number, result.contender)
        try:
            result.rounds.append(measure(result.contender))
        except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
            result.error = f"{type(failure).__name__}: {failure}"
            result.rounds.clear()  # what cannot be relied on is not shown as a figure
    return results


def _schedule(
    results: Sequence[Result], rounds: int, rng: random.Random, *, by_case: bool
) -> Iterator[tuple[int, Result]]:
    cases = list(dict.fromkeys(result.contender.case for result in results))
    spans = [[case] for case in cases] if by_case else [cases]
    for span, number in itertools.product(spans, range(1, rounds + 1)):
        for case in rng.sample(span, len(span)):
            twins: dict[str, list[Result]] = {}
            for result in results:
                if result.contender.case == case:
                    twins.setdefault(_object(result.contender.peer.name), []).append(result)
            for group in rng.sample(list(twins.values()), len(twins)):
                for result in rng.sample(group, len(group)):
                    yield number, result


def _object(peer: str) -> str:
    """Return the peer of which *peer* is the own bare limit, or *peer* itself."""
    return PLAIN if peer == BARE else peer.removeprefix(OF_ITS_OWN)


def ratios(result: Result, reference: Result, name: str) -> list[float]:
    """Divide the figures *name* of the two, round by round; empty when either has an error."""
    ours, theirs = result.figures(name), reference.figures(name)
    if not ours or not theirs:
        return []
    return [one / other if other else math.inf for one, other in zip(ours, theirs, strict=True)]


def differences(result: Result, reference: Result, name: str) -> list[float]:
    """Subtract the reference's figures *name*, round by round; empty when either has an error."""
    ours, theirs = result.figures(name), reference.figures(name)
    if not ours or not theirs:
        return []
    return [one - other for one, other in zip(ours, theirs, strict=True)]
