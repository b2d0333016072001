"""A report as a picture: the first figure of every peer, case by case, with its spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.compare import Spread
from benchmarks.report import LIMITS, OURS, starves

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.compare import Result
    from benchmarks.report import Report

_OURS, _LIMIT, _OTHER, _STARVING = "#c0392b", "#7f8c8d", "#2e86c1", "#aed6f1"
_WIDE = 30  # times the least: figures further apart are drawn on a logarithmic scale
_ROW, _TITLE, _WIDTH = 0.28, 0.75, 8.0  # inches


def draw(report: Report, path: Path) -> None:
    """Write *report* as an SVG file to *path*; an error is its message, without a bar."""
    import matplotlib as mpl  # noqa: PLC0415 - of the extra `bench`

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text
    mpl.rcParams["svg.hashsalt"] = "interlock"  # the same figures make the same file
    from matplotlib import pyplot as plt  # noqa: PLC0415

    groups: dict[str, list[Result]] = {}
    for result in report.results:
        groups.setdefault(str(result.contender.case), []).append(result)
    heights = [len(group) * _ROW + _TITLE for group in groups.values()]
    figure, rows = plt.subplots(
        len(groups),
        1,
        figsize=(_WIDTH, sum(heights) + _TITLE),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (case, group) in zip(rows[:, 0], groups.items(), strict=True):
        _draw_case(axes, case, group, report)
    figure.suptitle(f"{report.command}: {report.question}", fontsize=10)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_case(axes: Axes, case: str, group: list[Result], report: Report) -> None:
    column = report.columns[0]
    spreads = [
        Spread.of([figure * column.scale for figure in figures]) if figures else None
        for figures in (result.figures(column.name) for result in group)
    ]
    medians = [spread.median for spread in spreads if spread is not None and spread.median > 0]
    # A bar on a logarithmic scale has no honest length: there a point is drawn.
    logarithmic = bool(medians) and max(medians) > _WIDE * min(medians)
    for row, (result, spread) in enumerate(zip(group, spreads, strict=True)):
        if spread is None:
            words = " ".join((result.error or "").split())[:80]
            across = axes.get_yaxis_transform()
            axes.text(0.01, row, words, va="center", fontsize=7, transform=across)
            continue
        reach = [[spread.median - spread.low], [spread.high - spread.median]]
        color = _color(result)
        if logarithmic:
            axes.errorbar(spread.median, row, xerr=reach, color=color, fmt="o", capsize=2)
        else:
            axes.barh(row, spread.median, xerr=reach, color=color, capsize=2, height=0.7)
        words = f"   {spread.median:{column.form}}{' starves waiters' if starves(result) else ''}"
        axes.text(spread.high, row, words, va="center", fontsize=7)
    if logarithmic:
        axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.3)
    names = [result.contender.peer.name for result in group]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.15)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{case}: {column.title}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _color(result: Result) -> str:
    name = result.contender.peer.name
    if name in LIMITS:
        return _LIMIT
    if name.startswith(OURS):
        return _OURS
    return _STARVING if starves(result) else _OTHER
