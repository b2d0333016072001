"""All works in one run, written to a directory: tables, JSON and charts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.charts import draw
from benchmarks.measure import Pace
from benchmarks.report import as_json
from benchmarks.tables import as_goals, as_markdown
from benchmarks.work import conduct

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks.report import Report
    from benchmarks.work import Work

WARMUP = 0.3  # seconds
_BRIEF = 0.05  # seconds to warm up in a short run


def conduct_all(
    works: Iterable[Work], directory: Path, *, short: bool, seed: int | None, server: Path | None
) -> list[Report]:
    """Measure *works* and write each one's report as soon as it is there; return all of them.

    Args:
        works: What to measure.
        directory: Where report.md, and JSON and SVG for each work go; made if need be.
        short: One short round of few contenders: it shows that everything runs, and no more.
        seed: Of the order, for all works; None draws one each.
        server: The binary to run.
    """
    directory.mkdir(parents=True, exist_ok=True)
    reports: list[Report] = []
    for work in works:
        if short and not work.brief:
            continue
        if short:
            brief = replace(work, contenders=work.brief)
            report = conduct(
                brief, pace=Pace(_BRIEF, work.brief_seconds), rounds=1, seed=seed, server=server
            )
        else:
            pace = Pace(WARMUP, work.seconds)
            report = conduct(work, pace=pace, rounds=work.rounds, seed=seed, server=server)
        text = json.dumps(as_json(report), indent=2)
        (directory / f"{work.name}.json").write_text(text + "\n", encoding="utf-8")
        draw(report, directory / f"{work.name}.svg")
        reports.append(report)
        # Again after each work: a run that is stopped has told all that it knew.
        (directory / "report.md").write_text(_page(reports, short=short), encoding="utf-8")
    return reports


def _page(reports: list[Report], *, short: bool) -> str:
    chapters = [
        f"{as_markdown(report)}\n![{report.question}]({report.command}.svg)\n" for report in reports
    ]
    warning = "**A short run: it shows that everything runs. Believe no figure of it.**\n"
    head = ["# Benchmark report\n", *([warning] if short else []), as_goals(reports)]
    return "\n".join([*head, *chapters])
