"""The deadlines of replies that have less time than their connection.

One timer serves all of them.

A timer for each reply would cost more than the reply. So the entry of a reply stays when the reply
has come. It is dropped when the timer looks at it, or when too many entries have gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.calls import NEVER

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

ROOM = 64
"""With fewer entries it is not worth looking for those whose replies have come."""


class Deadlines:
    """The deadlines of one connection's replies.

    Args:
        loop: the running one.
        late: called with the future of a reply that has not come, and the seconds that it had.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        late: Callable[[asyncio.Future[object], float], None],
    ) -> None:
        self._loop = loop
        self._late = late
        self._entries: list[tuple[float, asyncio.Future[object], float]] = []
        self._room = ROOM
        # Not the timer's own time: uvloop has none for what is due at once.
        self._due = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def add(self, *replies: tuple[asyncio.Future[object], float]) -> None:
        """Wait for each of *replies* no longer than the seconds from now that come with it."""
        entries, now = self._entries, self._loop.time()
        if len(entries) >= self._room:
            entries = self._entries = [entry for entry in entries if not entry[1].done()]
            self._room = max(2 * len(entries), ROOM)
        first = NEVER
        for slot, seconds in replies:
            due = now + seconds
            entries.append((due, slot, seconds))
            first = min(first, due)
        if self._timer is None or first < self._due:
            self._look_at(first)

    def close(self) -> None:
        """Forget all deadlines."""
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due, self._timer = due, self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        waited_for = [entry for entry in self._entries if not entry[1].done()]
        self._entries = [entry for entry in waited_for if entry[0] > now]
        for due, slot, seconds in waited_for:
            if due <= now:
                self._late(slot, seconds)
        if self._entries:
            self._look_at(min(entry[0] for entry in self._entries))
