"""A report as text: aligned for terminals, or as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.compare import Spread
from benchmarks.report import starves

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.compare import Result
    from benchmarks.report import Column, Report, Verdict

_RATIO = ".2f"


def as_table(report: Report) -> str:
    """Return *report* as text for people."""
    rows = [["case", "peer", *_titles(report)]]
    case = None
    for result in report.results:
        if case not in (None, result.contender.case):
            rows.append([])
        first = result.contender.case != case
        case = result.contender.case
        name = result.contender.peer.name
        rows.append([str(case) if first else "", name, *_cells(report, result)])
    goals = [f"{_mark(verdict):<7} {_told(verdict)}" for verdict in report.verdicts()]
    lines = [*_header(report), "", *_aligned(rows)]
    return "\n".join([*lines, *([""] if goals else []), *goals])


def as_markdown(report: Report) -> str:
    """Return *report* as a chapter of a Markdown page."""
    titles = ["case", "peer", *_titles(report)]
    lines = [f"## {report.command}", "", report.question, ""]
    lines += [_row(titles), _row(["---"] * len(titles))]
    for result in report.results:
        cells = [str(result.contender.case), result.contender.peer.name, *_cells(report, result)]
        lines.append(_row(cells + [""] * (len(titles) - len(cells))))
    header = _header(report)[1:]
    return "\n".join([*lines, "", *(f"* {line}" for line in header), ""])


def as_goals(reports: Sequence[Report]) -> str:
    """Return what was to be reached in all *reports*, and what was, as one Markdown table."""
    lines = ["| work | goal | reached | |", "|---|---|---|---|"]
    lines += [
        _row([report.command, str(verdict.goal), _reached(verdict), _mark(verdict)])
        for report in reports
        for verdict in report.verdicts()
    ]
    return "\n".join([*lines, ""])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _header(report: Report) -> list[str]:
    environment = report.environment
    return [
        f"{report.command}: median (min..max) over rounds; ratios round by round",
        f"{environment.started}, commit {environment.commit or 'unknown'}",
        f"{environment.system}, {environment.processor}, {environment.cpus} cpus",
        f"load {environment.load}, {environment.python}",
        f"interlock {'with' if environment.compiled else 'without'} its part in C",
        f"server {report.server['name']} {report.server['version']}, on the same machine",
        ", ".join(f"{name} {value}" for name, value in report.settings.items()),
        _versions(report),
        *report.notes,
    ]


def _versions(report: Report) -> str:
    packages: dict[str, str] = {}
    for result in report.results:
        packages |= result.contender.peer.versions()
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def _titles(report: Report) -> list[str]:
    return [
        *(column.title for column in report.columns),
        *(f"of {name}" for name in report.references),
    ]


def _cells(report: Report, result: Result) -> list[str]:
    if result.error is not None:
        return [f"error: {' '.join(result.error.split())}"]
    shares = report.shares(result)
    cells = [
        *(_spread(column, result.figures(column.name)) for column in report.columns),
        *(_ratio(shares.get(name, [])) for name in report.references),
    ]
    if starves(result):
        cells[-1] += "  STARVES"
    return cells


def _spread(column: Column, figures: Sequence[float]) -> str:
    scaled = [figure * column.scale for figure in figures]
    if not scaled:
        return "-"
    spread = Spread.of(scaled)
    if len(scaled) == 1:
        return f"{spread.median:{column.form}}"
    return (
        f"{spread.median:{column.form}} ({spread.low:{column.form}}..{spread.high:{column.form}})"
    )


def _ratio(figures: Sequence[float]) -> str:
    if not figures:
        return "-"
    spread = Spread.of(figures)
    if len(figures) == 1:
        return f"{spread.median:{_RATIO}}"
    return f"{spread.median:{_RATIO}} ({spread.low:{_RATIO}}..{spread.high:{_RATIO}})"


def _mark(verdict: Verdict) -> str:
    if verdict.reached is None:
        return "alone" if verdict.alone else "unknown"
    return "reached" if verdict.met else "MISSED"


def _reached(verdict: Verdict) -> str:
    if verdict.reached is None:
        return "no rival" if verdict.alone else "no figure"
    rival = f" ({verdict.rival})" if verdict.rival is not None else ""
    return f"{verdict.reached:.3g}{rival}"


def _told(verdict: Verdict) -> str:
    return f"{verdict.goal}: {_reached(verdict)}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    # The last cell of a row widens no column: it may be an error of any length.
    widths = [
        max((len(row[i]) for row in rows if i < len(row) - 1), default=0)
        for i in range(len(rows[0]) - 1)
    ]
    widths.append(0)
    for row in rows:
        cells = zip(row, widths, strict=False)
        yield "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()
