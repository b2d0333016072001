"""The fenced lock: a plain lock whose holds carry a number that only grows.

Theory. A lease cannot stop a holder that was paused beyond it. But a resource that remembers the
largest token it has seen can refuse the writes of an older hold. The token is drawn when a free
lock is taken, belongs to the hold, is never read again (after a loss the counter would give the
successor's), and does not change on re-entry.

A server that loses writes, by a failover or a restart, may set the counter back. So every acquire
tells the server the largest token that this client has seen, and the counter goes on from there:
to this client a later hold never has a smaller token. What only other clients have seen it cannot
know; until the counter has caught up, the resource refuses more than it must.

Where failovers are counted (`Session.epoch`) even that is known: the counter goes on above
``epoch << 32``, which no earlier primary has come to. A request that was on its way when the
primary died may be granted by the next one with a number from before; such a grant is given back
and asked for again.

In a cluster the script asks the node that runs it for its epoch. A replica that is promoted has a
larger one than every primary before it, from its first write on. A client could not know it in
time: a connection may outlive two failovers. When a slot moves, its counters move with it, and
the larger of counter and epoch counts.

Rejected: an error for a counter that went back. It would bar a client from the lock for as many
holds as were forgotten.

Source: RFencedLock, Redisson 4.7.0; Kleppmann 2016.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from interlock._core import names
from interlock._core.lock import Lock
from interlock._core.scripts import fenced_lock as scripts
from interlock._core.scripts.script import Grant

if TYPE_CHECKING:
    from interlock._core.effects import Eval
    from interlock._core.holds import Hold
    from interlock._core.session import Session

EPOCH_BITS = 32
"""Below an epoch in a token.

A number of 53 bits, which is all that Lua can count with, has room for two million failovers.
"""
REMEMBERED = 10_000
"""Fenced locks whose last token a client remembers, those that were taken last."""


class FencedLock(Lock):
    """A plain lock whose holds have tokens."""

    kind = "fenced lock"
    hands_over = False  # each hold draws a token
    repeats = False  # it tells what was drawn before

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._token_key = names.fence_token(self.key)
        self._tokens = _tokens.setdefault(session, Tokens())

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*."""
        floor = max(self._tokens.last(self.key), self._epoch_floor())
        unit = 1 << EPOCH_BITS if self.session.clustered else 0
        return scripts.fenced_lock_acquire(
            self.key, self._token_key, lease, hold.holder, depth, floor, unit, deadline=deadline
        )

    def accept(self, hold: Hold, sent_at: float, answer: Grant | float) -> bool:
        """Take *answer*, to what was sent at *sent_at*; tell whether *hold* is held now."""
        if type(answer) is Grant and (answer.token or 0) <= self._epoch_floor():
            hold.uncount_try()
            hold.refuse_grant()  # it stands on the server until it is given back
            return False
        held = super().accept(hold, sent_at, answer)
        if hold.token is not None:
            self._tokens.note(self.key, hold.token)
        return held

    def _epoch_floor(self) -> int:
        return self.session.epoch() << EPOCH_BITS


class Tokens:
    """The last token of each fenced lock that a client has taken lately."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()

    def last(self, key: str) -> int:
        """Return the largest token seen for *key*; 0 for none."""
        return self._last.get(key, 0)

    def note(self, key: str, token: int) -> None:
        """Remember that *key* has given out *token*."""
        self._last[key] = max(token, self.last(key))
        self._last.move_to_end(key)
        if len(self._last) > REMEMBERED:
            _ = self._last.popitem(last=False)


_tokens: WeakKeyDictionary[Session, Tokens] = WeakKeyDictionary()
