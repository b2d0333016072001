"""One page for who decides: three charts and a table, from three works in one run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.charts import draw
from benchmarks.compare import Spread
from benchmarks.everything import WARMUP
from benchmarks.measure import Case, Pace
from benchmarks.peers import programs, python_redis_lock, redis_py
from benchmarks.peers.interlock import SYNC
from benchmarks.report import starves
from benchmarks.work import conduct, line_up
from benchmarks.works import fleet, handoff, uncontended

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.compare import Result
    from benchmarks.report import Report
    from benchmarks.work import Work

QUESTION = "What does who decides want to know? One page: alone, contended, hand-off."
RIVALS = (redis_py.SYNC, python_redis_lock.SYNC, programs.REDISSON, programs.RUEIDISLOCK)
_PEERS = (SYNC, *RIVALS)
_ALONE = Case("threads", 1)
_FLEET = Case("threads", 1, processes=8, work=0.001)
_HANDOFF = Case("threads", 1, processes=2)
_TABLE = (
    (0, "rate", "alone, pairs/s"),
    (0, "client", "client CPU"),
    (0, "server", "server CPU"),
    (1, "rate", "8 processes, turns/s"),
    (1, "max_wait", "longest wait, ms"),
    (2, "p50", "hand-off p50, µs"),
)
"""Of which work which figure, and its title."""
_LEGEND = """
* **alone**: one thread acquires and releases a lock that nobody else wants.
* **client CPU**, **server CPU**: seconds per million such pairs. A fleet pays for these.
* **8 processes**: each wants one lock all the time and holds it for 1 ms. A peer *starves* if a
  process got less than a tenth of the mean.
* **hand-off**: from a release in one process to the return of an acquire that waits in another.
"""
_DESCRIPTIONS = {
    "interlock": "Python, Redisson's wire",
    "redis-py": "Python, `Redis.lock`; asks ten times a second",
    "python-redis-lock": "Python",
    "redisson": "Java",
    "rueidislock": "Go",
}


def works() -> tuple[Work, ...]:
    """Return the three works, with the peers and cases of the page alone."""
    return tuple(
        replace(work, contenders=line_up([case], _PEERS), columns=work.columns[:columns])
        for work, case, columns in (
            (uncontended.WORK, _ALONE, 3),
            (fleet.WORK, _FLEET, 10),
            (handoff.WORK, _HANDOFF, 2),
        )
    )


def conduct_page(
    page: Path,
    pictures: Path,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    server: Path | None = None,
) -> list[Report]:
    """Measure, and write the page and its pictures.

    Args:
        page: A Markdown file, which is replaced.
        pictures: The directory of the charts.
        rounds: Of each work; None: as many as each wants.
        seconds: Counted in each round; None: as long as each work wants.
        seed: Of the order; None draws one each.
        server: The binary to run.
    """
    reports = [
        conduct(
            work,
            pace=Pace(WARMUP, seconds or work.seconds),
            rounds=rounds or work.rounds,
            seed=seed,
            server=server,
        )
        for work in works()
    ]
    pictures.mkdir(parents=True, exist_ok=True)
    for report in reports:
        draw(report, pictures / f"glance-{report.command}.svg")
    page.write_text(page_of(reports, pictures.name), encoding="utf-8")
    return reports


def page_of(reports: list[Report], pictures: str) -> str:
    """Return the page of the three *reports*, whose charts are in ``../``*pictures*."""
    environment, server = reports[0].environment, reports[0].server
    rounds = ", ".join(f"{report.settings['rounds']:g}" for report in reports)
    lines = [
        "# At a glance\n",
        f"Measured {environment.started[:10]} on {environment.system}, {environment.processor},",
        f"{environment.cpus} processors, {environment.python}, with {server['name']}",
        f"{server['version']} on the same machine. All peers took turns; each figure is the median",
        f"of its rounds ({rounds}).\n",
        f"| | {' | '.join(title for _, _, title in _TABLE)} |",
        f"|---|{'---|' * len(_TABLE)}",
    ]
    for peer in _PEERS:
        cells = [_figure(reports[at], peer.name, column) for at, column, _ in _TABLE]
        lines.append(f"| **{peer.name}**: {_DESCRIPTIONS[peer.name]} | {' | '.join(cells)} |")
    lines += [_LEGEND]
    for report in reports:
        lines.append(f"![{report.command}](../{pictures}/glance-{report.command}.svg)\n")
    commit = (environment.commit or "unknown")[:7]
    lines += [
        *_missed(reports),
        "[The long report](../reference/benchmarks.md) tells how each figure is measured.",
        f"`python -m benchmarks glance` makes this page; it measured commit {commit}.\n",
    ]
    return "\n".join(lines)


def _result(report: Report, name: str) -> Result:
    return next(result for result in report.results if result.contender.peer.name == name)


def _figure(report: Report, name: str, column: str) -> str:
    """Return the median of one figure; a peer that starved a waiter is marked."""
    found = next(one for one in report.columns if one.name == column)
    result = _result(report, name)
    figures = [figure * found.scale for figure in result.figures(column)]
    if not figures:
        return f"error: {result.error}"
    mark = " (starves)" if column == "rate" and starves(result) else ""
    return f"{Spread.of(figures).median:{found.form}}{mark}"


def _missed(reports: list[Report]) -> list[str]:
    """Return what interlock was to reach in these cases, and did not."""
    missed = [
        f"* {report.command}, {verdict.goal}: {verdict.reached:.3g}"
        for report in reports
        for verdict in report.verdicts()
        if verdict.reached is not None and not verdict.met
    ]
    if not missed:
        return ["Every goal of these cases was reached.", ""]
    return ["Goals of these cases that were missed:", "", *missed, ""]
