"""Programs of the documentation."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.program import run

ROOT = Path(__file__).parents[2]


def assert_runs(example: str, redis_url: str, tmp_path: Path) -> None:
    """Run the program *example* on the server at *redis_url*, where every warning is an error."""
    program = tmp_path / "example.py"
    for number in ("/0", "/1", "/2", ""):
        url = redis_url if number in ("/0", "") else redis_url.rpartition("/")[0] + number
        for shown in ("redis://localhost:6379", "redis://localhost"):
            example = example.replace(f'"{shown}{number}"', f'"{url}"')
    program.write_text(example)
    # The simulator is used in a checkout.
    checkout = {"PYTHONPATH": str(ROOT)} if "from tests." in example else {}
    environ = {**os.environ, "INTERLOCK_URL": redis_url, **checkout}
    done = run(sys.executable, "-W", "error", program, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
