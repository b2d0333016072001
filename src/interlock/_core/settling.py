"""What must still reach the server although nobody waits for it any more: passive, `now` is an argument.

Theory. An acquire whose reply did not come in time is undone by a release. Nobody knows which of the two the server sees first:
the acquire may lie in a buffer of the network, or of a server that stands still, and be executed after the release has found
nothing. So "found nothing" is not the end of it: the release is sent again, each time after twice the pause, until the hold
that it undoes would have ended by itself. And what was sent several times may be executed several times, so that as much must be found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER, Batch
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Eval, Op, Settle

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
"""Seconds between two tries while the server does not answer."""


@dataclass(slots=True, eq=False)
class Debt:
    """One of them.

    Attributes:
        effect: what is to be sent, and how long there is use in it.
        due: when to send it next.
        late: how much there still may be to find, as `Settle` has it.
        pause: seconds from that until it is sent once more.
    """

    effect: Settle[object]
    due: float
    late: int
    pause: float = FIRST_PAUSE


class Settlements:
    """What one client still has to bring to the server."""

    def __init__(self) -> None:
        self._debts: list[Debt] = []

    def __len__(self) -> int:
        return len(self._debts)

    def add(self, effect: Settle[object], now: float) -> None:
        """Have *effect* carried through, beginning now."""
        self._debts.append(Debt(effect, now, effect.late))

    def next_due(self) -> float:
        """Return when `run` is to be called next."""
        return min((debt.due for debt in self._debts.copy()), default=NEVER)

    def calls(self) -> list[Eval[object]]:
        """Return what is not settled yet."""
        return [debt.effect.call for debt in self._debts.copy()]

    def run(self, clock: Callable[[], float]) -> Op[None]:
        """Send what is due.

        Cost:
            One round trip for all of it.
        """
        yield from self.carry(self.take_due(clock()), clock)

    def take_due(self, now: float) -> list[Debt]:
        """Return what is to be sent at *now*; it is due again soon unless `carry` brings it there."""
        due = [debt for debt in self._debts.copy() if debt.due <= now]
        for debt in due:
            debt.due = now + debt.pause
        return due

    def carry(self, due: Sequence[Debt], clock: Callable[[], float]) -> Op[None]:
        """Send *due*; those for different servers may be sent at the same time, by several threads."""
        if not due:
            return
        replies = yield from Batch(tuple(debt.effect.call for debt in due))
        now = clock()
        for debt, reply in zip(due, replies, strict=True):
            # A client that closes interrupts this, and sends what is left itself.
            unanswered = isinstance(reply, ServerUnavailableError | ClosedError)
            if not unanswered:
                debt.late = 0 if isinstance(reply, Exception) else debt.late - bool(reply)
            if now >= debt.effect.until or not (unanswered or debt.late > 0):
                self._debts.remove(debt)
                continue
            debt.due = min(now + debt.pause, debt.effect.until)
            debt.pause *= 2
            if unanswered:
                debt.pause = min(debt.pause, LONGEST_PAUSE)
