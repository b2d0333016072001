"""The programs of docs/reference/observe.md that need an extra."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.faces_of_programs import assert_runs, programs

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/observe.md"
PROGRAMS = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("name", "program"), PROGRAMS)
def test_a_program_of_the_reference_runs(
    name: str, program: str, redis_url: str, tmp_path: Path
) -> None:
    """A client takes the observer as the reference shows, without a warning."""
    path = tmp_path / name
    path.write_text(program.replace("redis://localhost:6379/0", redis_url))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


MEASURED = {
    name: text
    for name, text in programs("asyncio").items()
    if "interlock.prometheus" in text or "interlock.otel" in text
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_tab_of_a_program_with_metrics_runs(name: str, redis_url: str, tmp_path: Path) -> None:
    """A program for asyncio, which the site makes for a tab, runs as it stands."""
    assert_runs(MEASURED[name], redis_url, tmp_path)
