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
from typing import TYPE_CHECKING, Protocol

from interlock._core.model.effects import NEVER
from interlock._core.model.hold import HELD
from interlock._core.scripts.card import card_write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.insight.observing import Observing, Wish
    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock.options import Options

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


class Client(Protocol):
    """The client that a card is about.

    Attributes:
        client_id: its id.
        options: its options.
        clustered: whether several servers share the keys.
        events: what lasts.
        period: seconds between two rounds of renewals.
    """

    client_id: str
    options: Options
    clustered: bool
    events: Observing
    period: float


class CardWriter:
    """Composes the card of one client. It is passive: `now` is an argument.

    Args:
        client: the client.
        about: host, process and program.

    Attributes:
        refused: whether cards are given up: the server refused one, or composing one failed.
        named: whether the connection that writes the card has the client's name in CLIENT LIST.
    """

    def __init__(self, client: Client, about: Mapping[str, object]) -> None:
        self._client = client
        self._about = dict(about)
        self._lasting: list[tuple[str, Hold, float]] = []
        self._wishes: list[Wish] = []
        self._written_at = -NEVER
        self._written = False
        self._count = self._permits = self._waits = 0
        self.refused = False
        self.named = True
        self._hurried, self._hurried_at = False, -NEVER

    @property
    def wanted(self) -> bool:
        """Whether this client writes cards."""
        return bool(self._client.options.card) and not self.refused

    def next_look(self, now: float) -> float:
        """Return when to call `look` next."""
        if self._hurried:
            return self.hurry(now)
        return now + min(LOOK, self._client.period) if self.wanted else NEVER

    def hurry(self, now: float) -> float:
        """Have a card written soon, as a hold with a long lease was acquired; return when to `look`."""
        self._hurried = self.wanted
        return max(now, self._hurried_at + LASTING) if self.wanted else NEVER

    def look(self, now: float) -> Eval[bool] | None:
        """Note all holds and waits; return the script that writes the card if it is due."""
        if not self.wanted:
            return None
        self._note(now)
        if self._hurried and now >= self._hurried_at + LASTING:
            self._hurried, self._hurried_at = False, now
            if any(self._is_long(hold) for _, hold, _ in self._lasting):
                return self._write(now)
        lasts = any(age >= LASTING for _, _, age in self._lasting)
        lasts = lasts or any(now - wish.since >= LASTING for wish in self._wishes)
        if not lasts and not self._written:
            return None
        # A round may begin a little sooner than a period after the last one.
        early = now < self._written_at + 0.9 * self._client.period
        return None if early else self._write(now)

    def _write(self, now: float) -> Eval[bool]:
        """Return the script that writes what was noted *now*, or removes the card if nothing lasts."""
        client, fields = self._client, list[str]()
        keep = client.options.lease
        for mark, hold, age in self._lasting:
            if len(hold.key) > LONGEST:
                continue
            holder = hold.holder.removesuffix(":write")
            fields += (f"{mark} {holder} {hold.key}", self._entry(mark, hold, age))
            if mark == "h":
                keep = max(keep, hold.valid_until - now)
        for wish in self._wishes:
            told = self._common(now - wish.since, wish.owner, wish.label)
            fields += (f"p {wish.holder} {wish.key}", json.dumps(told))
        if fields:
            told = {
                **self._about,
                "format": FORMAT,
                "period": client.period,
                "holds": self._count,
                "permits": self._permits,
                "waits": self._waits,
                "named": self.named,
            }
            fields += ("client", json.dumps(told))
        self._written_at = now
        return self._script(min(keep + 2 * client.period, FOREVER), fields)

    def remove(self) -> Eval[bool] | None:
        """Return the script that removes the card; None if there is none."""
        return self._script(1, ()) if self._written else None

    def _script(self, keep: float, fields: Sequence[str]) -> Eval[bool]:
        client, client_id = self._client, self._client.client_id
        prefix = client.options.prefix or ""
        index = "" if client.clustered else index_of(prefix)
        key = CARD.format(prefix + client_id)
        return card_write(key, index, client_id, keep, fields)

    def put_off(self) -> None:
        """Write the card at the next look: nobody could send what was written."""
        self._written_at = self._hurried_at = -NEVER
        self._hurried = True

    def answered(self, call: Eval[bool]) -> None:
        """Note that *call* has written the card, or removed it."""
        self._written = len(call.args) > _HEAD

    def _note(self, now: float) -> None:
        """Look at all holds and waits; note the oldest long ones, and count all holds."""
        count = permits = 0
        lasting: list[tuple[str, Hold, float]] = []
        for hold, wait in list(self._client.events.waits.items()):
            if now - wait.since >= SOON and len(lasting) < MOST:
                lasting.append(("w", hold, now - wait.since))
        for hold in self._client.events.live():
            if hold.state is HELD:
                count += 1
                permits += hold.of_permits
                old = now - hold.since >= SOON or self._is_long(hold)
                if old and len(lasting) < MOST:
                    lasting.append(("h", hold, now - hold.since))
        self._lasting, self._count, self._permits = lasting, count, permits
        wishes = self._client.events.wishes()
        self._waits = len(self._client.events.waits) + len(wishes)
        self._wishes = [
            wish
            for wish in wishes[: MOST - len(lasting)]
            if now - wish.since >= SOON and len(wish.key) <= LONGEST
        ]

    def _is_long(self, hold: Hold) -> bool:
        """Return whether *hold* has a longer lease than holds that are renewed."""
        return hold.lease > self._client.options.lease

    def _entry(self, mark: str, hold: Hold, age: float) -> str:
        told = self._common(age, hold.identity, hold.label)
        if mark == "h":
            told |= {"lease": hold.lease, "renewed": hold.renewed}
            if "thread" in told and hold.acquired_at:
                told["place"] = hold.acquired_at[-LONGEST_PLACE:]
        if "thread" in told and (trace := self._client.events.traces.get((hold.holder, hold.name))):
            told["trace"] = trace
        return json.dumps(told)

    def _common(self, age: float, owner: int, label: str) -> dict[str, object]:
        told: dict[str, object] = {"age": round(max(age, 0.0), 3), "owner": owner}
        if self._client.options.card != "names":
            told["thread"] = label[:LONGEST]
        return told
