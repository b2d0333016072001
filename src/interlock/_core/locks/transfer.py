"""How a hold goes to another process, or ends while its lock stays locked.

One script changes the holder of the lock on the server, when it is given away and when it is adopted:

    the giver's holder id  ->  a stand-in, which nobody has: the ticket  ->  the adopter's holder id

The hold ends here before anything is sent. So two processes never both believe that they have it,
and a late command of the giver names a holder that is gone. Nobody renews a stand-in: the lock is
free when its lease ends. Only one process finds the ticket's holder there, and can adopt it.

Interrupted, neither is held by anybody: what was given away, and what was adopted, is garbage.

Source: none in Redisson; redis-py's Lock passes its token on.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Acquire, settle
from interlock._core.locks.errors import ended_error, lost_error
from interlock._core.locks.ticket import KINDS
from interlock._core.model.effects import NEVER, Op, Step
from interlock._core.model.hold import ENDED, LEAST, LOST, Hold
from interlock._core.model.names import draw, packed_text
from interlock._core.queue.places import nobody
from interlock._core.scripts.replies import Grant
from interlock.errors import ConfigError, NotHeldError, ReentryError

if TYPE_CHECKING:
    from interlock._core.locks.base import Lock
    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Owner


TICKET_MARK, LEFT_MARK = "f" * 8, "e" * 8
"""How holder ids begin that no client has: of a ticket, and of a hold whose lease goes on."""


def _stand_in(holder: str, mark: str) -> str:
    """Return the holder id that is to stand for *holder*, which is new; no client ever has it.

    The *mark* tells operators what it stands for. Its card is its own, too: the client's card tells
    of what the client has.
    """
    digest = hashlib.blake2b(holder.encode(), digest_size=16).hexdigest()
    parts = (mark, digest[8:12], digest[12:16], digest[16:20], digest[20:])
    return f"{'-'.join(parts)}:{holder.rpartition(':')[2]}"


class HandOver(Step[str]):
    """End *hold*, and give its lock to a stand-in for *lease* seconds; the result is that id."""

    __slots__ = ("_call", "_entry", "_hold", "_lease")
    mark = TICKET_MARK

    def __init__(self, hold: Hold, lease: float) -> None:
        self._hold, self._lease = hold, lease
        holder = f"{hold.lock.session.client_id}:{draw()}"
        self._entry: object = None
        self.result = _stand_in(holder, self.mark)

    def begin(self) -> Eval[Any]:
        hold = self._hold
        lock, session = hold.lock, hold.lock.session
        if lock.kind not in KINDS:
            raise ConfigError(
                f"{lock.name!r} is not a lock, fair lock, fenced lock or spin lock: "
                "only their holds can be handed over"
            )
        session.watchdog.expire(hold, session.clock())
        if hold.over is LOST:
            raise lost_error(hold)
        if hold.over is ENDED or hold.depth == 0:
            raise ended_error(hold)
        if len(hold.entries) > LEAST:
            raise ReentryError(
                f"{lock!r} is entered {hold.depth} times; release it before it is handed over",
                name=lock.name,
            )
        self._entry = hold.entries[-1]
        if not hold.leave(self._entry):  # another flow has just entered it, or released it
            self._entry = None
            raise ended_error(hold)
        session.live.pop(hold, None)
        hold.leave_owner()
        self._call = lock.give(hold.holder, self.result, self._lease)
        self._call.deadline = hold.valid_until
        return self._call

    def done(self, answer: Any) -> bool:
        if answer:
            self._hold.lock.session.released(self._hold)
        return bool(answer)

    def rest(self, failure: Exception | None) -> Op[str]:
        return settle(self, self._call, self._hold, failure)

    def give_up(self) -> None:
        """Let the background free the lock, whether or not it was given away."""
        hold, session = self._hold, self._hold.lock.session
        if not self._left() or hold.over is LOST:
            return
        session.give_up(hold)
        given = Hold().of(hold.lock, nobody, packed_text(self.result), self._lease, True)
        given.asking = True
        session.garbage.add(given)
        session.wake(None)

    def _left(self) -> bool:
        """Return whether it has begun; then end the hold, unless another flow has entered it."""
        hold = self._hold
        if self._entry is None:
            return False
        return hold.leave(self._entry) or not hold.entries


class LeaveLocked(HandOver):
    """End *hold*, but leave the lock locked for *lease* seconds.

    Interrupted, it stays locked for as long, or until the hold's own lease ends.
    """

    __slots__ = ()
    mark = LEFT_MARK

    def give_up(self) -> None:
        """End the hold here, and send nothing."""
        hold, session = self._hold, self._hold.lock.session
        if self._left() and hold.over is None:
            session.live.pop(hold, None)
            hold.leave_owner()
            session.released(hold)


class Adopt(Acquire):
    """Take *lock* over from *holder*: from a ticket, or a process that is to lose it.

    Args:
        lock: the lock; nobody else has this object.
        owner: who will hold it.
        holder: who holds it now.
        token: its fencing token.
        lease: seconds after which the hold ends by itself; None if it is renewed.
        entry: as for `Acquire`.
    """

    __slots__ = ("_holder", "_token")

    def __init__(
        self,
        lock: Lock,
        owner: Owner,
        holder: str,
        token: int | None,
        lease: float | None,
        entry: object,
    ) -> None:
        _ = self.of(lock, owner, 0.0, lease, entry)
        self._holder, self._token = holder, token

    def _entered(self, found: Hold) -> bool:
        if len(found.entries) < LEAST or found.over is not None:
            return False
        raise ReentryError(f"{self._lock!r} is held by the same owner", name=self._lock.name)

    def begin(self) -> Eval[Any]:
        _ = super().begin()  # that try is not sent
        hold = self.hold
        assert hold is not None
        hold.sent_at, hold.asking = self._lock.session.clock(), True
        self._call = self._lock.give(self._holder, hold.holder, hold.lease)
        return self._call

    def done(self, answer: Any) -> bool:
        hold, lock = self.hold, self._lock
        assert hold is not None
        if not answer:
            hold.asking = False
            return False
        if self._token is not None:  # it was drawn before, and is not judged once more
            hold.token = self._token
            lock.session.tokens.note(lock.key, self._token)
        if super().done(Grant()):
            lock.token_source = None
            return True
        return False

    def rest(self, failure: Exception | None) -> Op[Hold]:
        lock, hold = self._lock, self.hold
        assert hold is not None
        if failure is not None:
            again = lock.session.persist(self._call, NEVER, hold, failure)
            if self.done((yield from again)):
                return hold
        raise NotHeldError(
            f"{lock!r} cannot be adopted: it was adopted before, or its lease has ended",
            name=lock.name,
            owner=self._holder,
        )
