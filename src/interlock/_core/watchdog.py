"""Which holds to renew and which are over: passive, `now` is an argument.

Theory. Every hold without a lease of its own is renewed in rounds, a third of the lease apart, in
batches. A hold joins the next round, so N holds cost at most ceil(N / batch) round trips per node
and period, and none is renewed later than a third of its lease after the last time.

Rules:

* The script's "not yours" means lost; no answer means unknown. The two never share a code path:
  what is unknown is asked again soon, until the local validity ends.
* One failing batch, hold or callback never stops the others.
* A hold that the server has no more is lost at once. Its listeners are told after the note of an
  operator was read, or after `TELL_WITHIN`.
* A hold whose owner or handle is gone is not renewed any more: it ends with its lease. One that
  has a lease of its own was meant to end so. An `owner=` name is gone when every thread and task
  that used it has ended.

Source: LockTask of Redisson 4.7.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER, Batch, Eval
from interlock._core.holds import State
from interlock._core.names import forced_note
from interlock._core.scripts.forced import forced_note_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Op
    from interlock._core.holds import Hold, Holds, Renewal
    from interlock.errors import LossReason


TELL_WITHIN = 0.5
"""Seconds after which a loss is told without the reason that an operator may have left."""


@dataclass(slots=True)
class Round:
    """What a round of the watchdog found.

    Attributes:
        abandoned: holds whose owner is gone; they were dropped.
        renewed: holds that were renewed.
        failures: scripts without an answer, and errors that nobody foresaw.
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
        lose: notes that a hold is lost; returns what tells its listeners.
        apart: returns the group of a key. A script renews keys of one group only.

    Attributes:
        deserted: returns whether nobody is left at all who could release anything.
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
        self._wake_at = NEVER
        self._soonest = 0.0
        # Losses that nobody was told of yet: the deadline, and what tells them.
        self._untold: dict[Hold, tuple[float, Callable[[], None]]] = {}

    def watch(self, hold: Hold) -> None:
        """Take *hold*, which was just acquired, into the next round."""
        hold.renew_at = self._round_at
        if hold.valid_until < self._soonest:  # noqa: PLR1730 - a call costs more, for every acquire
            self._soonest = hold.valid_until
        if hold.valid_until < self._wake_at:
            self._wake()

    def renew_now(self, now: float) -> None:
        """Have every hold renewed at once.

        Another server answers for them from *now* on, which may not know them.
        """
        for hold in self._holds:
            hold.renew_at = min(hold.renew_at, now)
        self._wake()

    def next_due(self, now: float) -> float:
        """Return when the next round is due, or the next hold ends."""
        if self._round_at <= now:
            self._round_at = now + self.period
        due = self._round_at
        for hold in self._holds:
            if hold.state is State.HELD:
                due = min(due, hold.valid_until)
                if hold.renewal is not None:
                    due = min(due, hold.renew_at)
        self._wake_at = due
        return due

    def end_overdue(self, now: float) -> float:
        """Note as lost whatever was not renewed in time.

        Return when the next one is to end, or sooner.
        """
        # Asked for every batch of a round: with 100,000 holds it must not look at all of them
        # each time.
        return self._look(now) if now >= self._soonest else self._soonest

    def _look(self, now: float) -> float:
        self._soonest = soonest = NEVER
        for hold in self._holds:
            if hold.state is State.HELD or hold.state is State.ENDING:
                if now >= hold.valid_until:
                    self._lose(hold, hold.expiry_reason())()
                else:
                    soonest = min(soonest, hold.valid_until)
        for hold, (until, _) in list(self._untold.items()):
            if now >= until:
                self._tell(hold)
            else:
                soonest = min(soonest, until)
        # What was taken meanwhile may end before all that was looked at.
        self._soonest = min(self._soonest, soonest)
        return self._soonest

    def due(self, now: float, result: Round) -> list[Hold]:
        """Return what is to be renewed at *now*, and note what is over.

        It is due again soon unless it is renewed.
        """
        if self._round_at <= now:
            self._round_at = now + self.period
        due = self._sort(now, result)
        for hold in due:
            hold.renew_at = now + self.retry
        return due

    def renew(self, due: Sequence[Hold], clock: Callable[[], float], result: Round) -> Op[None]:
        """Renew *due*.

        Those of different servers may be renewed at the same time, by several threads. Holds that
        end while the server is asked are found by `end_overdue`.

        Cost:
            One round trip per `batch` holds.
        """
        for start in range(0, len(due), self._batch):
            chunk = due[start : start + self._batch]
            gone: list[Hold] = []
            calls = self._calls(chunk, result)
            now = clock()
            for hold in chunk:
                hold.renew_at = now + self.retry
            replies = yield from Batch(tuple(call for call, _ in calls))
            until = clock() + TELL_WITHIN
            for (_, group), reply in zip(calls, replies, strict=True):
                if isinstance(reply, Exception):
                    result.failures.append(reply)
                    continue
                try:
                    gone += self._note(group, reply, (now, until), result)
                except Exception as error:  # noqa: BLE001 - an error in one renewal must not touch another
                    result.failures.append(error)
            if gone:
                yield from self._ask_why(gone, until)

    def _sort(self, now: float, result: Round) -> list[Hold]:
        """Note what is over at *now*; return what is to be renewed."""
        _ = self._look(now)
        deserted = self.deserted()
        due: list[Hold] = []
        for hold in self._holds:
            if hold.state is State.LOST:
                if hold.abandoned():
                    self._holds.end(hold)
            elif hold.state is State.HELD and hold.renewal is not None:
                if deserted or hold.abandoned():
                    self._abandon(hold)
                    result.abandoned.append(hold)
                elif hold.renew_at <= now:
                    due.append(hold)
        return due

    def _abandon(self, hold: Hold) -> None:
        """Renew *hold* no more."""
        owner = hold.owner()
        if owner is not None and owner.shared:
            # Somebody else may come under the same word and release it, until its lease ends.
            hold.end_renewal()
        else:
            self._holds.end(hold)

    def _calls(
        self, chunk: Sequence[Hold], result: Round
    ) -> list[tuple[Eval[list[bool]], list[Hold]]]:
        """Return the scripts that renew *chunk*, each with its holds."""
        groups: dict[tuple[Renewal, object], list[Hold]] = {}
        for hold in chunk:
            if hold.renewal is not None:
                groups.setdefault((hold.renewal, self._apart(hold.key)), []).append(hold)
        calls: list[tuple[Eval[list[bool]], list[Hold]]] = []
        for (renewal, _), group in groups.items():
            deadline = min(hold.valid_until for hold in group)
            keys, holders = [hold.key for hold in group], [hold.holder for hold in group]
            try:
                calls.append((renewal(keys, self.lease, holders, deadline=deadline), group))
            except Exception as error:  # noqa: BLE001 - an error in one renewal must not touch another
                result.failures.append(error)
        return calls

    def _ask_why(self, gone: Sequence[Hold], until: float) -> Op[None]:
        """Ask whether an operator left a note for *gone*, which are lost; tell of the loss."""
        asking = [hold for hold in gone if hold.core.session.options.card]
        if asking:
            # Should this be interrupted, they are told of at *until*.
            self._soonest = min(self._soonest, until)
            calls = [forced_note_read(forced_note(hold.key, hold.holder)) for hold in asking]
            notes = yield from Batch(tuple(calls))
            for hold, note in zip(asking, notes, strict=True):
                if isinstance(note, str) and note:
                    hold.explain(note)
        for hold in gone:
            self._tell(hold)

    def _tell(self, hold: Hold) -> None:
        """Tell the listeners of *hold* that it is lost, unless they were told."""
        _, tell = self._untold.pop(hold, (0.0, None))
        if tell is not None:
            tell()

    def forget(self) -> None:
        """Be as new in a forked child."""
        self._untold.clear()

    def _note(
        self, group: list[Hold], kept: list[bool], times: tuple[float, float], result: Round
    ) -> list[Hold]:
        """Take what a renewal of *group* came to; return the holds that are lost by that.

        Args:
            group: the holds.
            kept: which of them were renewed.
            times: of the request, and the deadline for telling of losses.
            result: counts.
        """
        sent_at, until = times
        gone: list[Hold] = []
        for hold, is_kept in zip(group, kept, strict=True):
            if is_kept:
                hold.extend_validity(sent_at, self.lease)
                hold.renew_at = self._round_at
                result.renewed += 1
            elif hold.state is State.HELD:
                self._untold[hold] = until, self._lose(hold, "force-released")
                gone.append(hold)
        return gone
