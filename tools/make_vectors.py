"""Write src/interlock/conformance/vectors.json from what tests/interop has recorded of Redisson.

python tools/make_vectors.py            # write the file
python tools/make_vectors.py --check    # fail if the file is not what would be written
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "src" / "interlock" / "conformance" / "vectors.json"


def text() -> str:
    """Return the vectors: the steps of each sequence, and what each leaves."""
    sys.path.insert(0, str(ROOT))
    fixtures, sequences = map(import_module, ("tests.interop.fixtures", "tests.interop.sequences"))
    vectors = [
        {
            "sequence": sequence,
            "name": name,
            "steps": [asdict(step) for step in steps],
            "states": fixtures.read(fixtures.path(sequence, name)),
        }
        for sequence, steps in sequences.SEQUENCES.items()
        for name in sequences.NAMES
    ]
    return "[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n"


def main() -> int:
    """Write or check the file; return the exit status."""
    wanted = text()
    if "--check" in sys.argv[1:]:
        return int(not FILE.exists() or FILE.read_text(encoding="utf-8") != wanted)
    FILE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
