"""The scripts for several plain locks at once."""

from __future__ import annotations

from typing import Final

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import grant_or_left, numbers

FREED: Final = 1
"""The answer for a lock that is free now."""
LEFT_ALONE: Final = 2
"""The answer for a lock that others wait for, so that it needs a release of its own."""

TAKE_ALL: Final = load("locks_acquire", grant_or_left)
"""Take all locks, or none: keys, a lease in milliseconds, and the holder of each."""
LEAVE_ALL: Final = Variants("locks_release", numbers)
"""Free locks: keys and queues, the holder of each and its channel; `FREED`, 0 or `LEFT_ALONE` each."""
