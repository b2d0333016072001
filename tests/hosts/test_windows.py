"""What works on Windows, as far as a machine without it can tell.

These tests run Python without fork, fcntl, Unix sockets and SIGHUP.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.needs import ROOT
from tests.support.program import run

WITHOUT = """
import asyncio, atexit, os, signal, socket, sys, threading, time, warnings

loop = asyncio.new_event_loop()  # made while its own parts are still there
for name in ("fcntl", "pwd", "grp", "resource", "termios", "interlock._links._exchange"):
    sys.modules[name] = None
for module, names in (
    (os, ("fork", "register_at_fork", "getuid", "kill", "killpg", "setsid", "O_DIRECTORY")),
    (signal, ("SIGHUP", "SIGQUIT", "SIGKILL", "SIGCHLD", "SIGTSTP", "SIGCONT", "pthread_sigmask")),
    (socket, ("AF_UNIX", "SO_REUSEPORT")),
    (time, ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def run_without(tmp_path: Path, program: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run *program* in a Python that lacks what Windows lacks."""
    path = tmp_path / "program.py"
    path.write_text(WITHOUT + program)
    places = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": places}
    return run(sys.executable, "-W", "error", path, *args, env=environ)


def test_threads_and_tasks_lock(redis_url: str, tmp_path: Path) -> None:
    """Without any part of POSIX the library does all that `tests.platform_client` does."""
    program = """
import interlock.redis_py
from tests import platform_client

asyncio.run = loop.run_until_complete
platform_client.main(sys.argv[1:])
loop.close()
"""
    done = run_without(tmp_path, program, redis_url)
    assert done.returncode == 0, done.stderr


def test_what_needs_posix_refuses_in_one_sentence(tmp_path: Path) -> None:
    """The embedded server, Unix sockets and `interlock run` say what is missing, and no more."""
    program = """
loop.close()
import interlock
from interlock.cli import main

for url in ("embedded://", "unix:///tmp/redis.sock"):
    try:
        interlock.connect(url)
    except interlock.ConfigError as error:
        print(error)
    else:
        raise AssertionError(url)
print(main(["run", "name", "--", "true"], {}), file=sys.stderr)
"""
    done = run_without(tmp_path, program)
    embedded, unix = done.stdout.splitlines()
    assert embedded.startswith("the embedded server needs a POSIX system")
    assert unix.endswith("Python has no Unix sockets here")
    assert "run needs a POSIX system" in done.stderr
    assert done.stderr.endswith("64\n")
