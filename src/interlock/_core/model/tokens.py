"""The fencing tokens that one client has seen, which later ones must exceed.

A lease cannot stop a holder that was paused beyond it. But a resource that remembers the largest
token it has seen can refuse the writes of an older hold. The token is drawn when a free lock is
taken. It belongs to the hold, and does not change on re-entry. It is never read from the server
again: after a loss the counter would give the token of the next holder.

A server that loses writes, by a failover or a restart, may set the counter back. So every acquire
tells the server the largest token that this client has seen. The counter goes on from there, and
for this client a later hold never has a smaller token. The client does not know the tokens that
only others have seen. Until the counter has caught up, the resource refuses more than it must.

Where failovers are counted (`Outside.epoch`), those tokens are covered too. The counter goes on
above ``epoch << 32``, which no earlier primary has reached. A request may have been on its way when
the primary died. Then the next primary may grant it with a token below that. The client asks again.

In a cluster the script asks the node that runs it for that node's epoch. From its first write on, a
promoted replica has a larger epoch than every primary before it. A client could not know the epoch
in time: a connection may outlive two failovers. When a slot moves, its counters move with it, and
the larger of counter and epoch counts.

Some services tell no epoch, or a constant one. Then the counter goes on above the server's clock,
in microseconds. Unlike an epoch, a clock does not tell a former primary that goes on from the new
one. If there is no clock either, only the counter and the clients' memory are left. A hold tells
which of the three it has (`Hold.token_source`). A counter that a clock has set stays above all
epochs, so the clock counts from then on.

Rejected: an error for a counter that went back. A client could not take the lock until the counter
had grown by as many holds as the server had forgotten.

Source: RFencedLock, Redisson 4.7.0; Kleppmann 2016.
"""

from __future__ import annotations

from collections import OrderedDict

EPOCH_BITS = 32
"""Bits of a token below its epoch.

Lua counts exactly up to 53 bits. The 21 bits of an epoch have room for two million failovers.
"""
WEAKER = {
    "clock": "it tells no epoch of its failovers, so fencing tokens follow its clock",
    "counter": "it tells neither epoch nor time, so a failover may repeat fencing tokens",
}
"""What the log says of a cluster by the source of its tokens."""
REMEMBERED = 10_000
"""How many last tokens a client remembers: those of the fenced locks that it took last."""


class Tokens:
    """The last token of each fenced lock that a client has taken lately."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()

    def last(self, key: str) -> int:
        """Return the largest token seen for *key*; 0 for none."""
        return self._last.get(key, 0)

    def note(self, key: str, token: int) -> None:
        """Remember that *token* was drawn for *key*."""
        last = self._last
        if last.get(key, 0) < token:
            last[key] = token
        try:
            last.move_to_end(key)
        except KeyError:  # another thread has just dropped it
            last[key] = token
        if len(last) > REMEMBERED:
            _ = last.popitem(last=False)
