"""Bounded waiting for what another process or task will do."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GIVE_UP = 60.0
"""Seconds after which a test that waits gives up. It only ends a hang: it measures nothing."""
# A loaded machine takes longer. A deadline here ends a hang; what must be quick is asserted.
PATIENCE = 2
_LEAST = 20.0
"""Below the default lease: what only that ends has not come to hold."""


def given(timeout: float) -> float:
    """Return the seconds that a loaded machine gets for what takes *timeout* on a quiet one.

    Give 10 at most for what the end of the default lease would bring about, too.
    """
    return max(PATIENCE * timeout, _LEAST)


def wait_until(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Ask *condition* again and again until it holds.

    Args:
        condition: Cheap enough to be asked a hundred times a second.
        timeout: Seconds on a quiet machine; a loaded one gets what `given` returns.
        what: Completes the sentence "waited in vain until ...".

    Raises:
        TimeoutError: It did not come to hold.
    """
    deadline = time.monotonic() + given(timeout)
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {given(timeout)} s in vain until {what}")
        time.sleep(0.01)  # between two questions: others need the processor


async def let_others_run(turns: int = 1) -> None:
    """Give each other task of this loop its turn, *turns* times. No time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)  # no time passes


async def forever() -> None:
    """Wait until somebody cancels this task; a test that forgets it fails."""
    await asyncio.wait_for(asyncio.Event().wait(), GIVE_UP)
