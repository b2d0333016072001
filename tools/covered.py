"""Check that a run of the tests under coverage reached every source module.

Usage: ``coverage run -m pytest --quick``, then ``python tools/covered.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAST = 50
"""Per cent of a module's lines. Those that importing it runs are about a third."""
ELSEWHERE = {
    "src/interlock/__main__.py": "tests of the command start it in processes of their own",
}


def main() -> int:
    """Print the modules that too few lines were run of; return the exit status."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "coverage.json")
        subprocess.run([sys.executable, "-m", "coverage", "combine", "-q"], check=False)
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", "-q", "-o", target], check=True, cwd=ROOT
        )
        files = json.loads(target.read_text())["files"]
    share = {path: entry["summary"]["percent_covered"] for path, entry in files.items()}
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py"))
    low = [path for path in sources if path not in ELSEWHERE and share.get(path, 0) < LEAST]
    for path in low:
        print(f"{path}: {share.get(path, 0):.0f} % of its lines, less than {LEAST} %")
    if not low:
        print(f"{len(sources)} modules, at least {LEAST} % of the lines of each")
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
