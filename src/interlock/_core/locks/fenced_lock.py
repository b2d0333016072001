"""The fenced lock: a plain lock whose holds carry a number that only grows.

Theory. A lease cannot stop a holder that was paused beyond it. But a resource that remembers the
largest token it has seen can refuse the writes of an older hold. The token is drawn when a free
lock is taken. It belongs to the hold, and does not change on re-entry. It is never read from the
server again: after a loss the counter would give the token of the next holder.

A server that loses writes, by a failover or a restart, may set the counter back. So every acquire
tells the server the largest token that this client has seen. The counter goes on from there, and
for this client a later hold never has a smaller token. The client does not know the tokens that
only others have seen. Until the counter has caught up, the resource refuses more than it must.

Where failovers are counted (`Session.epoch`), those tokens are covered too. The counter goes on
above ``epoch << 32``, which no earlier primary has reached. A request may have been on its way when
the primary died. Then the next primary may grant it with a token below that. The client gives such
a grant back, and asks again.

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
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from interlock._core.locks.lock import Lock
from interlock._core.model import names
from interlock._core.queue.starting import Start
from interlock._core.scripts import fenced_lock as scripts
from interlock._core.scripts.script import Grant

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.model.holds import Hold
    from interlock._core.queue.places import Place
    from interlock._core.queue.waiter import Claim
    from interlock._core.upkeep.session import Session

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


class FencedLock(Lock):
    """A plain lock whose holds have tokens."""

    kind = "fenced lock"
    passes_locally = False  # each hold draws a token
    repeats_entries = False  # a command has the last token
    _news = ""
    """Where the observers of an election listen."""

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._token_key = names.fence_token(self.key)
        self._tokens = _tokens.setdefault(session, Tokens())

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        return scripts.fenced_lock_acquire(
            *(self.key, self._token_key, lease, hold.holder, depth, *self._floor_and_unit()),
            deadline=deadline,
        )

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        return scripts.fenced_lock_release(
            *(self.key, self._token_key, hold.holder, depth, *self._floor_and_unit()),
            *(self._publish, self.channel),
            news=self._news,
        )

    def leave_script(self, place: Place) -> Eval[int]:
        return scripts.fenced_lock_release(
            *(self.key, self._token_key, place.holder or f"{place.client}:0", 0),
            *(*self._floor_and_unit(), self._publish, self.channel),
            leaving=place.client,
            news=self._news,
        )

    def accept(self, hold: Hold, sent_at: float, answer: Grant | float) -> bool:
        """Take *answer* to the try sent at *sent_at*; return whether *hold* is held now.

        A kept command has the last token of the time when it was made. If the server has lost its
        counter since then, it draws a token that is too small. So the grant is given back, and the
        next command is a new one.
        """
        if type(answer) is Grant and (answer.token or 0) <= self._floor():
            self._kept = None
            hold.uncount_try()
            hold.refuse_grant()  # the server has it until it is given back
            return False
        held = super().accept(hold, sent_at, answer)
        if hold.token is not None:
            self._tokens.note(self.key, hold.token)
        if type(answer) is Grant:
            self._tell_source(hold, answer.source)
        return held

    def _believes(self, claim: Claim) -> bool:
        """Return whether a hold may start with *claim*: its token is larger than all others."""
        return (claim.token or 0) > self._floor()

    def _start(self, hold: Hold) -> Start:
        return Start(self.session, hold, self._keeping, self._believes, self._began)

    def _began(self, hold: Hold, claim: Claim) -> None:
        """Note the token of *claim*, with which *hold* has started."""
        self._tokens.note(self.key, claim.token or 0)
        self._tell_source(hold, claim.source)

    def _tell_source(self, hold: Hold, source: str) -> None:
        """Note what the token of *hold* follows, and tell it if that is less than it could be."""
        hold.tell_source("epoch" if self.session.counts_failovers else source)
        if self.session.clustered and source != "epoch":
            self.session.note("token.source", WEAKER[source])

    def _floor_and_unit(self) -> tuple[int, int]:
        """Return what every new token exceeds, and in a cluster how many tokens an epoch has."""
        return self._floor(), 1 << EPOCH_BITS if self.session.clustered else 0

    def _floor(self) -> int:
        """Return a number that every new token exceeds."""
        last, epoch = self._tokens.last(self.key), self.session.epoch()
        return max(last, epoch << EPOCH_BITS) if epoch else last


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


_tokens: WeakKeyDictionary[Session, Tokens] = WeakKeyDictionary()
