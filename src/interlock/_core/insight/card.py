"""Cards: what a client writes about itself, for operators.

Theory. A lock on the server shows a client id and a number. An operator cannot tell which process
that is. So the renewal thread writes a card: host, process, program, and the holds and waits that
last. Short ones cost nothing, because they are over before the thread looks. A card has ages in
place of dates, and the server adds its own time. So a client with a wrong clock has a right card.

Rules:

* No lock algorithm reads a card.
* A client writes at most one card in each renewal round, and none if nothing lasts. It writes more
  only if a hold was lost.
* Older holds and waits come first. All others are only counted.
* A wait for permits or a latch has a mark of its own (``p``). It is no part of a deadlock.
* If a hold ends that a card told of, the next card tells how: released, or lost and why. A card
  without lasting holds and waits is the last one, and expires by itself.
* If a card lists a hold, the holder id of that hold is never used again. So an operator who breaks
  the hold by its id breaks no later one, not even one of the same thread.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from interlock._core.insight.events import tell_loss
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import ENDED, HELD, LOST, UNASKED, Permit
from interlock._core.scripts.card import card_write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.holds import Hold
    from interlock._core.queue.waiter import Wish
    from interlock._core.upkeep.session import Session

FORMAT = 1
"""The format number that cards of this version carry."""
CARD = "interlock_client:{{{}}}"
"""The key of a client's card, with the client's id in braces."""
INDEX = "interlock_clients"
"""The sorted set of the clients that have a card (score: when it expires, epoch milliseconds)."""
LASTING = 1.0
"""Seconds that a hold or wait must last before a card is written for it."""
SOON = LASTING / 2
"""Seconds after which a hold or wait is included in a card that is written anyway."""
MOST = 300
"""Holds and waits, together, that a card lists at most."""
LOOK = 2.0
"""Seconds between two looks at the holds."""
LONGEST = 500
"""Characters of a text in a card at most; a lock with a longer key is only counted."""
ENDED_KEPT = 60.0
"""Seconds for which cards tell how a hold ended."""
MOST_ENDED = 50
"""Ends of holds that a card tells at most."""
_HEAD = 3
"""Arguments before the fields of a card."""
FOREVER = 86400.0
"""Seconds that a card is kept at most, after it was written."""
BY_TICKET = "by ticket"
"""The program of a card that tells of a ticket: no process has the hold."""


class CardWriter:
    """Composes the card of one client. It is passive: `now` is an argument.

    Args:
        session: the client's state.
        about: host, process and program.

    Attributes:
        refused: whether cards are given up: the server refused one, or composing one failed.
        named: whether the connection that writes the card has the client's name in CLIENT LIST.
    """

    def __init__(self, session: Session, about: Mapping[str, object]) -> None:
        self._session = session
        self._about = dict(about)
        self._lasting: list[tuple[str, Hold, float]] = []
        self._wishes: list[Wish] = []
        self._number = 0
        self._written_at = -NEVER
        self._written = False
        self._count = self._permits = self._waits = 0
        self.refused = False
        self.named = True
        self._told: dict[Hold, str] = {}
        self._ended: deque[tuple[float, str, dict[str, object]]] = deque(maxlen=MOST_ENDED)
        self._parting = self._parted = False
        self._hurried = False

    @property
    def wanted(self) -> bool:
        """Whether this client writes cards."""
        return bool(self._session.options.card) and not self.refused

    def next_look(self, now: float) -> float:
        """Return when to call `look` next."""
        if not self.wanted:
            return NEVER
        return now + min(LOOK, self._session.watchdog.period)

    def look(self, now: float) -> Eval[bool] | None:
        """Note all holds and waits; return the script that writes the card if it is due."""
        if not self.wanted:
            return None
        self._note(now)
        if self._hurried and (self._lasting or self._wishes or self._ended):
            self._hurried = False
            return self.write(now)
        if not self._lasts(now) and not self._written:
            return None
        # A round may begin a little sooner than a period after the last one.
        early = now < self._written_at + 0.9 * self._session.watchdog.period
        return None if early else self.write(now)

    def _lasts(self, now: float) -> bool:
        """Return whether a hold or a wait has lasted long enough for a card."""
        old = any(age >= LASTING for _, _, age in self._lasting)
        return old or any(now - wish.since >= LASTING for wish in self._wishes)

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
                self._told[hold] = f"{holder} {hold.key}"
        for wish in self._wishes:
            fields += (f"p {wish.holder} {wish.key}", self._wish(wish, now))
        self._parting = not fields and bool(self._ended)
        for at, place, told in self._ended:
            fields += (f"x {place}", json.dumps({"age": round(now - at, 3), **told}))
        if fields:
            told = {
                **self._about,
                "format": FORMAT,
                "number": self._number + 1,
                "period": session.watchdog.period,
                "holds": self._count,
                "permits": self._permits,
                "waits": self._waits,
                "ended": len(self._ended),
                "named": self.named,
                "last": self._parting,
            }
            fields += ("client", json.dumps(told))
        self._written_at = now
        return self._script(min(keep + 2 * session.watchdog.period, FOREVER), fields)

    def remove(self) -> Eval[bool] | None:
        """Return the script that removes the card; None if there is none."""
        if not self._written and not self._parted:
            return None
        return self._script(1, ())

    def _script(self, keep: float, fields: Sequence[str]) -> Eval[bool]:
        client_id = self._session.client_id
        index = "" if self._session.clustered else INDEX
        key = CARD.format(client_id)
        return card_write(key, index, client_id, self._number + 1, keep, fields)

    def put_off(self) -> None:
        """Write the card at the next look: nobody could send what was written."""
        self._written_at = -NEVER

    def answered(self, call: Eval[bool]) -> None:
        """Note that *call* has written the card, or removed it."""
        self._number += 1
        self._parted = self._parting
        self._written = len(call.args) > _HEAD and not self._parting

    def _note(self, now: float) -> None:
        """Look at all holds and waits; note the oldest long ones, and count all holds."""
        self._note_ends(now)
        count = permits = 0
        lasting: list[tuple[str, Hold, float]] = []
        for hold, wait in list(self._session.events.waits.items()):
            if now - wait.since >= SOON and len(lasting) < MOST:
                lasting.append(("w", hold, now - wait.since))
        for hold in self._session.holds.snapshot():
            if hold.state is HELD:
                count += 1
                permits += isinstance(hold, Permit)
                old = now - hold.since >= SOON and len(lasting) < MOST
                if old and hold.keep_holder_unique():
                    lasting.append(("h", hold, now - hold.since))
        self._lasting, self._count, self._permits = lasting, count, permits
        wishes = self._session.waiters.wishes()
        self._waits = len(self._session.events.waits) + len(wishes)
        self._wishes = [
            wish
            for wish in wishes[: MOST - len(lasting)]
            if now - wish.since >= SOON and len(wish.key) <= LONGEST
        ]

    def _note_ends(self, now: float) -> None:
        """Note how those holds ended that a card told of."""
        for hold, place in list(self._told.items()):
            lost = hold.state is LOST
            # A hold that nobody renews ends with its lease, whether its owner looks or not.
            over = hold.state is HELD and hold.renewal is None and now >= hold.valid_until
            if not lost and not over and hold.state is not ENDED:
                continue
            # The server may just be asked why. Without an answer the lease ends the question.
            if lost and hold.detail == UNASKED and now < hold.valid_until:
                continue
            del self._told[hold]
            told: dict[str, object] = {"how": "lost" if lost or over else "released"}
            if lost or over:
                reason = hold.reason or hold.expiry_reason()
                detail = hold.detail if lost and self._session.options.card is True else ""
                told["why"] = tell_loss(reason, detail)[:LONGEST]
                self._hurried = True
            self._ended.append((now, place, told))
        while self._ended and now - self._ended[0][0] > ENDED_KEPT:
            _ = self._ended.popleft()

    def _wish(self, wish: Wish, now: float) -> str:
        return json.dumps(self._common(now - wish.since, wish.owner, wish.label))

    def _entry(self, mark: str, hold: Hold, age: float) -> str:
        told = self._common(age, hold.table_key[1], hold.label)
        if mark == "h":
            told |= {"lease": hold.lease, "renewed": hold.renewal is not None}
        if "thread" in told and (
            trace := self._session.events.traces.get((hold.holder, hold.name))
        ):
            told["trace"] = trace
        return json.dumps(told)

    def _common(self, age: float, owner: int, label: str) -> dict[str, object]:
        told: dict[str, object] = {"age": round(max(age, 0.0), 3), "owner": owner}
        if self._session.options.card != "names":
            told["thread"] = label[:LONGEST]
        return told
