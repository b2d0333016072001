"""Somebody who waits for permits of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor


class Waiting:
    """Somebody who waits in a client of its own, for permits of what *make* makes."""

    def __init__(
        self,
        make: Callable[[interlock.Client], Any],
        url: str,
        pool: ThreadPoolExecutor,
        *,
        permits: int = 1,
        timeout: float = 60,
        poll_cap: float = 30,
    ) -> None:
        self.client = interlock.connect(url, poll_cap=poll_cap)
        self.semaphore = make(self.client)
        self.got: Future[Any] = pool.submit(self.semaphore.acquire, permits, timeout=timeout)
