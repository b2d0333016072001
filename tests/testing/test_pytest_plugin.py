"""The fixtures that users get, in pytest runs of their own."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

from redis import Redis
from tests.support.patience import wait_until

from interlock import _pytest_plugin

# How the outer run is split up is no business of an inner one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

TESTS = """
import os, tempfile, redis

def test_private(interlock_server):
    assert interlock_server.startswith("unix://" + tempfile.gettempdir())
    with redis.Redis.from_url(interlock_server) as r:
        assert r.dbsize() == 0
        r.set("left", 1)

def test_shared(interlock_server):
    with redis.Redis.from_url(interlock_server) as r:
        assert r.dbsize() == 1
"""
WAITS = """
import sys, redis

def test_waits(interlock_server):
    print("URL", interlock_server, flush=True)
    sys.stdin.readline()
"""


def command(tmp_path: Path, source: str, *options: str) -> list[str]:
    """Write a user's test module and return the command that runs it."""
    (tmp_path / "test_user.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
    return [sys.executable, "-m", "pytest", *plain, *options, str(tmp_path)]


def session(tmp_path: Path, source: str, **environ: str) -> str:
    """Run a user's test module; return what pytest says."""
    done = subprocess.run(
        command(tmp_path, source),
        env={**ENVIRONMENT, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def test_fixtures(tmp_path: Path, runtime: Path) -> None:
    """The tests share an empty server of the session's own, and nothing is left of it at the end."""
    said = session(tmp_path, TESTS, TMPDIR=str(runtime))
    assert "2 passed" in said
    assert "error" not in said
    assert list(runtime.iterdir()) == []


def test_killed_session_leaves_no_server(tmp_path: Path, runtime: Path) -> None:
    """The session's server ends by itself when the test process is killed."""
    env = {**ENVIRONMENT, "TMPDIR": str(runtime)}
    with subprocess.Popen(
        command(tmp_path, WAITS, "-s"),
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = next(line.split()[1] for line in process.stdout if line.startswith("URL"))
        with Redis.from_url(url) as connection:
            server = connection.info("server")["process_id"]
        os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{server}").exists(), 60, "the server ends")


def test_no_server_program_fails_only_who_asks(tmp_path: Path) -> None:
    """Without a server program only a test that asks for a server fails, with a clear error."""
    source = "def test_plain(): pass\ndef test_asks(interlock_server): pass\n"
    said = session(tmp_path, source, INTERLOCK_REDIS_SERVER=str(tmp_path / "none"))
    assert "1 passed, 1 error" in said
    assert "ConfigError: INTERLOCK_REDIS_SERVER=" in said


def test_plugin_is_light() -> None:
    """The plugin loads only pytest and the standard library; the first fixture loads interlock."""
    tree = ast.parse(Path(_pytest_plugin.__file__).read_text())
    loaded = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    loaded |= {
        name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names
    }
    assert {str(name).partition(".")[0] for name in loaded} <= {"pytest", *sys.stdlib_module_names}


def test_a_missing_extra_fails_only_who_asks(tmp_path: Path) -> None:
    """Without fakeredis only a test that asks for the fake fails, and says what to install."""
    source = """
import sys
sys.modules["fakeredis"] = None
def test_plain(): pass
def test_asks(interlock_fake): pass
"""
    said = session(tmp_path, source)
    assert "1 passed, 1 error" in said
    assert "pip install 'interlock[testing]'" in said
