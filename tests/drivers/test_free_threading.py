"""Threads share all they can, where the interpreter changes threads at every chance.

Each game runs in a process of its own, because pytest's modules may turn the interpreter lock (GIL)
on. `nox -s free-threaded` runs them on a Python without it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest
from tests.crowds import GAMES, LIMIT


@pytest.mark.parametrize("game", GAMES)
def test_threads_that_run_at_once(redis_url: str, game: str) -> None:
    """A game keeps its promise without a warning, and no module has turned the GIL on."""
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-m",
            "tests.crowds",
            game,
            "--url",
            redis_url,
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{game}: played 1 times\n"
    assert done.stdout == f"GIL: {not sysconfig.get_config_var('Py_GIL_DISABLED')}\n"
