"""`interlock server` as its users run it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import ENVIRON, LONG
from tests.support.patience import GIVE_UP, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def runtime() -> Iterator[dict[str, str]]:
    """Give the environment of a user with a fresh runtime directory."""
    with tempfile.TemporaryDirectory(prefix="il-") as root:
        environ = {"XDG_RUNTIME_DIR": root, "INTERLOCK_EMBEDDED_LINGER": "60"}
        yield environ
        interlock("server", "stop", **environ)


def interlock(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run it; return its status, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "interlock", *arguments],
        env={**ENVIRON, **environ},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_status_and_stop(runtime: dict[str, str]) -> None:
    """`status` tells whether the server runs, and `stop` ends it."""
    status, out, _ = interlock("server", "status", **runtime)
    assert (status, "running:  no" in out) == (1, True)
    run = ("run", "--url", "embedded://", "name", "--", "true")
    assert interlock(*run, **runtime)[0] == 0
    status, out, _ = interlock("server", "status", **runtime)
    assert (status, "running:  yes, " in out) == (0, True)
    wait_until(  # the server hears of the end of a process later
        lambda: "0 connections" in interlock("server", "status", **runtime)[1],
        GIVE_UP,
        "nobody is connected",
    )
    assert interlock("server", "stop", **runtime) == (0, "stopped\n", "")
    assert interlock("server", "stop", **runtime) == (0, "it was not running\n", "")


def test_servers_have_names(runtime: dict[str, str]) -> None:
    """`--name` chooses one of several servers, and a bad one is refused."""
    assert interlock("server", "stop", "--name", "other", **runtime)[0] == 0
    status, out, err = interlock("server", "status", "--name", "a/b", **runtime)
    assert (status, out) == (64, "")
    assert "cannot name an embedded server" in err


@pytest.mark.parametrize("arguments", [(), ("begin",), ("status", "--", "true")])
def test_what_cannot_be_is_refused(arguments: tuple[str, ...]) -> None:
    """No action, an unknown action or a command is a usage error."""
    assert interlock("server", *arguments)[0] == 64


def test_a_failed_download_is_unavailable(runtime: dict[str, str]) -> None:
    """Without an index `install` exits with 69 and one line on stderr."""
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": runtime["XDG_RUNTIME_DIR"]}
    home = {"XDG_DATA_HOME": runtime["XDG_RUNTIME_DIR"]}
    status, out, err = interlock("server", "install", **offline, **home, **runtime)
    assert (status, out) == (69, "")
    assert err.startswith("interlock: pip cannot download ")
    assert err.count("\n") == 1


def test_the_warning_comes_once_and_is_short(runtime: dict[str, str]) -> None:
    """A program that connects twice without a URL is warned once, in one sentence."""
    program = "import interlock\nfor _ in 1, 2:\n  interlock.connect().close()\n"
    environ = {name: value for name, value in ENVIRON.items() if not name.endswith("_URL")}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        env={**environ, **runtime},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    assert done.stderr.count("EmbeddedWarning: no URL given") == 1
    assert len(done.stderr.partition("EmbeddedWarning: ")[2].splitlines()[0]) < 140
