"""A real Prometheus, with the alert rules of the examples, ten times as fast.

The programs of the incidents have a tenth of the usual lease. So all times of the rules are a
tenth, too: ``for: 1m`` is 6 s, and a validity below 10 s is one below 1 s.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from tests.support.address import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

RULES = Path(__file__).parents[2] / "examples" / "prometheus" / "interlock-alerts.yml"
FASTER = 10
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(?<=\[)(\d+)([smh])(?=\])|(?<=for: )(\d+)([smh])|(?<=offset )(\d+)([smh])")
_BOUND = re.compile(r"(?<=[<>] )([1-9]\d*)")


def faster(rules: str) -> str:
    """Return *rules* with a tenth of each time in them.

    All bounds above zero are in seconds.
    """

    def span(found: re.Match[str]) -> str:
        number, unit = (each for each in found.groups() if each)
        return f"{round(1000 * int(number) * _UNITS[unit] / FASTER)}ms"

    return _BOUND.sub(lambda found: str(int(found[1]) / FASTER), _SPAN.sub(span, rules))


class Monitoring:
    """Scrapes programs and an exporter twice a second; a context manager.

    Args:
        home: A directory for its files.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port()
        self._fired: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        (self._home / "rules.yml").write_text(faster(RULES.read_text(encoding="utf-8")))
        self.scrape([])
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "interlock",
                    "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "500ms"}],
                }
            ],
        }
        (self._home / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with (self._home / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._home / 'tsdb'}",
                    f"--web.listen-address={LOOPBACK}:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def scrape(self, ports: Sequence[int]) -> None:
        """Scrape what listens at *ports* from now on."""
        targets = [f"{LOOPBACK}:{port}" for port in ports]
        new = self._home / "targets.new"
        new.write_text(json.dumps([{"targets": targets}]))
        new.replace(self._home / "targets.json")

    def fired(self) -> set[str]:
        """Return the alerts that have fired until now."""
        found = self._get("alerts")["alerts"]
        self._fired |= {each["labels"]["alertname"] for each in found if each["state"] == "firing"}
        return set(self._fired)

    def sees(self, query: str) -> bool:
        """Return whether *query* has a value now."""
        try:
            return bool(self._get(f"query?query={quote(query)}")["result"])
        except OSError:  # it is just starting
            return False

    def _get(self, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self._port}/api/v1/{what}") as answer:
            told = json.load(answer)
        return cast("dict[str, Any]", told["data"])
