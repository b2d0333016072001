"""Looks at locks that were given to a client which may never take them: passive.

Theory. A release gives a lock to the first client in the server's queue, for a claim. If that
client was killed or frozen just then, the claim ends, and no message is sent. So the client that
released the lock looks at it once, when the claim is over. If nobody has the lock, the look gives
it to the next client in the queue, and another look follows. If this client releases the lock again
before, the look is put off: it is for the newest claim only. If it is closed before, it looks at
once. Then the script tells the first client in the queue to look in its place. If this look, or one
of the last releases, gives a lock away, a second look tells that.

With permits, the look gives those that nobody has taken to the next clients in the queue.

A look also takes dead clients out of the queue, wherever they stand. So a client that polls in vain
asks for one. So does a client that asked in vain when all were told of permits: they may have been
given to a dead client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from interlock._core.model.effects import NEVER, Batch
from interlock._core.queue.places import Place
from interlock._core.queue.policy import LOOK_AFTER
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import CoreLock

NOBODY: Final = "-"
"""The client of a look: it has no place, and no claim."""
NEXT_IS_OURS: Final = 2
"""The answer of a release that told its own client that it is next: it is first in the queue."""
GIVEN: Final = 3
"""The answer of a release that told another client in the queue, or left the lock to others.

Other answers are 0 (or nil) if the server does not have the hold, and 1.
"""


class Given(Protocol):
    """A lock that was given away, or the queue for permits."""

    kind: str
    key: str
    channel: str

    def leave_script(self, place: Place) -> Eval[int]:
        """Return the script that gives up *place*, and gives a free lock to the next client."""
        ...


class GrantLooks:
    """The looks of one client that are still to come.

    Args:
        wake: called when a look is due earlier than `next_due` said last.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        # By kind, too: of both kinds of semaphores with one name, each has a look of its own.
        self._due: dict[tuple[str, str], tuple[float, Given]] = {}
        self._failed = set[tuple[str, str]]()
        self._wake = wake
        self._planned = NEVER

    def given(self, lock: Given, now: float) -> None:
        """Note that *lock* was given to another client, or that a waiter has polled in vain."""
        due = now + LOOK_AFTER
        self._due[lock.key, lock.kind] = due, lock
        if due < self._planned:
            self._planned = due
            self._wake()

    def released(self, core: CoreLock, now: float) -> None:
        """Note that a release of *core* told another client that it is next."""
        given: Any = core.looked_at
        if given is not None:
            self.given(given, now)

    def next_due(self) -> float:
        """Return when the next look is due."""
        self._planned = NEVER  # a look that comes meanwhile may be missed here: it wakes
        self._planned = min((due for due, _ in self._due.copy().values()), default=NEVER)
        return self._planned

    def calls(self) -> list[Eval[int]]:
        """Return the looks that are left when the client is closed."""
        return [look_script(lock) for _, lock in self._due.copy().values()]

    def take_due(self, now: float) -> list[Given]:
        """Return the locks to look at now."""
        due: list[Given] = []
        for key, noted in self._due.copy().items():
            # Another thread may have put it off since. Nobody comes between the question and `del`.
            if noted[0] <= now and self._due.get(key) is noted:
                del self._due[key]
                due.append(noted[1])
        return due

    def look(self, locks: Sequence[Given], clock: Callable[[], float]) -> Op[None]:
        """Look at *locks*.

        A look without an answer comes once more. If that fails too, the waiters poll.

        Cost:
            One round trip for all of them.
        """
        if not locks:
            return
        replies = yield from Batch(tuple(map(look_script, locks)))
        for lock, reply in zip(locks, replies, strict=True):
            # The server may have closed an idle connection. And a client that closes looks then.
            failed = isinstance(reply, ServerUnavailableError | ClosedError)
            place = lock.key, lock.kind
            again = failed and place not in self._failed
            (self._failed.add if again else self._failed.discard)(place)
            if again or reply == GIVEN:
                self.given(lock, clock())

    def forget(self) -> None:
        """Forget all looks: they are the parent process's."""
        self._due.clear()
        self._failed.clear()
        self._planned = NEVER


def look_script(lock: Given) -> Eval[int]:
    """Return the script that looks at *lock*."""
    return lock.leave_script(Place(lock.channel, NOBODY))
