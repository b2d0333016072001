"""The asyncio face on uvloop: the tests of locks in tasks run on its loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PLUGIN = """
import asyncio, pytest, uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

@pytest.fixture(autouse=True)
async def on_uvloop():
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
"""


@pytest.mark.timeout(240)
def test_locks_in_tasks_on_uvloop(tmp_path: Path) -> None:
    """The tests of tasks, cancellation and the asyncio pipeline pass on uvloop's event loop."""
    (tmp_path / "on_uvloop.py").write_text(PLUGIN)
    names = (
        *("lock/test_lock_tasks.py", "lock/test_lock_cancel.py"),
        *("links/test_pipeline.py", "links/test_deadlines.py"),
    )
    plugins = ["-p", "on_uvloop", "-p", "no:cacheprovider", "-n0"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            *plugins,
            *(str(TESTS / name) for name in names),
            # It strikes asyncio's own code, which uvloop does not run.
            "-k",
            "not ctrl_c_before_replies_are_read",
        ],
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
        cwd=TESTS.parent,
        env={
            "PATH": "/usr/sbin:/usr/bin:/bin",
            # It must import the same library as this process, whatever else is installed.
            "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        },
    )
    assert done.returncode == 0, done.stdout
