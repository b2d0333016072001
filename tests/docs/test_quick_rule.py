"""The rules for `--quick` and for extras say what is there."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch

import pytest
from tests.extras import FOLDERS, ROOT
from tests.quick import SLOW

FILES = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
FUTURE = {"tests/typing/*"}
"""For tests that are still to come."""


@pytest.mark.parametrize("pattern", sorted(set(SLOW) - FUTURE))
def test_what_is_slow_exists(pattern: str) -> None:
    """Each pattern of slow tests matches a test file."""
    assert any(fnmatch(file, pattern) for file in FILES)


@pytest.mark.parametrize("extra", [*FOLDERS, "servers"])
def test_contributors_are_told_of_each_extra(extra: str) -> None:
    """Each extra that tests need exists, and CONTRIBUTING describes it."""
    assert EXTRAS[extra]
    assert f"| `{extra}` |" in (ROOT / "CONTRIBUTING.md").read_text()


def test_contributors_are_told_of_the_quick_tests() -> None:
    """CONTRIBUTING names the quick test command."""
    assert "python -m pytest --quick" in (ROOT / "CONTRIBUTING.md").read_text()
