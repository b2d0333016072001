"""How much of each core module the tests run: `python -m tests.coverage`.

Arguments go to pytest. Without arguments the tests of `FOLDERS` run: half an hour. The lines that
only killed processes have run are missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDERS = (
    "barrier", "composite", "condition", "core", "drivers", "election", "event", "faces", "fair",
    "faults", "fenced", "group", "latch", "lock", "observe", "operations", "read_write",
    "replicas", "semaphore", "spin",
)  # fmt: skip
"""Tests of locks and other objects."""

SETTINGS = """
[run]
source_pkgs = interlock._core
parallel = true
patch = subprocess
data_file = {folder}/data
"""


def main(arguments: list[str]) -> int:
    """Run pytest with *arguments*; print a table of modules, and return its exit code."""
    with TemporaryDirectory() as folder:
        settings, written = Path(folder, "settings"), Path(folder, "report.json")
        settings.write_text(SETTINGS.format(folder=folder))
        coverage = [sys.executable, "-m", "coverage"]
        options = f"--rcfile={settings}"
        tests = arguments or [f"tests/{name}" for name in FOLDERS]
        command = [*coverage, "run", options, "-m", "pytest", *tests]
        status = subprocess.run(command, check=False).returncode
        subprocess.run([*coverage, "combine", "--quiet", options, folder], check=True)
        subprocess.run([*coverage, "json", "--quiet", options, f"-o{written}"], check=True)
        report = json.loads(written.read_text())
    rows = {name: each["summary"] for name, each in report["files"].items()}
    rows["all"] = report["totals"]
    print("| module | lines | not run | run |\n|---|---|---|---|")
    for name, row in sorted(rows.items(), key=lambda row: row[1]["percent_covered"]):
        lines, missing = row["num_statements"], row["missing_lines"]
        short = name.partition("_core/")[2] or name
        print(f"| {short} | {lines} | {missing} | {row['percent_covered']:.1f} % |")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
