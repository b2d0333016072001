"""Passwords of URLs are kept from the list of processes: `--url-file`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-and-more"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """Give a server with a password."""
    with RedisServer(password=SECRET) as server:
        yield server


@pytest.fixture
def url_file(guarded: RedisServer, tmp_path: Path) -> Path:
    """Give a file with the URL of that server."""
    path = tmp_path / "url"
    path.write_text(f"# the server\n{guarded.url()}\n")
    return path


def _interlock(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("INTERLOCK")}
    command = [sys.executable, "-m", "interlock", *arguments]
    return subprocess.run(
        command,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_commands_read_the_url_from_a_file(command: str, url_file: Path) -> None:
    """A command reaches the server that the file names, and prints no password."""
    for done in (
        _interlock(command, "--url-file", str(url_file)),
        _interlock(command, INTERLOCK_URL_FILE=str(url_file)),
    ):
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_ps_shows_no_password(url_file: Path, tmp_path: Path) -> None:
    """The arguments of `interlock run --url-file` and of its command have no password."""
    seen = tmp_path / "seen"
    script = f"cat /proc/$PPID/cmdline /proc/self/cmdline > {seen}; echo . >> {seen}"
    done = _interlock("run", "--url-file", str(url_file), "name", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    wait_until(seen.exists, 10, "the command has run")
    assert b"--url-file" in seen.read_bytes()
    assert SECRET.encode() not in seen.read_bytes()


@pytest.mark.parametrize("command", ["doctor", "list", "run"])
def test_a_file_without_a_url(command: str, tmp_path: Path) -> None:
    """A file that cannot be read, or has no URL, is a mistake of usage."""
    rest = ["name", "--", "true"] if command == "run" else []
    for path in (tmp_path / "missing", Path("/dev/null")):
        for done in (
            _interlock(command, "--url-file", str(path), *rest),
            _interlock(command, *rest, INTERLOCK_URL_FILE=str(path)),
        ):
            assert done.returncode == 64
            assert str(path) in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("doctor",),
        ("run", "-n", "a", "--", "true"),
        ("acquire", "b", "--wait", "9", "--lease", "1"),
    ],
)
def test_commands_read_credentials_from_a_file(
    command: tuple[str, ...], guarded: RedisServer, tmp_path: Path
) -> None:
    """The file has the password: by its option, or by the environment."""
    path = tmp_path / "credentials"
    path.write_text(f"{SECRET}\n")
    url = f"redis://127.0.0.1:{guarded.port}"
    assert _interlock(*command, INTERLOCK_URL=url).returncode == 69
    name, *rest = command
    for done in (
        _interlock(name, "--credentials-file", str(path), *rest, INTERLOCK_URL=url),
        _interlock(*command, INTERLOCK_URL=url, INTERLOCK_CREDENTIALS_FILE=str(path)),
    ):
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_a_missing_file_of_credentials_is_told(guarded: RedisServer, tmp_path: Path) -> None:
    """A file that is not there is named."""
    url, missing = f"redis://127.0.0.1:{guarded.port}", str(tmp_path / "missing")
    done = _interlock("list", "--url", url, "--credentials-file", missing)
    assert done.returncode == 69
    assert f"cannot read the credentials in {missing}: No such file" in done.stderr
