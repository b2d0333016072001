"""What CI and a release are made of agrees with the source."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import noxfile
import pytest
from packaging.requirements import Requirement
from tests.needs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a checkout that has version 1.2.3."""
    (tmp_path / "src/interlock").mkdir(parents=True)
    (tmp_path / "src/interlock/_version.py").write_text('__version__ = "1.2.3"\n')
    return tmp_path


def test_a_dated_version_is_released(root: Path) -> None:
    """A tag is right if it is the version and the changelog has it with a date."""
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-11-22)\n\n* It works.\n")
    assert noxfile.fault_of("v1.2.3", root) is None


@pytest.mark.parametrize("heading", ["1.2.3 (unreleased)", "1.2.3 (2026)", "1x2.3 (2026-11-22)"])
def test_a_version_without_a_date_is_refused(root: Path, heading: str) -> None:
    """A tag is refused if the changelog does not have its version with a date."""
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n")
    fault = noxfile.fault_of("v1.2.3", root)
    assert fault is not None
    assert "CHANGELOG.md has no line '## 1.2.3 (YYYY-MM-DD)'" in fault


def test_another_version_is_refused(root: Path) -> None:
    """A tag is refused if the source has another version."""
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.4 (2026-11-22)\n")
    fault = noxfile.fault_of("v1.2.4", root)
    assert fault is not None
    assert "another version than the tag v1.2.4" in fault


def test_the_extra_installs_the_server_that_was_looked_at() -> None:
    """The extra with a server's binary pins one version of it."""
    for wanted in map(Requirement, EXTRAS["embedded"]):
        assert re.fullmatch(r"==[\w.]+", str(wanted.specifier)), wanted


def test_workflows_name_each_action_by_its_commit() -> None:
    """An action of others is named by a commit, which nobody can move, beside its version."""
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: (?!\./)(.+)", workflow.read_text())
        assert used, workflow
        for action in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", action), action
