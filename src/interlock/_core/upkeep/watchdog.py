"""Which holds to renew and which are over: passive, `now` is an argument.

Theory. Every hold without a lease of its own is renewed in rounds, a third of the lease apart, in
batches. A hold joins the next round. So N holds cost at most ceil(N / batch) round trips per node
and period. And none is renewed later than a third of its lease after the last time.

Rules:

* If the script answers "not yours", the hold is lost. Without an answer, its state is unknown. The
  two never share a code path. A renewal without an answer is tried again soon, until the local
  validity of the hold ends.
* One failing batch, hold or callback never stops the others.
* A hold that the server no longer has is lost at once. Its listeners are told after the note of an
  operator was read, or after `TELL_WITHIN`.
* A hold that is to end at a certain time (`Hold.end_by`) is renewed for less time near its end. No
  renewal ends it sooner than the one before, so one that arrives late does no harm.
* A hold whose owner or handle is gone is not renewed any more: it ends with its lease. A hold with
  a lease of its own was meant to end that way.

Source: LockTask of Redisson 4.7.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Batch, Eval
from interlock._core.model.holds import ENDING, HELD, LOST
from interlock._core.model.names import forced_note
from interlock._core.scripts.forced import forced_note_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold, Holds, Renewal
    from interlock.errors import LossReason


CONFIRM_AFTER = 0.05
"""Seconds after which a hold that began with a claim is confirmed, and again without an answer."""
ANSWER_WITHIN = 0.15
"""Seconds for the first answer if the claim of a hold is over before anybody could ask."""
CLAIMS_FOR = 1.0
"""Seconds after a claim for which the thread looks that often, so that nobody need wake it."""
TELL_WITHIN = 0.5
"""Seconds after which listeners hear of a loss, even without the operator's reason."""


@dataclass(slots=True)
class Round:
    """What a round of the watchdog found.

    Attributes:
        abandoned: holds whose owner is gone; they were dropped.
        renewed: holds that were renewed.
        failures: the errors of scripts that failed, and unexpected errors.
    """

    abandoned: list[Hold] = field(default_factory=list["Hold"])
    renewed: int = 0
    failures: list[Exception] = field(default_factory=list[Exception])


class Watchdog:
    """The renewal of one client's holds.

    Args:
        holds: the client's table.
        lease: seconds; holds are renewed every third of it.
        batch: holds per round trip.
        wake: called when something is due earlier than `next_due` said last.
        lose: notes that a hold is lost; returns the function that tells its listeners.
        apart: returns the group of a key. A script renews keys of one group only.

    Attributes:
        deserted: returns whether nobody at all is left who could release a hold.
    """

    def __init__(
        self,
        holds: Holds,
        *,
        lease: float,
        batch: int,
        wake: Callable[[], None],
        lose: Callable[[Hold, LossReason], Callable[[], None]],
        apart: Callable[[str], object],
    ) -> None:
        self._holds = holds
        self._batch = batch
        self._wake = wake
        self._lose = lose
        self._apart = apart
        self.deserted: Callable[[], bool | None] = lambda: False
        self.lease = lease
        self.period = lease / 3
        self.retry = lease / 20
        self._round_at = 0.0
        self._moved_at = -NEVER
        self._keys_moved = False
        self._wake_at = self._look_at = NEVER
        self._soonest = 0.0
        self._claimed_at = -NEVER
        # Losses that were not told yet: the deadline, and the function that tells the loss.
        self._untold: dict[Hold, tuple[float, Callable[[], None]]] = {}

    def watch(self, hold: Hold) -> None:
        """Take *hold*, which was just acquired, into the next round.

        A hold that began with a claim, and was not confirmed yet, is asked for earlier. One that
        would end before the next round, or soon after it, is renewed at once. Its first try may
        have been sent long before the answer came, and its validity counts from there.
        """
        if not hold.asked_by:
            hold.renew_at = self._round_at
            if hold.valid_until < self._round_at + self.period and hold.renewal is not None:
                self._hurry(hold)
        if hold.valid_until < self._soonest:  # noqa: PLR1730 - a call costs more, for every acquire
            self._soonest = hold.valid_until
        if hold.valid_until < self._wake_at:
            self._wake()

    def expect(self, hold: Hold, now: float) -> None:
        """Confirm *hold*, which began with a claim, soon unless it ends before."""
        self._claimed_at = now
        hold.renew_at = now + CONFIRM_AFTER
        if hold.valid_until < self._soonest:  # noqa: PLR1730 - nobody comes in between
            self._soonest = hold.valid_until
        if hold.renew_at < self._wake_at and hold.renew_at < self._look_at:
            self._wake()

    def confirmed(self, hold: Hold, sent_at: float) -> None:
        """Take *hold*, which began with a claim and was confirmed, into the next round.

        The command was sent at *sent_at*. If the process was frozen since, the hold may end before
        that round. If another server has taken over since, it must still be asked.
        """
        if sent_at < self._moved_at:
            return
        hold.renew_at = self._round_at
        if hold.valid_until < self._round_at + self.period and hold.renewal is not None:
            self._hurry(hold)

    def _hurry(self, hold: Hold) -> None:
        """Renew *hold* at once."""
        hold.renew_at = hold.valid_until - self.lease  # it is over
        self._wake()

    def renew_now(self, now: float) -> None:
        """Renew every hold at once.

        From *now* on another server answers for the holds, and it may not know them. What the
        former one still answers puts this off for no hold.
        """
        self._moved_at = now
        for hold in self._holds:
            hold.renew_at = min(hold.renew_at, now)
        self._wake()

    def follow_keys(self) -> None:
        """Ask at once for those holds whose keys another node of a cluster has taken over.

        Any thread may call this. The next turn does the work: many slots may move at a time.
        """
        self._keys_moved = True
        self._wake()

    def next_due(self, now: float) -> float:
        """Return when the next round is due, or the next hold ends."""
        if self._round_at <= now:
            self._round_at = now + self.period
        due = self._round_at
        for hold in self._holds:
            if hold.state is HELD:
                if hold.asked_by != NEVER:  # else it is not over before somebody has asked
                    due = min(due, _end_of(hold))
                if hold.renewal is not None and not hold.asked_by:
                    due = min(due, hold.renew_at)
        self._wake_at = due
        return self.rest(now)  # this looks once more, at what was acquired meanwhile

    def rest(self, now: float) -> float:
        """Return the time until which there is nothing to do; it has come if there is something.

        While claims come often, the thread looks for one to confirm. Mostly it finds none. A hold
        that began with a claim has woken nobody. If it was confirmed since, it may end before the
        next round, with a lease of its own.
        """
        often = now < self._claimed_at + CLAIMS_FOR
        self._look_at = now + CONFIRM_AFTER if often else NEVER
        looks = (
            hold.renew_at if hold.asked_by else hold.valid_until
            for hold in self._holds
            if hold.state is HELD
        )
        untold = min((until for until, _ in list(self._untold.values())), default=NEVER)
        return min(self._wake_at, self._look_at, untold, min(looks, default=NEVER))

    def end_overdue(self, now: float) -> float:
        """Note as lost the holds that were not renewed in time.

        Return the time when the next hold is to end, or an earlier time.
        """
        # This is called for every batch of a round. With 100,000 holds it must not look at all of
        # them each time.
        return self._look(now) if now >= self._soonest else self._soonest

    def _look(self, now: float, *, asks: bool = False) -> float:
        """Look as `end_overdue` does.

        If the caller *asks* the server next, a hold whose claim is over stays until the answer.
        """
        self._soonest = soonest = NEVER
        for hold in self._holds:
            if hold.state is HELD:
                if _overdue(hold, now, asks=asks):
                    self._lose(hold, hold.expiry_reason())()
                else:
                    soonest = min(soonest, _end_of(hold))
        for hold, (until, _) in list(self._untold.items()):
            if now >= until:
                self._tell(hold)
            else:
                soonest = min(soonest, until)
        # A hold that was acquired meanwhile may end before all that were looked at. A call would
        # let one more in between.
        if soonest < self._soonest:  # noqa: PLR1730 - as above
            self._soonest = soonest
        return self._soonest

    def due(self, now: float, result: Round) -> list[Hold]:
        """Return the holds to renew at *now*, and note those that are over.

        A hold that is not renewed then is due again soon.
        """
        if self._round_at <= now:
            self._round_at = now + self.period
        self._holds.hear()
        if self._keys_moved:
            self._keys_moved = False
            for hold in self._holds:
                # Unless it was renewed since.
                if now - hold.core.session.took_over(hold.key) > hold.valid_until - hold.lease:
                    hold.renew_at = min(hold.renew_at, now)
        due = self._sort(now, result)
        for hold in due:
            hold.renew_at = self._again(hold, now)
            # From now on, as the thread that asks its server may be busy until it is over.
            hold.ask_until(max(hold.valid_until, now + ANSWER_WITHIN))
        return due

    def _again(self, hold: Hold, now: float) -> float:
        """Return when to renew *hold* again, if the try of *now* is not answered."""
        return now + (CONFIRM_AFTER if hold.asked_by else self.retry)

    def renew(self, due: Sequence[Hold], clock: Callable[[], float], result: Round) -> Op[None]:
        """Renew *due*.

        Several threads may renew the holds of different servers at the same time. `end_overdue`
        finds the holds that end while the server is asked.

        Cost:
            One round trip per `batch` holds.
        """
        for start in range(0, len(due), self._batch):
            # Some may have waited for others, and been released meanwhile. The next hold of the
            # same owner may have the same id, and another lease.
            chunk = [hold for hold in due[start : start + self._batch] if hold.state is HELD]
            lost: list[Hold] = []
            # Read before the calls are made: a lease that is set meanwhile then counts.
            now = clock()
            calls = self._calls(chunk, now, result)
            for hold in chunk:
                hold.renew_at = self._again(hold, now)
            replies = yield from Batch(tuple(call for call, _, _ in calls))
            until = clock() + TELL_WITHIN
            for (_, group, lease), reply in zip(calls, replies, strict=True):
                if isinstance(reply, Exception):
                    result.failures.append(reply)
                    continue
                try:
                    lost += self._note(group, reply, lease, (now, until), result)
                except Exception as error:  # noqa: BLE001 - must not touch another renewal
                    result.failures.append(error)
            if lost:
                yield from self._ask_why(lost, until)

    def _sort(self, now: float, result: Round) -> list[Hold]:
        """Note the holds that are over at *now*; return those to renew."""
        _ = self._look(now, asks=True)
        deserted = self.deserted()
        due: list[Hold] = []
        for hold in self._holds:
            if hold.state is LOST or hold.state is ENDING:
                self._forget(hold, now)
            elif hold.state is HELD and (hold.renewal is not None or hold.asked_by):
                if hold.renewal is not None and (deserted or hold.abandoned()):
                    if hold.state is HELD:  # its user may have released it, and ended, since
                        self._abandon(hold)
                        result.abandoned.append(hold)
                elif hold.renew_at <= now:
                    due.append(hold)
        return due

    def _forget(self, hold: Hold, now: float) -> None:
        """End *hold*, which is lost or being released, if nobody is bound to do so any more."""
        long_over = now >= hold.valid_until + max(hold.lease, self.lease)
        if hold.state is ENDING:
            if long_over:  # its release was given up
                self._holds.released(hold)
        elif hold.abandoned():
            self._holds.end(hold)
        elif hold.ran_out() and long_over:
            # Its owner is not bound to release it, as in a rate limit. Its next hold must not be hit
            # by a late command.
            _ = hold.keep_holder_unique()
            self._holds.end(hold)

    def _abandon(self, hold: Hold) -> None:
        """Stop the renewal of *hold*."""
        # The owner may live on. A late command must not release its next hold.
        _ = hold.keep_holder_unique()
        self._holds.end(hold)

    def _calls(
        self, chunk: Sequence[Hold], now: float, result: Round
    ) -> list[tuple[Eval[list[bool]], list[Hold], float]]:
        """Return the scripts that renew *chunk*, each with its holds and their lease."""
        groups: dict[tuple[Renewal, object, float], list[Hold]] = {}
        for hold in chunk:
            if hold.renewal is not None:
                lease = hold.next_lease(self.lease, now)
                groups.setdefault((hold.renewal, self._apart(hold.key), lease), []).append(hold)
            elif hold.asked_by:
                kind = hold.core.renewal, self._apart(hold.key), hold.lease
                groups.setdefault(kind, []).append(hold)
        calls: list[tuple[Eval[list[bool]], list[Hold], float]] = []
        for (renewal, _, lease), group in groups.items():
            deadline = min(hold.valid_until for hold in group)
            keys, holders = [hold.key for hold in group], [hold.holder for hold in group]
            try:
                calls.append((renewal(keys, lease, holders, deadline=deadline), group, lease))
            except Exception as error:  # noqa: BLE001 - must not touch another renewal
                result.failures.append(error)
        return calls

    def _ask_why(self, lost: Sequence[Hold], until: float) -> Op[None]:
        """Ask whether an operator left notes for the holds *lost*; then tell of the losses."""
        noted = [hold for hold in lost if hold.core.session.options.card]
        if noted:
            # If no answer comes, the losses are told at *until*.
            self._soonest = min(self._soonest, until)
            self._wake()
            calls = [forced_note_read(forced_note(hold.key, hold.holder)) for hold in noted]
            notes = yield from Batch(tuple(calls))
            for hold, note in zip(noted, notes, strict=True):
                if note is None or isinstance(note, str | int):
                    hold.hear(note)
        for hold in lost:
            self._tell(hold)

    def _tell(self, hold: Hold) -> None:
        """Tell the listeners of *hold* that it is lost, unless they were told."""
        _, tell = self._untold.pop(hold, (0.0, None))
        if tell is not None:
            tell()

    def forget(self) -> None:
        """Forget losses that were not told yet, in a forked child."""
        self._untold.clear()

    def _note(
        self,
        group: list[Hold],
        kept: Sequence[bool],
        lease: float,
        times: tuple[float, float],
        result: Round,
    ) -> list[Hold]:
        """Note the outcome of a renewal of *group*; return the holds that it found lost.

        Args:
            group: the holds.
            kept: which of them were renewed.
            lease: the seconds for which they were renewed.
            times: when the request was sent, and the deadline for telling of losses.
            result: counts the renewed holds.
        """
        sent_at, until = times
        lost: list[Hold] = []
        for hold, is_kept in zip(group, kept, strict=True):
            if is_kept:
                hold.extend_validity(sent_at, lease)
                if sent_at >= self._moved_at:
                    hold.renew_at = self._round_at
                if lease < self.lease:
                    hold.end_renewal()  # it ends as it was asked to
                result.renewed += 1
            elif hold.state is HELD:
                self._untold[hold] = until, self._lose(hold, hold.gone_reason(until - TELL_WITHIN))
                lost.append(hold)
        return lost


def _overdue(hold: Hold, now: float, *, asks: bool) -> bool:
    """Return whether *hold* is lost at *now*, though nobody was told; *asks* as in `_look`."""
    if hold.asked_by != NEVER or asks:
        return hold.lost(now)
    return now >= _end_of(hold)


def _end_of(hold: Hold) -> float:
    """Return when *hold* ends without another answer of the server."""
    return hold.valid_until if hold.asked_by == NEVER else max(hold.valid_until, hold.asked_by)
