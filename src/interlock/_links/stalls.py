"""How long the event loop of a program has stood still.

A program that blocks its loop reads no answers meanwhile. When it goes on, the answers are there,
but the timers of asyncio are called before the tasks that wait for them. So a time limit that ends
while the loop stands still says nothing about the server.
"""

from __future__ import annotations

import asyncio
from typing import Self

TICK = 0.05
"""Seconds between two looks at the clock."""


class Stalls:
    """Measures the running loop while a block lasts.

    Attributes:
        longest: the seconds for which the loop has stood still at most.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._again()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self._due = self._loop.time() + TICK
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self.longest = max(self.longest, self._loop.time() - self._due)
        self._again()
