"""Play random programs under random faults: ``python -m interlock.testing.simulator``."""

from __future__ import annotations

from interlock.testing._sim_workload import main

if __name__ == "__main__":
    main()
