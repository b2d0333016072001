"""What happened between two readings of the locks, and how holds ended.

Rules:

* A hold that vanished was released only if its client says so: its card tells how holds end. A
  client that has closed gave back what it held.
* Until a card tells, the server's own story counts: a restart, a flush, or evicted keys.
* If a lease had time to run out since the last good reading, it has. A card must have known the
  hold, and may say otherwise.
* If neither tells, the hold is "gone: unknown why". That is a loss if a card knew the hold. A hold
  that no card knew (Java, or shorter than a second) may have been released.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.inspection.lock_reply import key_of
from interlock.inspection.why import loss_of
from interlock.inspection.words import given_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from interlock.inspection import HolderInfo, LockInfo
    from interlock.inspection.cards import Card, End

PATIENCE = 45.0
"""Seconds after which a card that tells nothing will not tell."""
PATIENCE_UNKNOWN = 15.0
"""As `PATIENCE`, for a hold that no card told of: most were too short for a card."""
OPEN = 200
"""Holds whose end is looked into at the same time."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that the console has seen happen.

    Attributes:
        at: seconds since 1970.
        name: of the lock; empty if it is about the server.
        what: in words.
        loss: whether a holder lost its lock.
        turn: whether a holder came.
    """

    at: float
    name: str
    what: str
    loss: bool = False
    turn: bool = False


@dataclass(slots=True)
class _Open:
    """A hold that is gone, and of which its client's card has not told yet.

    Attributes:
        happening: what is told until then.
        each: the hold as it was seen last.
        key: under which cards know its lock.
        since: when it was missed, on the monotonic clock.
        server: whether the server's own story explains it.
        known: whether a card told of the hold. If not, the next card may tell how it ended.
    """

    happening: Happening
    each: HolderInfo
    key: str
    since: float
    server: bool
    known: bool


class Changes:
    """Compares readings, and finds out how holds ended."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Open] = {}

    def clients(self) -> set[str]:
        """Return the clients whose cards may tell how a hold ended."""
        return {each.each.client.client_id for each in self._open.values()} - {""}

    def between(
        self,
        before: Iterable[LockInfo],
        after: Iterable[LockInfo],
        passed: Callable[[str], float],
        story: str,
    ) -> Iterator[Happening]:
        """Yield what has happened between two readings.

        Args:
            before: the locks of the last good reading that are looked at again, or have gone.
            after: the same now, and new ones.
            passed: from the name of a lock to the seconds since it was looked at.
            story: what the server did meanwhile that explains missing keys; empty for nothing.
        """
        now = time.time()
        old, new = _holds(before), _holds(after)
        for place, (info, each) in old.items():
            if place not in new:
                yield self._gone(info, each, passed(info.name), story)
            elif new[place][1].client.dead and not each.client.dead:
                # The card may not have told whose hold it is when it was seen last.
                told = who(new[place][1])
                yield Happening(now, info.name, f"{told} is dead, and holds it still")
            elif new[place][1].late and not each.late:
                yield Happening(now, info.name, f"the renewal by {who(new[place][1])} is late")
        for place in new.keys() - old.keys():
            info, each = new[place]
            yield Happening(now, info.name, f"acquired by {who(each)}", turn=True)

    def _gone(self, info: LockInfo, each: HolderInfo, passed: float, story: str) -> Happening:
        now, name = time.time(), info.name
        ran_out = each.remaining is not None and each.remaining <= passed
        known = each.client.answering is not None and each.held_for is not None
        if each.late or each.client.dead or (known and ran_out):
            found = Happening(now, name, f"lost by {who(each)}: its lease ran out", loss=True)
        elif story:
            found = Happening(now, name, f"lost by {who(each)}: {story}", loss=True)
        elif known:
            found = Happening(now, name, f"gone, held by {who(each)} until now: not known why yet")
        else:
            how = "released, or its lease ran out" if ran_out else "no card tells whether released"
            found = Happening(now, name, f"ended, held by {who(each)} until now: {how}")
        # There may be very many short holds. They leave room for the others.
        if each.client.client_id and len(self._open) < (OPEN if known else OPEN // 2):
            since, place = time.monotonic(), (name, each.holder)
            self._open[place] = _Open(found, each, key_of(info), since, bool(story), known)
        return found

    def settle(self, told: Mapping[str, Card | None]) -> Iterator[tuple[Happening, Happening]]:
        """Yield what was told of a hold, and what is known now.

        Args:
            told: the cards of `clients`; None for a client without a card.
        """
        now = time.monotonic()
        for place, each in list(self._open.items()):
            name, holder = place
            field = holder.removesuffix(":write"), each.key
            client = each.each.client.client_id
            verdict = None
            if client in told:
                card = told[client]
                end = None if card is None else card.ends.get(field)
                if end is not None:
                    verdict = _verdict(each, end)
                elif card is None and not each.known:
                    del self._open[place]
                    continue
                elif card is None and not each.server and not each.happening.loss:
                    verdict = (f"released by {who(each.each)}: its client has closed", False)
            if verdict is None:
                if now - each.since < (PATIENCE if each.known else PATIENCE_UNKNOWN):
                    continue
                if not each.known:
                    del self._open[place]
                    continue
                verdict = (each.happening.what, True)
                if not each.happening.loss:
                    verdict = (f"gone: unknown why; {who(each.each)} held it", True)
            del self._open[place]
            what, loss = verdict
            yield each.happening, Happening(each.happening.at, name, what, loss)


def _holds(locks: Iterable[LockInfo]) -> dict[tuple[str, str], tuple[LockInfo, HolderInfo]]:
    """Return all holds by lock and holder; what a waiter was given becomes one when it takes it."""
    return {
        (info.name, each.holder): (info, each)
        for info in locks
        for each in info.holders
        if not each.claim
    }


def _verdict(each: _Open, end: End) -> tuple[str, bool]:
    if not end.lost:
        return f"released by {who(each.each)}", False
    if each.server:
        return each.happening.what, True
    return f"lost by {who(each.each)}: {loss_of(end.why)}", True


def who(each: HolderInfo) -> str:
    """Return in words who holds."""
    if each.claim:
        return given_to(each)
    client = each.client
    parts = [client.host, f"pid {client.pid}" if client.pid else "", client.program, each.thread]
    return " ".join(part for part in parts if part) or each.holder
