"""What must still reach the server although nobody waits for it any more.

Passive, `now` is an argument.

Theory. An acquire whose reply did not come in time is undone by a release. Nobody knows which of
the two the server sees first: the acquire may lie in a buffer of the network, or of a server that
stands still, and be executed after the release has found nothing. So "found nothing" is not the
end of it: the release is sent again, each time after twice the pause, until the hold that it
undoes would have ended by itself. And what was sent several times may be executed several times,
so that as much must be found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER, Batch
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Cleanup, Eval, Op

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
"""Seconds between two tries while the server does not answer."""


@dataclass(slots=True, eq=False)
class CleanupEntry:
    """One of them.

    Attributes:
        effect: what is to be sent, and how long there is use in it.
        due: when to send it next.
        late: how much there still may be to find, as `Cleanup` has it.
        pause: seconds from that until it is sent once more.
    """

    effect: Cleanup[object]
    due: float
    late: int
    pause: float = FIRST_PAUSE


class CleanupQueue:
    """What one client still has to bring to the server."""

    def __init__(self) -> None:
        self._entries: list[CleanupEntry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, effect: Cleanup[object], now: float) -> None:
        """Have *effect* carried through, beginning now."""
        self._entries.append(CleanupEntry(effect, now, effect.late))

    def next_due(self) -> float:
        """Return when `run` is to be called next."""
        return min((entry.due for entry in self._entries.copy()), default=NEVER)

    def calls(self) -> list[Eval[object]]:
        """Return what is not settled yet."""
        return [entry.effect.call for entry in self._entries.copy()]

    def run(self, clock: Callable[[], float]) -> Op[None]:
        """Send what is due.

        Cost:
            One round trip for all of it.
        """
        yield from self.carry(self.take_due(clock()), clock)

    def take_due(self, now: float) -> list[CleanupEntry]:
        """Return what is to be sent at *now*.

        It is due again soon unless `carry` brings it there.
        """
        due = [entry for entry in self._entries.copy() if entry.due <= now]
        for entry in due:
            entry.due = now + entry.pause
        return due

    def carry(self, due: Sequence[CleanupEntry], clock: Callable[[], float]) -> Op[None]:
        """Send *due*.

        Those for different servers may be sent at the same time, by several threads.
        """
        if not due:
            return
        replies = yield from Batch(tuple(entry.effect.call for entry in due))
        now = clock()
        for entry, reply in zip(due, replies, strict=True):
            # A client that closes interrupts this, and sends what is left itself.
            unanswered = isinstance(reply, ServerUnavailableError | ClosedError)
            if not unanswered:
                entry.late = 0 if isinstance(reply, Exception) else entry.late - bool(reply)
            if now >= entry.effect.until or not (unanswered or entry.late > 0):
                self._entries.remove(entry)
                continue
            entry.due = min(now + entry.pause, entry.effect.until)
            entry.pause *= 2
            if unanswered:
                entry.pause = min(entry.pause, LONGEST_PAUSE)
