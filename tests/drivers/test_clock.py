"""The clock that validity is measured by."""

from __future__ import annotations

import time

from interlock._drivers.process import clock


def test_the_clock_counts_the_time_of_a_suspended_machine() -> None:
    """The clock is CLOCK_BOOTTIME where there is one, so that a lease ends during a suspend."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    shown = clock.now()
    after = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert before <= shown <= after
