"""Renewal in rounds, a third of the lease apart, and of grants: passive, `now` is an argument.

"Not yours" is a loss, "no reply" is not: then the hold is asked for again, until its validity is
over. A loss by the clock is told at once. A loss that the server tells waits for the answer why: an
operator who breaks a hold leaves a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.hold import ENDED, LOST, UNASKED, Hold
from interlock._core.model.names import forced_note
from interlock._core.queue.places import TICK
from interlock._core.scripts.locks import forced_note_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.errors import LossReason


BATCH = 100
"""Holds that one script renews."""


def groups(holds: Sequence[Hold]) -> list[list[Hold]]:
    """Return *holds* as one script each renews them: the readers of a lock, or those of many locks."""
    kinds = dict[object, list[Hold]]()
    for hold in holds:
        kinds.setdefault(hold.lock.renewed_with, []).append(hold)
    return [kind[at : at + BATCH] for kind in kinds.values() for at in range(0, len(kind), BATCH)]


def _what_happened(hold: Hold, answer: Any) -> str:
    """Return what has happened to the server since *hold* began, as `explain` knows the *answer*."""
    session = hold.lock.session
    held, took_over = session.clock() - hold.since, session.outside.took_over(hold.lock.key)
    if took_over < held:
        return f"another server took over {took_over:.0f} s ago"
    if isinstance(answer, Exception):
        return UNASKED
    # The server tells whole seconds.
    runs = NEVER if answer is None else answer
    return "" if runs + 1 > held else f"the server was restarted {runs} s ago"


RELEASE, RENEW, ASK_WHY = "release", "renew", "ask why"


class Errand(NamedTuple):
    """A script of a turn, and the holds that it is for; in a cluster all of them have one key.

    Attributes:
        what: RELEASE or RENEW them, or ASK_WHY one is gone.
        sent_at: the time before it is sent; another turn may come before its answer.
    """

    what: str
    call: Eval[Any]
    holds: Sequence[Hold]
    sent_at: float


class Watchdog:
    """The renewals of one client, the one of *session*.

    Attributes:
        period: seconds between two rounds.
    """

    def __init__(self, session: Any) -> None:  # its module imports this one
        self._session = session
        self._live: dict[Hold, None] = session.live
        self._lost: WeakValueDictionary[str, Hold] = WeakValueDictionary()
        self._lease: float = session.options.lease
        self.period = self._lease / 3
        self._round_at = 0.0
        self._gone: dict[Hold, None] = {}
        self._unanswered: dict[Hold, str] = {}
        self._moved = False

    def follow_keys(self) -> None:
        """Ask at once for the holds whose keys another server has taken over; any thread may."""
        self._moved = True

    def failure_of(self, hold: Hold) -> str | None:
        """Return why the renewal of *hold* that was due has no answer, if it has none; or empty."""
        return self._unanswered.get(hold)

    def next_due(self) -> float:
        """Return when something is due."""
        if self._gone or self._moved:
            return 0.0
        ends = [hold.valid_until for hold in list(self._live) if hold.entries]
        return min([self._round_at, *ends])

    def due(self, now: float, places: Sequence[Hold]) -> list[Errand]:
        """End what is over by itself; return what to send at *now*, and for which holds.

        *places* are the holds that have a place in a queue: some of them have a grant.
        """
        for hold in list(self._live):
            self.expire(hold, now)
        notes, self._gone = list(self._gone), {}
        moved, self._moved = self._moved, False
        due = self._grants(now, places) if now < self._round_at else self._round(now)
        if moved:
            due = list(dict.fromkeys([*due, *self._taken_over(now)]))
        if due:
            known = dict.fromkeys(due, "") | self._unanswered
            self._unanswered = {hold: why for hold, why in known.items() if hold in self._live}
        errands = list[Errand]()
        for hold in notes:
            note = forced_note(hold.lock.key, hold.holder)
            errands.append(Errand(ASK_WHY, forced_note_read(note), [hold], now))
        for group in groups(due):
            call = group[0].lock.renewing(group, self._lease)
            errands.append(Errand(RENEW, call, group, now))
        return errands

    def _grants(self, now: float, places: Sequence[Hold]) -> list[Hold]:
        """Return those that have a grant and need a lease by now."""
        due = list[Hold]()
        for hold in places:
            place = hold.place
            if place and place.prolong_at <= now and hold.entries and hold.over is None:
                place.prolong_at = now + TICK  # if this fails
                if hold.renewed:
                    due.append(hold)
        return due

    def _taken_over(self, now: float) -> list[Hold]:
        """Return those that no server has confirmed since another one took over their keys."""
        took_over, lease = self._session.outside.took_over, self._lease
        held = [
            hold for hold in list(self._live) if hold.entries and hold.renewed and not hold.over
        ]
        return [hold for hold in held if now - took_over(hold.lock.key) > hold.valid_until - lease]

    def _round(self, now: float) -> list[Hold]:
        begins, self._round_at = not self._round_at, now + self.period
        if begins:
            return []  # there was no hold before this client's first one, a moment ago
        due = list[Hold]()
        for hold in list(self._live):
            hold.bury()
            if hold.over is not None:
                self._live.pop(hold, None)  # what ended it was interrupted
            elif hold.renewed and hold.valid_until and not hold.claimed():
                if now > hold.sent_at + self._lease / 3:
                    self._give_up(hold)
            elif hold.entries and hold.renewed:
                due.append(hold)
        return due

    def _give_up(self, hold: Hold) -> None:
        """Abandon *hold*, whose acquire was interrupted; or it has stood still, and goes on now.

        So its end is noted first, and entries are looked for again: `Acquire` adds its entry first,
        and looks for an end then. One of the two sees the other.
        """
        hold.over = ENDED
        if hold.claimed():
            hold.over = None
        else:
            self._session.garbage.add(hold)
            self._session.forget(hold)

    def put_off(self, now: float) -> None:
        """Note that a part of a round could not be sent, or had no answer."""
        self._round_at = min(self._round_at, now + self._lease / 20)

    def answered(self, errand: Errand, answer: Any, now: float) -> None:
        """Take the *answer*: for each hold whether it is kept, why it is lost, or an error."""
        if errand.what is ASK_WHY:
            self.explain(errand.holds[0], answer)
        elif answer.__class__ is not list:
            self.put_off(now)
            for hold in errand.holds:
                if hold in self._unanswered:
                    self._unanswered[hold] = str(answer)
        else:
            for hold in errand.holds:
                self._unanswered.pop(hold, None)
            for hold, kept in zip(errand.holds, answer, strict=True):
                if not kept:
                    self.gone(hold)
                elif hold.over is None and hold.renewed:
                    hold.grant(errand.sent_at, self._lease)
                    if hold.place is not None:
                        hold.place.prolong_at = NEVER

    def gone(self, hold: Hold) -> None:
        """Note that the server does not have *hold*: ask why, unless nobody wants to know any more."""
        if hold in self._live and hold.entries and hold.over is None:
            if self._session.options.card:
                hold.reason = "server lost it"  # if its validity ends before the answer
                self._gone[hold] = None
            else:
                self.explain(hold, None)

    def explain(self, hold: Hold, answer: Any) -> None:
        """Lose *hold*; *answer* is the note of an operator who broke it, if there is one.

        Otherwise it is for how many seconds the server has run, if that is known, or an error.
        """
        if isinstance(answer, str):
            hold.detail = answer
            self.lose(hold, "force-released")
        else:
            hold.detail = _what_happened(hold, answer) or hold.lock.gone
            self.lose(hold, "server lost it")

    def expire(self, hold: Hold, now: float) -> None:
        """Lose *hold* if its validity is over; its parts are lost one by one."""
        for part in hold.parts:
            part.lock.session.watchdog.expire(part, now)
        if hold.over is None and hold.lost(now):
            self.lose(hold, hold.reason or hold.expiry_reason())

    def forget_lost(self) -> None:
        """Take what was lost from its owners, whose releases would tell that: the client ends."""
        for reference in self._lost.valuerefs():
            hold = reference()
            if hold is not None:
                hold.leave_owner()
                for whole in hold.wholes():
                    if all(part.over is not None for part in whole.parts):
                        whole.leave_owner()

    def lose(self, hold: Hold, reason: LossReason) -> None:
        """Note that *hold* is lost; its entries stay until they are released.

        It is released: a renewal may have been executed, and its place in the queue says that its
        client did not release in time.
        """
        if hold.over is not None:
            return
        hold.reason, hold.over = reason, LOST
        self._live.pop(hold, None)
        self._lost[hold.packed] = hold
        # Permits leave no mark; one with a lease of its own may have been extended by its id.
        ends = hold.of_permits and not hold.renewed and not (hold.asking or hold.resent)
        if not ends and (hold.place is not None or reason != "server lost it"):
            self._session.garbage.add(hold)
        self._session.outside.tell_loss(hold)
