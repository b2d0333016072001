"""Cards: what a client writes about itself, for operators.

Theory. A lock on the server tells a client id and a number, and no operator knows whose they are.
So the renewal thread writes a card: host, process, program, and the holds and waits that last.
Short ones cost nothing, for they are over before the thread looks. A card tells ages and no dates,
and the server adds its own time: a client with a wrong clock has a right card.

Rules:

* No lock algorithm reads a card.
* A client writes at most one in each renewal round, and none if nothing lasts.
* A card that was answered for carries a higher number than the one before. So a card with a number
  two higher was composed after the reader saw the first one (`deadlock`).
* Older holds and waits come first. The card counts the others only.
* The holder id of a hold that a card tells of is never used again. So an operator who breaks the
  hold of that id breaks no later one, not even of the same thread.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER
from interlock._core.holds import Permit, State
from interlock._core.scripts.card import card_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock._core.effects import Eval
    from interlock._core.holds import Hold
    from interlock._core.session import Session

FORMAT = 1
"""What cards of this version say of their format."""
CARD = "interlock_client:{{{}}}"
"""The key of a client's card; its id goes in, in braces."""
INDEX = "interlock_clients"
"""The sorted set of the clients that have a card (score: when it expires, epoch milliseconds)."""
LASTING = 1.0
"""Seconds after which a hold or wait appears."""
SOON = LASTING / 2
"""Seconds after which a hold or wait is written along with one that lasts."""
MOST = 300
"""Holds and waits that a card tells of, together."""
LOOK = 2.0
"""Seconds between two looks at the holds."""
LONGEST = 500
"""Characters of a text in a card; a lock with a longer name is only counted."""
_HEAD = 3
"""Arguments before the fields of a card."""
FOREVER = 86400.0
"""Seconds that a card is kept at most after it was written."""


class CardWriter:
    """Composes the card of one client: passive, `now` is an argument.

    Args:
        session: the client's state.
        about: host, process and program.

    Attributes:
        refused: whether the user has no right to write cards; then none is written.
    """

    def __init__(self, session: Session, about: Mapping[str, object]) -> None:
        self._session = session
        self._about = dict(about)
        self._lasting: list[tuple[str, Hold, float]] = []
        self._number = 0
        self._written_at = -NEVER
        self._written = False
        self._count = self._permits = 0
        self.refused = False
        self._hurried = False

    def hurry(self) -> None:
        """Write the card at the next look: a thread or task may be in a deadlock."""
        self._hurried = True

    @property
    def wanted(self) -> bool:
        """Whether cards are to be written."""
        return bool(self._session.options.card) and not self.refused

    def next_look(self, now: float) -> float:
        """Return when `look` is to be called next."""
        if not self.wanted:
            return NEVER
        return now + min(LOOK, self._session.watchdog.period)

    def look(self, now: float) -> Eval[bool] | None:
        """Note what there is; return the script that writes the card if that is due."""
        if not self.wanted:
            return None
        self._note(now)
        if self._hurried and self._lasting:
            self._hurried = False
            return self.write(now)
        if not any(age >= LASTING for _, _, age in self._lasting) and not self._written:
            return None
        # A round may begin a little sooner than a period after the last one.
        if now < self._written_at + 0.9 * self._session.watchdog.period:
            return None
        return self.write(now)

    def write(self, now: float) -> Eval[bool]:
        """Return the script that writes the card as of *now*, or removes it if nothing lasts."""
        self._note(now)
        session, fields = self._session, list[str]()
        keep = session.options.lease
        for mark, hold, age in self._lasting:
            if len(hold.key) > LONGEST:
                continue
            holder = hold.holder.removesuffix(":write")
            fields += (f"{mark} {holder} {hold.key}", self._entry(mark, hold, age))
            if mark == "h":
                keep = max(keep, hold.valid_until - now)
        if fields:
            told = {
                **self._about,
                "format": FORMAT,
                "number": self._number + 1,
                "period": session.watchdog.period,
                "holds": self._count,
                "permits": self._permits,
                "waits": len(session.events.waits),
            }
            fields += ("client", json.dumps(told))
        self._written_at = now
        index = "" if session.clustered else INDEX
        kept = min(keep + 2 * session.watchdog.period, FOREVER)
        key = CARD.format(session.client_id)
        return card_write(key, index, session.client_id, self._number + 1, kept, fields)

    def remove(self) -> Eval[bool] | None:
        """Return the script that removes the card; None if there is none."""
        if not self._written:
            return None
        session = self._session
        index = "" if session.clustered else INDEX
        key = CARD.format(session.client_id)
        return card_write(key, index, session.client_id, self._number + 1, 1, [])

    def answered(self, call: Eval[bool]) -> None:
        """Note that *call* has written the card, or removed it."""
        self._number += 1
        self._written = len(call.args) > _HEAD

    def _note(self, now: float) -> None:
        """Look at all holds and waits; remember the oldest that last, and count all."""
        count = permits = 0
        lasting: list[tuple[str, Hold, float]] = []
        for hold, wait in list(self._session.events.waits.items()):
            if now - wait.since >= SOON and len(lasting) < MOST:
                lasting.append(("w", hold, now - wait.since))
        for hold in self._session.holds.snapshot():
            if hold.state is State.HELD:
                count += 1
                permits += isinstance(hold, Permit)
                old = now - hold.since >= SOON and len(lasting) < MOST
                if old and hold.retire_number():
                    lasting.append(("h", hold, now - hold.since))
        self._lasting, self._count, self._permits = lasting, count, permits

    def _entry(self, mark: str, hold: Hold, age: float) -> str:
        told: dict[str, object] = {
            "age": round(max(age, 0.0), 3),
            "owner": hold.table_key[1],
            "kind": hold.core.kind,
        }
        if mark == "h":
            told |= {"lease": hold.lease, "renewed": hold.renewal is not None}
        if self._session.options.card != "names":
            told["thread"] = hold.label[:LONGEST]
        return json.dumps(told)
