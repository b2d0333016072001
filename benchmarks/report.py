"""The report: where it was measured, a table for each question, and two charts."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import median, ratios
from benchmarks.process import ROOT
from benchmarks.version import compiled
from benchmarks.works import FLEET, OURS, UNCONTENDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from benchmarks.measure import Pace, Result
    from benchmarks.works import Work

_PACKAGES = ("redis", "hiredis", "python-redis-lock", "psycopg")
_CHARTS = (UNCONTENDED, FLEET)


def environment(server: str) -> str:
    """Say where and with what was measured: figures without that mean little."""
    versions = ", ".join(f"{package} {_version(package)}" for package in _PACKAGES)
    parts = "with" if compiled(ROOT) else "without"
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {_commit()}, {parts} the parts in C; "
        f"{platform.system()} {platform.release()} {platform.machine()}, {_processor()}, "
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before; {server} on the same "
        f"machine; {platform.python_implementation()} {platform.python_version()}, {versions}."
    )


def table(work: Work, results: Sequence[Result], pace: Pace) -> str:
    """Return the results of *work* as a Markdown table that can be read in a terminal too."""
    has_other = any(result.contender.name != result.contender.peer for result in results)
    of_other = ["of the other version"] if has_other else []
    titles = [column.title for column in work.columns]
    rows = [["case", "lock", titles[0], *of_other, f"of {work.reference}", *titles[1:]]]
    case = None
    for result in results:
        cells = [str(result.case) if result.case != case else "", result.contender.name]
        case = result.case
        rows.append(cells + _cells(work, result, results, has_other=has_other))
    width = len(rows[0])
    rows = [row + [""] * (width - len(row)) for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(width)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    times = f"medians of {pace.slices} slices" if pace.slices > 1 else "one slice"
    how = f"All take turns: {times} of {pace.seconds:g} s; ratios of single slices."
    return "\n".join([f"## {work.name}", "", work.question, how, "", *lines, ""])


def _cells(work: Work, result: Result, results: Sequence[Result], *, has_other: bool) -> list[str]:
    if result.error is not None:
        return [f"error: {' '.join(result.error.split())[:100]}".replace("|", "/")]

    def beside(name: str) -> str:
        for other in results:
            is_it = other.contender.name == name and other.case == result.case
            if is_it and other is not result and other.slices:
                found = ratios(result.slices, other.slices, work.columns[0].name)
                middle = statistics.median(found)
                spread = f" ({min(found):.2f}..{max(found):.2f})" if len(found) > 1 else ""
                return f"{middle:.2f}{spread}"
        return "-"

    def figure(name: str, form: str, scale: float) -> str:
        middle = median(result.slices, name)
        return f"{middle * scale:{form}}" if math.isfinite(middle) else "∞ (some got none)"

    first, *rest = [figure(each.name, each.form, each.scale) for each in work.columns]
    other = [beside(f"{result.contender.peer} (other)")] if has_other else []
    return [first, *other, beside(work.reference), *rest]


def write(directory: Path, text: str, results: dict[str, Sequence[Result]], *, titles: str) -> None:
    """Write the page *text*, the figures of all slices, and the two charts."""
    directory.mkdir(parents=True, exist_ok=True)
    charts = [work for work in _CHARTS if work.name in results]
    pictures = "".join(f"\n![{work.name}]({work.name}.svg)\n" for work in charts)
    page = f"# Benchmarks\n\n{titles}\n\n{text}{pictures}"
    (directory / "report.md").write_text(page, encoding="utf-8")
    figures = {
        name: [
            {
                "case": str(result.case),
                "lock": result.contender.name,
                "error": result.error,
                "slices": result.slices,
            }
            for result in found
        ]
        for name, found in results.items()
    }
    (directory / "report.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    for work in charts:
        _draw(work, results[work.name], directory / f"{work.name}.svg")


def _draw(work: Work, results: Sequence[Result], path: Path) -> None:
    """Write a chart with a bar for the first figure of each contender, case by case."""
    import matplotlib as mpl  # noqa: PLC0415 - of the extra `bench`

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot as plt  # noqa: PLC0415

    cases = dict.fromkeys(result.case for result in results)
    groups = [[each for each in results if each.case == case] for case in cases]
    heights = [len(group) + 2 for group in groups]
    figure, rows = plt.subplots(
        len(groups),
        figsize=(8, 0.3 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, group in zip(rows[:, 0], groups, strict=True):
        _draw_case(axes, work, group)
    figure.savefig(path)
    plt.close(figure)


def _draw_case(axes: Axes, work: Work, group: Sequence[Result]) -> None:
    column = work.columns[0]
    names = [result.contender.name for result in group]
    heights = [median(result.slices, column.name) * column.scale for result in group]
    colors = ["#c0392b" if name.startswith(OURS) else "#2e86c1" for name in names]
    bars = axes.barh(names, heights, color=colors)
    labels = [f"{height:{column.form}}" if height > 0 else "error" for height in heights]
    axes.bar_label(bars, labels, padding=3, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.tick_params(labelsize=8)
    axes.set_title(f"{group[0].case}: {column.title}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    """Return the commit that is checked out, with "+" if files differ from it."""
    # Without optional locks, a status does not get in the way of somebody's commit.
    words = ("describe", "--always", "--dirty=+", "--exclude=*")
    found = subprocess.run(
        ("git", "--no-optional-locks", "-C", ROOT, *words),
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"  # in an unpacked source distribution
