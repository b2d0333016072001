"""The programs of docs/reference/observe.md that need an extra."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.programs import assert_runs

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/observe.md"
PROGRAMS = re.findall(r"```python\n# \w+\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_reference_runs(program: str, redis_url: str, tmp_path: Path) -> None:
    """A client takes the observer as the reference shows, without a warning."""
    assert_runs(program, redis_url, tmp_path)
