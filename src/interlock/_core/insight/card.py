"""Cards: what a client writes about itself, for operators.

Theory. A lock on the server shows a client id and a number. An operator cannot tell which process
that is. So a thread of the client writes a card: host, process, program, and the holds and waits that
last. Short ones cost nothing, because they are over before the thread looks. Only a hold whose lease
exceeds `Options.lease` is told at once: its process may die long before it ends. A card has ages in
place of dates, and the server adds its own time. So a client with a wrong clock has a right card.

Rules:

* No lock algorithm reads a card.
* A client writes at most one card in each renewal round, and none if nothing lasts. It writes more
  only for holds that have long leases, and at most one a second.
* A card tells in which line each hold was acquired. That is made a text where the card is written.
* Older holds and waits come first. All others are only counted.
* A wait for permits or a latch has a mark of its own (``p``). It is no part of a deadlock.
* When nothing lasts any more, the next round removes the card.
* The holder id of a hold is never used again. So an operator who breaks the hold by its id breaks
  no later one, not even one of the same thread.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER
from interlock._core.scripts.card import card_write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.objects.counter import Call
    from interlock._core.upkeep.session import Session

FORMAT = 1
"""The format number that cards of this version carry."""
CARD = "interlock_client:{{{}}}"
"""The key of a client's card, with the client's prefix and id in braces."""
INDEX = "interlock_clients"
"""The sorted set of the clients that have a card (score: when it expires, epoch milliseconds).

Clients with a prefix have one of their own (`index_of`).
"""
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
LONGEST_PLACE = 200
"""Characters of a file and its line; of more the last ones are told."""
_HEAD = 2
"""Arguments before the fields of a card."""
FOREVER = 86400.0
"""Seconds that a card is kept at most, after it was written."""
BY_TICKET = "by ticket"
"""The program of a card that tells of a ticket: no process has the hold."""


def index_of(prefix: str) -> str:
    """Return the key of the sorted set of those clients with *prefix* that have a card."""
    return f"{INDEX}:{{{prefix}}}" if prefix else INDEX


def key_of(session: Session, client_id: str) -> str:
    """Return the key of the card of *client_id*, a client with the prefix of *session*."""
    return CARD.format((session.options.prefix or "") + client_id)


def writing(session: Session, client_id: str, keep: float, fields: Sequence[str]) -> Eval[bool]:
    """Return the script that writes the card of *client_id*, or removes it for want of *fields*."""
    index = "" if session.outside.clustered else index_of(session.options.prefix or "")
    return card_write(key_of(session, client_id), index, client_id, keep, fields)


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
        self._session, self._about = session, dict(about)
        self._events, self._options = session.events, session.options
        self._written_at = -NEVER
        self._written = False
        self.refused = False
        self.named = True
        self._hurried, self._hurried_at = False, -NEVER

    @property
    def _period(self) -> float:
        """Seconds between two rounds of renewals."""
        period: float = self._session.watchdog.period
        return period

    @property
    def wanted(self) -> bool:
        """Whether this client writes cards."""
        return bool(self._options.card) and not self.refused

    def next_look(self, now: float) -> float:
        """Return when to call `look` next."""
        if self._hurried:
            return self.hurry(now)
        return now + min(LOOK, self._period) if self.wanted else NEVER

    def hurry(self, now: float) -> float:
        """Have a card written soon, as a hold with a long lease was acquired; return when to `look`."""
        self._hurried = self.wanted
        return max(now, self._hurried_at + LASTING) if self.wanted else NEVER

    def look(self, now: float) -> Eval[bool] | None:
        """Return the script that writes the card if it is due."""
        if not self.wanted:
            return None
        lasting = self._lasting(now)
        if self._hurried and now >= self._hurried_at + LASTING:
            self._hurried, self._hurried_at = False, now
            if any(self._is_long(*each) for each in lasting):
                return self._write(lasting, now)
        if not self._written and not any(age >= LASTING for _, _, age in lasting):
            return None
        # A round may begin a little sooner than a period after the last one.
        early = now < self._written_at + 0.9 * self._period
        return None if early else self._write(lasting, now)

    def _write(self, lasting: Sequence[tuple[str, Hold, float]], now: float) -> Eval[bool]:
        """Return the script that writes what is *lasting*, or removes the card if nothing is."""
        fields = list[str]()
        keep = self._options.lease
        for mark, hold, age in lasting:
            if len(hold.key) > LONGEST:
                continue
            holder = hold.holder.removesuffix(":write")
            fields += (f"{mark} {holder} {hold.key}", self._entry(mark, hold, age))
            if mark == "h":
                keep = max(keep, hold.valid_until - now)
        if fields:
            held = self._events.held()
            told = {
                **self._about,
                "format": FORMAT,
                "period": self._period,
                "holds": len(held),
                "permits": sum(hold.of_permits for hold in held),
                "waits": len(self._events.waits) + len(self._wishes()),
                "named": self.named,
            }
            fields += ("client", json.dumps(told))
        self._written_at = now
        keep = min(keep + 2 * self._period, FOREVER)
        return writing(self._session, self._session.client_id, keep, fields)

    def remove(self) -> Eval[bool] | None:
        """Return the script that removes the card; None if there is none."""
        session = self._session
        return writing(session, session.client_id, 1, ()) if self._written else None

    def put_off(self) -> None:
        """Write the card at the next look: nobody could send what was written."""
        self._written_at = self._hurried_at = -NEVER
        self._hurried = True

    def answered(self, call: Eval[bool]) -> None:
        """Note that *call* has written the card, or removed it."""
        self._written = len(call.args) > _HEAD

    def _lasting(self, now: float) -> list[tuple[str, Hold, float]]:
        """Return the oldest holds and waits that last, each with its mark and age."""
        all_of_them = [
            *[("w", hold, now - wait.since) for hold, wait in list(self._events.waits.items())],
            *[("h", hold, now - hold.since) for hold in self._events.held()],
            *[("p", call, now - call.came) for call in self._wishes()],
        ]
        return [each for each in all_of_them if each[2] >= SOON or self._is_long(*each)][:MOST]

    def _wishes(self) -> list[Call]:
        """Return who waits for permits that nobody owns, or for a latch."""
        return [call for call in list(self._session.calls) if call.came]

    def _is_long(self, mark: str, hold: Hold, _age: float) -> bool:
        """Return whether *hold* is held, with a longer lease than holds that are renewed."""
        return mark == "h" and hold.lease > self._options.lease

    def _entry(self, mark: str, hold: Hold, age: float) -> str:
        told: dict[str, object] = {"age": round(max(age, 0.0), 3), "owner": hold.identity}
        if self._options.card != "names":
            told["thread"] = hold.label[:LONGEST]
        if mark == "h":
            told |= {"lease": hold.lease, "renewed": hold.renewed}
            if "thread" in told and hold.acquired_at:
                told["place"] = hold.acquired_at[-LONGEST_PLACE:]
        if "thread" in told and (trace := self._events.traces.get((hold.holder, hold.name))):
            told["trace"] = trace
        return json.dumps(told)
