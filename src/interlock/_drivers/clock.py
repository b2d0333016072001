"""The clock that validity is measured by: monotonic, and counting the time that a machine is suspended."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Return seconds since boot."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
else:  # pragma: no cover - macOS' monotonic clock counts suspend already
    now = time.monotonic
