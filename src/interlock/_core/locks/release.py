"""The plain lock's algorithm, part two: release, extend, and what operators do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from interlock._core.insight.holder import who_holds
from interlock._core.locks.base import Lock, settle
from interlock._core.locks.errors import ended_error, lost_error, not_held, unreleased
from interlock._core.model.effects import NEVER, Op, Step, run_on
from interlock._core.model.hold import ENDED, LEAST, LOST, OPEN, Claim, Hold
from interlock._core.model.names import forced_note
from interlock._core.scripts.locks import forced_note_read, forced_note_write, remember
from interlock._core.scripts.replies import LOOK, freed
from interlock.errors import AcquireTimeoutError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Owner

LATE = 1.0
"""Seconds by which a release may return later than its hold ends, if there is no answer.

Without it each release from a grant, which ends before a reply times out, would be packed anew.
"""


class Release(Step[None]):
    """A release of one entry of *hold*; with the last one the lock is free.

    Interrupted at any point after it has begun, it is carried through by the garbage.

    Args:
        entry: what is ended; None for the last one by hand, or else the last one.
    """

    __slots__ = ("_before", "_began", "_depth", "_entry", "_told", "call", "hold")
    result = None

    def of(self, hold: Hold, entry: object = None) -> Self:
        self.hold, self._entry = hold, entry
        self._before = 0  # how many entries there were when it began
        self._told = False
        return self

    def closed(self, hold: Hold, entry: object, began: float) -> Self:
        """Go on with *hold*, which was closed when *entry* left it; return this step."""
        self.hold, self._entry, self._began = hold, entry, began
        self._before, self._depth, self._told = LEAST, 0, False
        self.call = hold.lock.down(hold, 0)
        return self

    def begin(self) -> Eval[Any] | None:
        """Drop the entry; return the release, or None if the hold is lost, or too short for a usual wait."""
        hold = self.hold
        lock, entries = hold.lock, hold.entries
        session, clock = lock.session, lock.session.clock
        now = self._began = clock()
        left = hold.valid_until - now
        if left <= 0:
            session.watchdog.expire(hold, now)
        before = len(entries)
        if (hold.over is None and before < LEAST) or hold.over is ENDED:
            raise ended_error(hold)
        self._before = before
        if self._entry is None:
            self._entry = entries[-1] if before == LEAST else last_by_hand(entries)
        closed = hold.leave(self._entry)
        if closed:
            session.live.pop(hold, None)  # from here on nobody is told of a loss
            session.recent.append((now, lock, hold.packed))
            hold.leave_owner()
        depth = self._depth = 0 if closed else len(entries) - 1 or 1
        if hold.over is LOST:
            return None
        leave = lock.leave if closed and hold.place is None else None
        call = self.call = lock.down(hold, depth) if leave is None else leave.of(hold)
        if left > session.patience - LATE:
            return call
        self.call = call.anew()
        self.call.deadline = hold.valid_until  # nobody waits longer for the answer
        return None

    def heard(self, reply: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Tell the next holder, if it is one of this client's: it waits for this *reply*."""
        answer: Any = freed(reply) if reply.__class__ is list else None
        if answer.__class__ is tuple:
            hold, self._told = self.hold, True
            hold.lock.session.queues.tell(hold.lock, *answer)

    def done(self, answer: Any) -> bool:
        hold = self.hold
        session = hold.lock.session
        if answer.__class__ is tuple:
            if not self._told:  # first: the next holder waits for this
                session.queues.tell(hold.lock, *answer)
            answer = answer[1] is not LOOK
        if not answer:
            return False
        if self._depth == 0:
            if hold.asking or hold.resent or hold.place is not None or session.events.observed:
                session.released(hold)
            else:
                hold.over = ENDED  # last: whoever is interrupted before releases it once more
        return True

    def rest(self, failure: Exception | None) -> Op[None]:
        """Send it again after *failure*; or raise that the hold is lost."""
        hold, session = self.hold, self.hold.lock.session
        if hold.over is None and (failure is not None or self.call.deadline != NEVER):
            settled = yield from self._send(failure)
            if settled:
                return
        if hold.over is ENDED or (self._depth and not hold.entries and hold.over is None):
            return  # another flow has released the rest meanwhile
        if hold.over is None:
            # It was valid when the release began. Or `resend` has released it meanwhile.
            ours = session.clock() >= hold.valid_until or session.resent_at >= self._began
            if ours and self._depth == 0:
                session.released(hold)
                return
            yield from hold.lock.ask_why(hold)
        if not hold.entries:
            hold.leave_owner()
        raise lost_error(hold)

    def _send(self, failure: Exception | None) -> Op[bool]:
        """Send it, again after each *failure*, while the hold is valid; return whether that is all.

        Without an answer the background goes on: what was done was done in time.
        """
        hold, session, call = self.hold, self.hold.lock.session, self.call
        if failure is None:
            try:
                return self.done(call.script.decode((yield call)))
            except ServerUnavailableError as error:
                failure = error
        try:
            answer = yield from session.persist(call, hold.valid_until, failure=failure)
        except ServerUnavailableError as error:
            if self._depth:
                return True  # it stays held, and the depth on the server is only a copy
            session.give_up(hold)
            if session.clock() >= hold.valid_until:
                return True
            raise unreleased(hold, error) from error.__cause__
        if not self.done(answer) and self._depth == 0:
            session.released(hold)  # an earlier copy may have been executed
        return True

    def give_up(self) -> None:
        hold = self.hold
        entry = self._entry
        if entry is None and self._before > 1 and len(hold.entries) >= self._before:
            entry = last_by_hand(hold.entries)
        if (hold.leave(entry) or not hold.entries) and not hold.released:
            hold.lock.session.give_up(hold)


def last_by_hand(entries: list[object]) -> object:
    """Return the last of *entries* that is no block's, or else the last one; None if there is none."""
    last = None
    for entry in reversed(entries):
        if entry is OPEN:
            break
        if entry.__class__ is not Claim and not isinstance(entry, Hold):
            return entry
        last = last or entry
    return last


class Extend(Step[None]):
    """Keep *hold* for at least *lease* seconds from now."""

    __slots__ = ("_hold", "_lease", "_sent_at", "call")
    result = None

    def __init__(self, hold: Hold, lease: float) -> None:
        self._hold, self._lease = hold, lease

    def begin(self) -> Eval[Any] | None:
        hold, session = self._hold, self._hold.lock.session
        if hold.over is LOST:
            raise lost_error(hold)
        if hold.over is ENDED or not hold.entries:
            raise ended_error(hold)
        self._sent_at = session.clock()
        self.call = hold.lock.renewing([hold], self._lease)
        return self.call

    def done(self, answer: Any) -> bool:
        hold = self._hold
        if answer != [True] or hold.over is not None:
            return False
        hold.grant(self._sent_at, self._lease)
        hold.lease = max(hold.lease, self._lease)
        return True

    def rest(self, failure: Exception | None) -> Op[None]:
        return settle(self, self.call, self._hold, failure)

    def give_up(self) -> None:
        """Leave the hold as it is: its lease may be longer on the server."""


Lock.releasing, Lock.extending = Release, Extend


def hold_of(lock: Lock, owner: Owner) -> Hold | None:
    """Return what *owner* holds of *lock*, even if it is lost."""
    hold = owner.table.get(lock.place)
    return hold if hold is not None and hold.kept() else None


def held_by(lock: Lock, owner: Owner) -> Hold:
    """Return what *owner* holds of *lock*, even if it is lost; raise NotHeldError without a hold."""
    hold = hold_of(lock, owner)
    if hold is None:
        raise not_held(lock.kind, lock.name, owner.label)
    return hold


def depth_of(lock: Lock, owner: Owner) -> Op[int]:
    """Return how deep *owner* holds *lock*, if the server has its hold; else 0."""
    hold = hold_of(lock, owner)
    if hold is None or hold.over is not None:
        return 0
    return (yield from lock.depth_of(hold))


def refusal(lock: Lock, timeout: float) -> Op[AcquireTimeoutError]:
    """Return the error for who did not get *lock* in *timeout* seconds; it names the holder.

    One round trip asks who holds it, and another one for that client's card.
    """
    found, holder = yield from lock.present_holder()
    text = f"{lock!r} not acquired in {timeout:g} s"
    if holder is None:
        return AcquireTimeoutError(text, name=lock.name, timeout=timeout)
    asking: Any = who_holds(found.session, holder, found.key)
    by = yield from run_on(found.session, asking, lock.session)
    what = "held" if found is lock else f"{found!r} is held"
    error = AcquireTimeoutError(f"{text}; {what} by {by}", name=lock.name, timeout=timeout)
    error.holder, error.place = by.holder, by.place
    error.host, error.pid, error.program = by.host, by.pid, by.program
    return error


def break_holds(lock: Lock, holder: str | None = None, reason: str = "") -> Op[bool]:
    """Release those who hold *lock* now, or *holder* alone; return whether somebody did.

    It names their ids. So a copy that comes late breaks no later hold; and their marks in the queue
    go too. A note with the *reason* is left before, for the holder to find.
    """
    if holder is None:
        found = yield from lock.victims()
    elif lock.waiters_apart or holder in (yield from lock.status()).holders:
        found = [holder]
    else:
        return False
    freed = False
    for each in found:
        call = lock.owning(each.encode()).forced(each)
        freed = (yield from _break_one(lock, each, reason, call)) or freed
    if freed:
        lock.session.events.force_released(lock.name, lock.kind, holder or "", reason)
    return freed


Lock.breaking = break_holds


def _break_one(lock: Lock, holder: str, reason: str, call: Eval[Any]) -> Op[bool]:
    """Take the hold that *holder* has away by *call*; return whether it had one.

    The server remembers the answer. So a copy that comes late breaks no hold of Java's, whose id is
    a thread's, and one whose reply was lost counts.
    """
    session, key = lock.session, lock.key
    note = forced_note(key, holder)
    noted = bool(reason or session.options.card)
    if noted:
        try:
            yield from session.persist(forced_note_write(note, reason), NEVER)
        except ServerUnavailableError as error:
            # That the holder learns why is less important, also to a server without memory.
            if reason and error.code != "OOM":
                raise
    remember(call, key, session.client_id)
    if (yield from session.persist(call, NEVER)) != 1:
        if noted:
            yield from session.persist(forced_note_read(note), NEVER)  # nobody need read it
        return False
    for mine in list(session.live):
        if mine.lock.key == key and mine.holder == holder and mine.entries:
            session.watchdog.explain(mine, reason)
    return True
