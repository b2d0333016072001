"""A report: what was measured, where, and how it is shown, as a table or as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.compare import Result, Spread, ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.environment import Environment

SCHEMA = 1  # raised when a reader of the JSON would have to change


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one command.

    Attributes:
        command: As given on the command line.
        unit: Of the figures.
        settings: What decides how was measured, the seed included.
        references: The peers, by name, whose share the others are told as.
    """

    command: str
    unit: str
    settings: Mapping[str, float]
    environment: Environment
    server: Mapping[str, str]
    results: Sequence[Result]
    references: Sequence[str]

    @property
    def failed(self) -> bool:
        """Whether any contender ended in an error."""
        return any(result.error is not None for result in self.results)

    def shares(self, result: Result) -> dict[str, list[float]]:
        """Return the ratios to each other reference of the same case that has figures."""
        shares = {
            other.contender.peer.name: ratios(result, other)
            for other in self.results
            if other is not result and other.contender.case == result.contender.case
        }
        return {name: shares[name] for name in self.references if shares.get(name)}


def as_json(report: Report) -> dict[str, Any]:
    """Return *report* as plain data; docs/reference/benchmarks.md describes it."""
    peers = {result.contender.peer.name: result.contender.peer for result in report.results}
    return {
        "schema": SCHEMA,
        "command": report.command,
        "unit": report.unit,
        "settings": dict(report.settings),
        "environment": asdict(report.environment),
        "server": dict(report.server),
        "peers": {name: peer.versions() for name, peer in peers.items()},
        "results": [_result_json(report, result) for result in report.results],
    }


def _result_json(report: Report, result: Result) -> dict[str, Any]:
    case, peer = result.contender.case, result.contender.peer
    return {
        "kind": case.kind,
        "workers": case.workers,
        "peer": peer.name,
        "error": result.error,
        "figures": _figures_json(result.rates, 1),
        "ratios": {
            name: _figures_json(figures, 4) for name, figures in report.shares(result).items()
        },
    }


def _figures_json(figures: Sequence[float], digits: int) -> dict[str, Any] | None:
    if not figures:
        return None
    spread = {name: round(value, digits) for name, value in asdict(Spread.of(figures)).items()}
    return {**spread, "rounds": [round(figure, digits) for figure in figures]}


def as_table(report: Report) -> str:
    """Return *report* as text for people."""
    environment, settings = report.environment, report.settings
    header = [
        f"{report.command}: {report.unit}, median (min..max) over rounds; ratios round by round",
        f"{environment.started}, commit {environment.commit or 'unknown'}",
        f"{environment.system}, {environment.processor}, {environment.cpus} cpus",
        f"load {environment.load}, {environment.python}",
        f"server {report.server['name']} {report.server['version']}, on the same machine",
        ", ".join(f"{name} {value}" for name, value in settings.items()),
        *_versions(report),
        "",
    ]
    columns = ["case", "peer", report.unit, *(f"of {name}" for name in report.references)]
    rows = [columns]
    case = None
    for result in report.results:
        if case not in (None, result.contender.case):
            rows.append([])
        first = result.contender.case != case
        case = result.contender.case
        rows.append(
            [str(case) if first else "", result.contender.peer.name, *_cells(report, result)]
        )
    return "\n".join([*header, *_aligned(rows)])


def _versions(report: Report) -> Iterable[str]:
    packages: dict[str, str] = {}
    for result in report.results:
        packages |= result.contender.peer.versions()
    yield ", ".join(f"{name} {version}" for name, version in packages.items())


def _cells(report: Report, result: Result) -> list[str]:
    if result.error is not None:
        return [f"error: {' '.join(result.error.split())}"]
    shares = report.shares(result)
    return [
        _spread(result.rates, ",.0f"),
        *(_spread(shares.get(name, []), ".2f") for name in report.references),
    ]


def _spread(figures: Sequence[float], form: str) -> str:
    if not figures:
        return "-"
    spread = Spread.of(figures)
    return f"{spread.median:{form}} ({spread.low:{form}}..{spread.high:{form}})"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    # The last cell of a row widens no column: it may be an error of any length.
    widths = [max(len(row[i]) for row in rows if i < len(row) - 1) for i in range(len(rows[0]) - 1)]
    widths.append(0)
    for row in rows:
        cells = zip(row, widths, strict=False)
        yield "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()
