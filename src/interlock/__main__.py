"""`python -m interlock`: the command, where the script is not on PATH."""

from __future__ import annotations

import sys

from interlock.cli import main

if __name__ == "__main__":
    sys.exit(main())
