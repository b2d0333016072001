"""The programs that the site shows for trio run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.faces_of_programs import assert_runs, programs

PROGRAMS = programs("trio")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tab_of_a_program_runs(name: str, redis_url: str, tmp_path: Path) -> None:
    """A program for trio, which the site makes for a tab, runs as it stands."""
    assert_runs(PROGRAMS[name], redis_url, tmp_path)
