"""Threads share all they can, where the interpreter changes threads at every chance.

Each game runs in a process of its own, because pytest's modules may turn the interpreter lock (GIL)
on. `nox -s free-threaded` runs them on a Python without it.
"""

from __future__ import annotations

import sys
import sysconfig

import pytest
from tests.crowds import GAMES, LIMIT
from tests.support.program import run


@pytest.mark.parametrize("game", GAMES)
def test_threads_that_run_at_once(redis_url: str, game: str) -> None:
    """A game keeps its promise without a warning, and no module has turned the GIL on."""
    words = ("-X", "dev", "-W", "error", "-m", "tests.crowds", game, redis_url)
    done = run(sys.executable, *words, limit=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"GIL: {not sysconfig.get_config_var('Py_GIL_DISABLED')}\n"
