"""Calls that must still reach the server although no caller waits for them any more.

Passive, `now` is an argument.

Theory. If the reply to an acquire does not come in time, a release undoes the acquire. Nobody knows
which of the two the server sees first. The acquire may be in a buffer of the network, or of a
server that hangs. Then the server executes it after the release, which has found nothing. So a
release that finds nothing settles nothing. It is sent again, each time after twice the pause, until
the hold would have ended by itself. An acquire that was sent several times may be executed several
times. Then the release must find that many grants.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Batch
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Cleanup, Eval, Op

FIRST_CLEANUP_PAUSE = 0.1
LONGEST_CLEANUP_PAUSE = 1.0
"""Seconds between two tries: at first, and at most while the server does not answer."""


@dataclass(slots=True, eq=False)
class CleanupEntry:
    """A call to repeat, and when.

    Attributes:
        effect: the call, and the time after which it is useless.
        due: when to send it next.
        late: how many grants it must still find.
        pause: seconds between *due* and the try after it.
    """

    effect: Cleanup[object]
    due: float
    late: int
    pause: float = FIRST_CLEANUP_PAUSE


class CleanupQueue:
    """The calls of one client that must still reach the server."""

    def __init__(self) -> None:
        self._entries: list[CleanupEntry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, effect: Cleanup[object], now: float) -> None:
        """Add *effect*, which is due at once."""
        self._entries.append(CleanupEntry(effect, now, effect.late))

    def next_due(self) -> float:
        """Return when the next call is due."""
        return min((entry.due for entry in self._entries.copy()), default=NEVER)

    def calls(self) -> list[Eval[object]]:
        """Return the calls that are not settled yet."""
        return [entry.effect.call for entry in self._entries.copy()]

    def take_due(self, now: float) -> list[CleanupEntry]:
        """Return the entries to send at *now*.

        They are due again after their pauses, unless `carry` settles them before.
        """
        due = [entry for entry in self._entries.copy() if entry.due <= now]
        for entry in due:
            entry.due = now + entry.pause
        return due

    def carry(self, due: Sequence[CleanupEntry], clock: Callable[[], float]) -> Op[None]:
        """Send the calls of *due*.

        Several threads may send the calls for different servers at the same time.

        Cost:
            One round trip for all of them.
        """
        if not due:
            return
        replies = yield from Batch(tuple(entry.effect.call for entry in due))
        now = clock()
        for entry, reply in zip(due, replies, strict=True):
            # ClosedError: the closing client sends the rest itself, so the entry stays.
            unanswered = isinstance(reply, ServerUnavailableError | ClosedError)
            if not unanswered:
                entry.late = 0 if isinstance(reply, Exception) else entry.late - bool(reply)
            if now >= entry.effect.until or not (unanswered or entry.late > 0):
                # If the key has moved, the thread of the other node may have settled it.
                with suppress(ValueError):
                    self._entries.remove(entry)
                continue
            entry.due = min(now + entry.pause, entry.effect.until)
            entry.pause *= 2
            if unanswered:
                entry.pause = min(entry.pause, LONGEST_CLEANUP_PAUSE)
