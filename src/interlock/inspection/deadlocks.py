"""Find deadlocks in what servers and cards tell."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from interlock._core.insight.deadlock import (
    PATIENCE,
    Party,
    Sight,
    Told,
    Wait,
    confirmed,
    find_cycle,
    same_cycle,
)
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from interlock._core.insight.deadlock import Link
    from interlock.inspection.cards import Card
    from interlock.inspection.info import ClientInfo
    from interlock.inspection.reader import Reader

LONGEST_LOOK = 12.0
"""Seconds for which `find_deadlocks` looks again at a suspected cycle."""
PAUSE = 1.0
"""Seconds between two looks."""
CARD, LOCK = "card", "lock"
"""What a user may have no right to read."""


@dataclass(frozen=True, slots=True)
class DeadlockStep:
    """One thread or task of a deadlock.

    Attributes:
        client: its client.
        thread: what it is called.
        waits_for: the lock that it waits for.
        held_by: the holder id of that lock, which is the next step's.
        waited: seconds.
    """

    client: ClientInfo
    thread: str
    waits_for: str
    held_by: str
    waited: float


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Threads and tasks that wait for each other in a ring.

    Attributes:
        steps: each waits for what the next one holds, the last for what the first one holds.
    """

    steps: tuple[DeadlockStep, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the same as what JSON can carry."""
        return asdict(self)


class Look:
    """One look at the graph; what was read once is not read again.

    Args:
        reader: reads cards and holders.
        here: what a client knows of itself without a card, by client id.
        refused: locks and client ids that the user has no right to read about, by name. They are
            not asked for; new ones are added.
    """

    def __init__(
        self,
        reader: Reader,
        here: Mapping[str, Told] | None = None,
        refused: set[tuple[str, str]] | None = None,
    ) -> None:
        self._reader = reader
        self._refused = set[tuple[str, str]]() if refused is None else refused
        self._told: dict[str, Told | None] = dict(here or {})
        self._holders: dict[str, tuple[str, ...]] = {}
        self.cards: dict[str, Card] = {}

    def told(self, client_id: str) -> Told | None:
        """Return what the client tells of itself."""
        if client_id not in self._told:
            card = self._card(client_id)
            if card is not None:
                self.cards[client_id] = card
            self._told[client_id] = None if card is None else told_by(card)
        return self._told[client_id]

    def _card(self, client_id: str) -> Card | None:
        """Return the card of a client; None if there is none, or if it may not be read."""
        if (CARD, client_id) in self._refused:
            return None
        before = self._reader.forbidden_cards
        card = self._reader.card(client_id)
        if self._reader.forbidden_cards > before:
            self._refused.add((CARD, client_id))
        return card

    def holders(self, key: str) -> tuple[str, ...]:
        """Return who holds *key*; nobody, if that may not be read."""
        if (LOCK, key) in self._refused:
            return ()
        if key not in self._holders:
            before = self._reader.forbidden
            self._holders[key] = self._reader.holders(key)
            if self._reader.forbidden > before:
                self._refused.add((LOCK, key))
        return self._holders[key]

    def cycle(self, start: Party, clock: Callable[[], float]) -> Sight | None:
        """Return the cycle that *start* is in, as far as one look can tell."""
        links = find_cycle(start, self.told, self.holders)
        if links is None:
            return None
        clients = {link.party.client_id for link in links}
        seen = {each: told.number for each in clients if (told := self.told(each)) is not None}
        after: dict[str, int | None] = {}
        for each in clients:
            if seen.get(each) is not None:
                card = self._card(each)
                after[each] = None if card is None else card.number
        return Sight(links, seen, after, clock())


def told_by(card: Card) -> Told:
    """Return what *card* tells of owners and waits."""
    owners = {place: entry.owner for place, entry in card.holds.items()}
    waits: dict[int, list[Wait]] = {}
    for entry in card.waits.values():
        label = entry.thread or entry.holder
        waits.setdefault(entry.owner, []).append(
            Wait(
                entry.holder,
                entry.key,
                f"{card.client.host} pid {card.client.pid} {label}",
                entry.age,
            )
        )
    return Told(card.number, owners, waits)


class DeadlockSearch:
    """Looks at the graph of all clients again and again; two looks prove a deadlock.

    Args:
        clock: tells seconds.

    Attributes:
        cycles: the deadlocks that the last look has seen, and that are proven.
        undecided: whether the last look has seen a cycle that is not proven.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._suspected: dict[object, Sight] = {}
        self._proven: dict[object, tuple[Link, ...]] = {}
        self._cards: dict[str, Card] = {}
        self.cycles: tuple[tuple[Link, ...], ...] = ()
        self.undecided = False

    def look(self, reader: Reader, waiting: Iterable[Card]) -> None:
        """Look once.

        Args:
            reader: reads cards and holders.
            waiting: the cards of clients with a thread or task that waits.

        Raises:
            ServerUnavailableError: a server cannot be reached, or did not answer.
        """
        look, present = Look(reader), dict[object, Sight]()
        for start in _long_waiters(waiting):
            sight = look.cycle(start, self._clock)
            if sight is not None:
                present.setdefault(same_cycle(sight.links), sight)
        for name, sight in present.items():
            first = self._suspected.setdefault(name, sight)
            if confirmed(first, _begin_like(sight, first)):
                self._proven[name] = sight.links
        self._cards = look.cards
        self._suspected = {name: self._suspected[name] for name in present}
        self._proven = {name: each for name, each in self._proven.items() if name in present}
        self.cycles = tuple(self._proven.values())
        self.undecided = len(self._proven) < len(present)

    def found(self) -> list[Deadlock]:
        """Return the proven deadlocks."""
        return [_deadlock(links, self._cards) for links in self.cycles]


def find_deadlocks(
    reader: Reader,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Deadlock]:
    """Return the deadlocks among all clients that write cards.

    Without a suspicion that is one look. A suspected cycle is looked at again until it is
    confirmed or gone, for `LONGEST_LOOK` seconds at most.
    """
    search, began = DeadlockSearch(clock), clock()
    while True:
        search.look(reader, reader.waiting_cards())
        if not search.undecided or clock() - began > LONGEST_LOOK:
            return search.found()
        sleep(PAUSE)


def check_seen(reader: Reader) -> None:
    """Raise unless *reader* could read all that it wanted: else nothing found is no answer.

    Raises:
        ServerUnavailableError: the user has no right to read a card or a lock.
    """
    cards, locks = reader.forbidden_cards, reader.forbidden
    if cards or locks:
        raise ServerUnavailableError(
            "there may be deadlocks that were not seen: the user has no right to read "
            f"{cards} cards and {locks} locks that the search needs",
            code="NOPERM",
        )


def _begin_like(sight: Sight, first: Sight) -> Sight:
    """Return *sight* with its links in the order of those of *first*."""
    order = {link.same: place for place, link in enumerate(first.links)}
    links = sorted(sight.links, key=lambda link: order[link.same])
    return sight._replace(links=tuple(links))


def _long_waiters(waiting: Iterable[Card]) -> list[Party]:
    return [
        Party(card.client.client_id, entry.owner)
        for card in waiting
        for entry in card.waits.values()
        if entry.age >= PATIENCE
    ]


def _deadlock(links: tuple[Link, ...], cards: Mapping[str, Card]) -> Deadlock:
    steps: list[DeadlockStep] = []
    for link in links:
        card = cards[link.party.client_id]
        entry = card.waits.get((link.waits_as, link.key))
        thread = "" if entry is None else entry.thread
        steps.append(DeadlockStep(card.client, thread, link.key, link.holder, link.waited))
    return Deadlock(tuple(steps))
