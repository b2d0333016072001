"""The programs that the site shows for tasks; `tools/site_hooks.py` makes them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def hooks() -> Any:
    """Return the module of the site's hooks."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "tools" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(library: str) -> dict[str, str]:
    """Return the programs of all pages for *library*, by page and number."""
    made = hooks()
    found: dict[str, str] = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = [
            block
            for block in made.FENCE.findall(page.read_text())
            if made.qualifies(block, library)
        ]
        for number, block in enumerate(blocks):
            found[f"{page.relative_to(ROOT)}:{number}"] = made.face(block, library)
    return found


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
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={**os.environ, "INTERLOCK_URL": redis_url, **checkout},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
