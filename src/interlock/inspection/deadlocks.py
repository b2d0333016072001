"""Find deadlocks in what cards and servers tell, in one look.

Theory. An owner is a thread or task of one client. In a ring of owners each waits for a lock that
the next one holds. A card is old when it is read, but it has ages. If all waits and holds of a ring
are older than its oldest card, then all of them lasted when that card was composed: the ring was
closed. The server must show its holds now, too; the id of a hold that a card lists is never used
again. A ring that somebody has left since, and kept what he holds, is told until the next card.

Permits have no owner, so a semaphore is never part of a ring. What is not known (Java, no card, a
doubtful or late one) is no deadlock.

Source: Chandy, Misra, Haas: Distributed Deadlock Detection (1983), AND model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from interlock.inspection.cards import Card
    from interlock.inspection.info import ClientInfo, HolderInfo, WaiterInfo

PATIENCE = 5.0
"""Seconds that a thread or task waits before it is taken for a part of a deadlock."""
ON_ITS_WAY = 1.0
"""Seconds that a card takes at most from its client to the server."""
MOST_OWNERS = 200
"""Owners that the search for one ring follows at most."""
Party: TypeAlias = tuple[str, int | None]
"""A client, and the number that tells one of its owners apart."""


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


class Link(NamedTuple):
    """One step of a ring: a client's *wait* for a *key*, and the *hold* that it waits for."""

    client: ClientInfo
    wait: WaiterInfo
    key: str
    hold: HolderInfo


def rings(cards: Iterable[Card]) -> list[tuple[Link, ...]]:
    """Return each ring that was closed when the oldest of its cards was composed."""
    waits: dict[Party, list[tuple[ClientInfo, WaiterInfo, str]]] = {}
    holds: dict[str, list[tuple[Party, HolderInfo]]] = {}
    for card in cards:
        client = card.client
        waiting = [(wait, key) for (_, key), wait in card.waits.items()]
        patient = [each for each in waiting if (each[0].waited or 0.0) >= PATIENCE]
        held = [(hold, key) for (ids, key), hold in card.holds.items() if ":" in ids]
        both = {wait.owner for wait, _ in patient} & {hold.owner for hold, _ in held}
        for hold, key in held if client.answering else ():
            if hold.owner in both:
                holds.setdefault(key, []).append(((client.client_id, hold.owner), hold))
        for wait, key in patient if client.answering else ():
            if wait.owner in both:
                waits.setdefault((client.client_id, wait.owner), []).append((client, wait, key))
    found: dict[frozenset[tuple[str, str]], tuple[Link, ...]] = {}
    for start in waits:
        ring = _shortest(start, waits, holds)
        # All of them lasted when the oldest card was composed, and so at the same time.
        oldest = max([each.client.silent or 0.0 for each in ring], default=0.0) + ON_ITS_WAY
        lasts = [min(each.wait.waited or 0, each.hold.held_for or 0) >= oldest for each in ring]
        if ring and all(lasts):
            _ = found.setdefault(frozenset((each.wait.holder, each.key) for each in ring), ring)
    return list(found.values())


def _shortest(
    start: Party,
    waits: Mapping[Party, Iterable[tuple[ClientInfo, WaiterInfo, str]]],
    holds: Mapping[str, Iterable[tuple[Party, HolderInfo]]],
) -> tuple[Link, ...]:
    """Return the shortest ring that leads from *start* back to it; nothing if there is none."""
    paths: list[tuple[Party, tuple[Link, ...]]] = [(start, ())]
    seen = {start}
    for party, path in paths:
        for client, wait, key in waits[party]:
            for following, hold in holds.get(key, ()):
                longer = (*path, Link(client, wait, key, hold))
                if following == start:
                    return longer
                if following not in seen and len(seen) < MOST_OWNERS:
                    seen.add(following)
                    paths.append((following, longer))
    return ()
