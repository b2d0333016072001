"""Who is next: the rules for a lock that is released, and for permits, with their numbers.

For a lock:

1. A release gives the lock to the first client in the server's queue. That client has a claim
   window to take it. A client that does not listen loses its place.
2. A client with several waiters keeps the lock for one turn of each, or 20 ms, whichever is
   shorter. Meanwhile it stands at the end of the queue: it went there when it took the lock.
3. Once in two seconds a release leaves the lock free for 20 ms, for clients that only look. If
   others listen, every second release is left to them. These are Java, clients without the queue's
   rights, and clients that wait only to read.

For permits:

4. A release wakes the first clients in the server's queue, as long as permits are free. A client
   that wants more is passed over. But in the last 2 s of each 10 s, permits are kept for one such
   client.
5. While others listen, every release tells all, and the first to ask gets the permits.

The second rule is `PassPolicy`. Scripts do the others: `lua/parts/grant.lua` the first and the
fourth, `lua/parts/give_on.lua` the third, and both `grant.lua` and `share.lua` the fifth.
"""

from __future__ import annotations

from interlock._core.model.holds import CLAIM

COURTESY = 0.02
"""Seconds that others are given to take the lock first."""
LEFT_EVERY = 2.0
"""Seconds: in each such span a release leaves the lock once to clients that only look."""
LISTENERS_EVERY = 2
"""While others listen, one of so many releases leaves the lock to them."""
LOOK_AFTER = CLAIM + 0.05
"""Seconds from a release until somebody looks whether the claim that it gave was used."""
KEEP_EVERY, KEEP_FOR = 10.0, 2.0
"""Seconds: in each such span permits are kept for so long for a client that wants many."""
LOOKS_AT = 128
"""How many members of a queue a release looks at."""
LONGEST_RUN = 0.02
"""Seconds for which a lock may go from one waiter of a client to the next."""


class PassPolicy:
    """Decides for one lock whether a release goes to the next waiter of the same client."""

    __slots__ = ("_began", "_turns")

    def __init__(self) -> None:
        self._turns: int | None = None
        self._began = 0.0

    def stays_here(self, waiting: int, now: float) -> bool:
        """Return whether the client keeps the lock for one more turn.

        Args:
            waiting: how many waiters this client has.
            now: the time on the session's clock.
        """
        if self._turns is None:
            self._turns, self._began = waiting, now
        if self._turns == 0 or now - self._began >= LONGEST_RUN:
            self._turns = None
            return False
        self._turns -= 1
        return True

    def end(self) -> None:
        """End the run: the lock leaves this client."""
        self._turns = None
