"""The clock that validity is measured by.

It is monotonic, and counts the time for which a machine is suspended.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

now: Callable[[], float]
"""Return seconds since some fixed point."""

try:
    from interlock._links._exchange import boottime
except ImportError:  # there was no compiler, or there is no such clock
    if hasattr(time, "CLOCK_BOOTTIME"):
        now = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    elif sys.platform == "darwin":  # pragma: no cover
        # It counts suspend there. The clock of time.monotonic() does not.
        now = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    elif (
        sys.platform == "win32"
    ):  # pragma: no cover - monotonic() has steps of 16 ms before Python 3.13
        now = time.perf_counter
    else:  # pragma: no cover
        now = time.monotonic
else:
    now = boottime
