"""Holds that something beside the watchdog renews, if the watchdog gets no turn.

Theory. The watchdog runs in a thread of Python. While another thread keeps the interpreter lock, it
stands still. A `Backup` needs no interpreter lock, and renews what the watchdog leaves undone.

Rules:

* The backup has each hold that the watchdog renews, from the grant to the end.
* A renewal of the backup counts once it is noted here. It is noted before a hold counts as lost,
  and before anybody is told that the hold is not valid.
* A hold that has got a lease or an end of its own, or that is lost, is not in the backup.
* If another server has taken the place of the one that the backup asks, what that one says does not
  count. It may go on as if it were the primary, while the new one gives the lock to somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from interlock._core.model.holds import ENDING, HELD, Holds
from interlock._core.upkeep.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.watchdog import Round


class Backup(Protocol):
    """What renews holds beside the watchdog."""

    def watch(self, hold: Hold) -> None:
        """Renew *hold* from now on, or no more if it has got a lease or an end of its own."""
        ...

    def expect(self, hold: Hold, now: float) -> None:
        """Confirm *hold*, which began with a claim at *now*, if nobody does so before."""
        ...

    def renewed(self, hold: Hold) -> None:
        """Note that the watchdog has renewed *hold*."""
        ...

    def forget(self, hold: Hold) -> None:
        """Stop renewing *hold*; nothing happens if it is not there."""
        ...

    def catch_up(self, hold: Hold) -> None:
        """Make *hold* valid for as long as its last renewal here allows."""
        ...

    def check_server(self, hold: Hold) -> None:
        """Stop renewing *hold* if another server has it now."""
        ...

    def close(self) -> None:
        """Stop for good."""
        ...

    def after_fork(self) -> None:
        """Forget everything, in a forked child."""
        ...


class BackedHolds(Holds):
    """The table of a client whose holds are in *backup*, too."""

    def __init__(self, backup: Backup) -> None:
        super().__init__()
        self._backup = backup

    def released(self, hold: Hold) -> None:
        self._backup.forget(hold)
        super().released(hold)

    def _forget(self, hold: Hold) -> None:
        self._backup.forget(hold)
        super()._forget(hold)

    def catch_up(self, hold: Hold) -> None:
        """Note the renewals of *hold* that are not noted yet."""
        super().catch_up(hold)
        self._backup.catch_up(hold)

    def leave_to_watchdog(self, hold: Hold) -> None:
        """Remove *hold* from the backup: the watchdog alone renews it, or nothing does."""
        self._backup.forget(hold)


class BackedWatchdog(Watchdog):
    """The watchdog of a client whose holds are in *backup*, too.

    Args:
        backup: what renews them if this does not.
        holds: as for `Watchdog`.
        rest: the same.
    """

    def __init__(self, backup: Backup, holds: Holds, **rest: Any) -> None:
        super().__init__(holds, **rest)
        self._backup = backup

    def watch(self, hold: Hold) -> None:
        super().watch(hold)
        self._backup.watch(hold)

    def expect(self, hold: Hold, now: float) -> None:
        """Confirm *hold* soon, which began with a claim, even if Python gets no turn."""
        super().expect(hold, now)
        self._backup.expect(hold, now)

    def confirmed(self, hold: Hold, sent_at: float) -> None:
        super().confirmed(hold, sent_at)
        self._backup.watch(hold)

    def renew_now(self, now: float) -> None:
        """Renew every hold at once, and none of them on a former server."""
        for hold in self._holds:
            self._backup.check_server(hold)
        super().renew_now(now)

    def _look(self, now: float, *, asks: bool = False) -> float:
        for hold in self._holds:
            if hold.state in (HELD, ENDING) and now >= hold.valid_until:
                self._backup.catch_up(hold)
        return super()._look(now, asks=asks)

    def _note(
        self,
        group: list[Hold],
        kept: Sequence[bool],
        lease: float,
        times: tuple[float, float],
        result: Round,
    ) -> list[Hold]:
        lost = super()._note(group, kept, lease, times, result)
        for hold, is_kept in zip(group, kept, strict=True):
            if is_kept and hold.state is HELD:
                self._backup.renewed(hold)
        return lost
