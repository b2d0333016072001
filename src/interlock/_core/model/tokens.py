"""The fencing tokens that one client has seen, which later ones must exceed.

A token belongs to its hold, and does not change on re-entry. It is never read from the server
again: after a loss the counter would give the token of the next holder.

A server that loses writes may set the counter back. So every acquire tells it the largest token that
this client has seen, and the counter goes on from there. Where failovers are counted, it goes on
above ``epoch << 32``, which no earlier primary has reached. Where they are not, a clock counts
instead, or nothing (`Hold.token_source`; docs/reference/fencing.md).

In a cluster the script asks its own node for the epoch. A client could not know that in time: a
connection may outlive two failovers.

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
        last[key] = max(token, last.pop(key, 0))
        if len(last) > REMEMBERED:
            _ = last.popitem(last=False)
