"""Play random programs under random faults: ``python -m tests.support.simulator``."""

from __future__ import annotations

from tests.support.simulator.workload import main

if __name__ == "__main__":
    main()
