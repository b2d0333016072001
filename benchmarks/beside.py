"""The table of what each object makes of its own bare limit, in a page of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.compare import BARE, OF_ITS_OWN, PLAIN, Spread, ratios

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.report import Report

BEGIN, END = "<!-- begin: python -m benchmarks objects --page -->", "<!-- end: objects -->"
"""What stands before and after the table in the page."""
_MISSED = "**{}**"


def twin(name: str) -> str:
    """Return the name of the bare limit of the peer *name*."""
    return BARE if name == PLAIN else OF_ITS_OWN + name


def as_twins(report: Report) -> str:
    """Return a line for each object: its share of its own bare limit in each case.

    The shares are medians of the ratios of single rounds. Those that miss their goal are bold.
    """
    cases = list(dict.fromkeys(str(one.contender.case) for one in report.results))
    goals = {(goal.case, goal.peer): goal.least for goal in report.goals if goal.to is not None}
    names = [one.contender.peer.name for one in report.results]
    lines = [f"| object | {' | '.join(cases)} |", f"|---|{'---|' * len(cases)}"]
    for name in dict.fromkeys(name for name in names if twin(name) in names):
        cells = [_share(report, case, name, goals.get((case, name))) for case in cases]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(report: Report, case: str, name: str, least: float | None) -> str:
    """Return the share of *name* in *case*; a dash if it was not measured."""
    ours, limit = report.result(case, name), report.result(case, twin(name))
    if ours is None or limit is None:
        return "-"
    figures = ratios(ours, limit, "rate")
    if not figures:
        return "error"
    share = Spread.of(figures).median
    return _MISSED.format(f"{share:.2f}") if least and share < least else f"{share:.2f}"


def write(report: Report, page: Path) -> None:
    """Put the table of *report* between `BEGIN` and `END` in *page*.

    Raises:
        ValueError: *page* has no such place.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    environment, settings = report.environment, report.settings
    told = (
        f"{environment.started}, load {environment.load} before, {settings['rounds']:g} rounds of\n"
        f"{settings['seconds']:g} s, seed {settings['seed']:.0f}, commit "
        f"{(environment.commit or 'unknown')[:8]}."
    )
    table = f"{BEGIN}\n{told}\n\n{as_twins(report)}\n\n{END}"
    _ = page.write_text(before + table + after, encoding="utf-8")
