"""Passwords are kept from the list of processes: variables name the URL and the credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import interlock
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "hunter2-and-more"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    with RedisServer(password=SECRET) as server:
        yield server


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("doctor",),
        ("run", "-n", "a", "--", "true"),
        ("ticket", "acquire", "b", "--wait", "9", "--lease", "1"),
    ],
)
def test_commands_read_credentials_from_a_file(
    command: tuple[str, ...], guarded: RedisServer, tmp_path: Path
) -> None:
    """The environment names a file that has the password."""
    path = tmp_path / "credentials"
    path.write_text(f"{SECRET}\n")
    url = f"redis://127.0.0.1:{guarded.port}"
    assert interlock(*command, INTERLOCK_URL=url).returncode == 69
    done = interlock(*command, INTERLOCK_URL=url, INTERLOCK_CREDENTIALS_FILE=str(path))
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_ps_shows_no_password(guarded: RedisServer, tmp_path: Path) -> None:
    """The arguments of `interlock run` with a URL in a variable, and of its command, have none."""
    seen = tmp_path / "seen"
    script = f"cat /proc/$PPID/cmdline /proc/self/cmdline > {seen}; echo . >> {seen}"
    done = interlock("run", "name", "--", "sh", "-c", script, INTERLOCK_URL=guarded.url())
    assert done.returncode == 0, done.stderr
    wait_until(seen.exists, 10, "the command has run")
    assert SECRET.encode() not in seen.read_bytes()
