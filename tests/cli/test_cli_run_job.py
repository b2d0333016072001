"""`interlock run` against a real server: the job, and what keeps it from running at all."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import ENVIRON, LONG, Runs, ended, until_there

import interlock

if TYPE_CHECKING:
    import redis


def test_the_job_runs_under_the_lock_and_its_status_is_passed_on(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The lock is there while the job runs, and gone when interlock has ended."""
    gate = tmp_path / "gate"
    process = runs.started("NAME", "--", "/bin/sh", "-c", f"echo up; {until_there(gate)}; exit 7")
    assert redis_client.exists("NAME")
    gate.touch()
    assert ended(process) == (7, "", "")
    assert not redis_client.exists("NAME")


def test_the_job_learns_name_holder_and_token(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The job's environment has its own hold's name, holder and token, not an outer interlock's."""
    told = 'echo "$INTERLOCK_NAME $INTERLOCK_HOLDER ${INTERLOCK_TOKEN-none}"'
    for number in (1, 2):
        gate = tmp_path / str(number)
        text = f"{told}; {until_there(gate)}"
        process = runs.start("a name", "-c", text, INTERLOCK_TOKEN="17")
        assert process.stdout is not None
        name, holder, token = process.stdout.readline().rsplit(None, 2)
        assert redis_client.hkeys("a name") == [holder.encode()]
        assert re.fullmatch(r"[0-9a-f-]{36}:\d+", holder)
        assert (name, token) == ("a name", str(number))
        gate.touch()
        assert ended(process)[0] == 0
    assert redis_client.get("redisson_lock_token:{a name}") == b"2"


def test_shell_text_runs_in_the_users_shell(runs: Runs, tmp_path: Path) -> None:
    """-c uses $SHELL, and /bin/sh without it."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "mine: $*"\n')
    shell.chmod(0o755)
    assert runs.run("-c", "echo a b", "NAME", SHELL=str(shell)) == (0, "mine: -c echo a b\n", "")
    assert runs.run("NAME", "-c", "echo a | cat", SHELL="") == (0, "a\n", "")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_job_and_then_the_hold(
    runs: Runs, redis_client: redis.Redis, signum: signal.Signals
) -> None:
    """A signal reaches the job; interlock reports its end and releases the lock."""
    process = runs.started("NAME", "--", "/bin/sh", "-c", f"echo up; exec sleep {LONG:.0f}")
    process.send_signal(signum)
    assert ended(process) == (128 + signum, "", "")
    assert not redis_client.exists("NAME")


@pytest.mark.parametrize("url", ["bogus://here", "redis://h:notaport"])
def test_a_url_that_cannot_work_is_64(runs: Runs, url: str) -> None:
    """A wrong URL is a usage error in one line."""
    status, out, err = runs.run("--url", url, "NAME", "--", "echo", "ran")
    assert (status, out) == (64, "")
    assert err.startswith("interlock: ")
    assert err.count("\n") == 1


def test_a_name_in_use_by_something_else_is_64(runs: Runs, redis_client: redis.Redis) -> None:
    """A key that is no lock is not touched."""
    redis_client.set("NAME", "precious")
    status, out, err = runs.run("NAME", "--", "echo", "ran")
    assert (status, out) == (64, "")
    assert err.startswith("interlock: ")
    assert redis_client.get("NAME") == b"precious"


def test_the_version_is_shown() -> None:
    """`interlock --version` says which one this is."""
    done = subprocess.run(
        [sys.executable, "-m", "interlock", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"interlock {interlock.__version__}\n"


def test_the_script_is_installed(runs: Runs) -> None:
    """The package brings the command `interlock`."""
    script = Path(sys.executable).with_name("interlock")
    done = subprocess.run(
        [script, "run", "--url", runs.url, "NAME", "--", "echo", "ran"],
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ran\n"
