"""Find deadlocks in what cards and servers tell, in one look.

Theory. An owner is a thread or task of one client. In a ring of owners each waits for a lock that
the next one holds, so none of them goes on before one gives up.

A card is old when it is read, but it has ages, and the server tells when it was written. Take the
moment at which the oldest card of a ring was composed. If all waits and holds of the ring are older
than that, then all of them lasted at that moment, because the other cards were composed later: the
ring was closed. The server must show its holds now, too; the id of a hold that a card lists is
never used again. A ring that somebody has left since, and kept what he holds, is told until the
next card.

Rules:

* Permits have no owner, so a semaphore is never part of a ring. Nor is a lock that several owners
  may hold (`Kind.shared`): its waiter needs only one of them to release.
* What is not known (Java, no rights, no card, a doubtful or late card) is no deadlock.
* A card may be forged: then the list of deadlocks is wrong, and nothing else.

Source: Chandy, Misra, Haas: Distributed Deadlock Detection (1983), AND model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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

    def as_dict(self) -> dict[str, object]:
        """Return the same as what JSON can carry."""
        return asdict(self)


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
        both = {each.owner for each in card.holds.values() if ":" in each.holder}
        both &= {each.owner for each in card.waits.values() if (each.waited or 0) >= PATIENCE}
        for (_, key), hold in card.holds.items() if client.answering else ():
            if hold.owner in both and ":" in hold.holder:
                holds.setdefault(key, []).append(((client.client_id, hold.owner), hold))
        for (_, key), wait in card.waits.items() if client.answering else ():
            if wait.owner in both and (wait.waited or 0) >= PATIENCE:
                waits.setdefault((client.client_id, wait.owner), []).append((client, wait, key))
    found: dict[frozenset[tuple[str, str]], tuple[Link, ...]] = {}
    for start in waits:
        for ring in _ways(start, waits, holds):
            if _closed(ring):
                _ = found.setdefault(frozenset((each.wait.holder, each.key) for each in ring), ring)
    return list(found.values())


def _ways(
    start: Party,
    waits: Mapping[Party, Iterable[tuple[ClientInfo, WaiterInfo, str]]],
    holds: Mapping[str, Iterable[tuple[Party, HolderInfo]]],
) -> Iterator[tuple[Link, ...]]:
    """Yield the shortest ring that leads from *start* back to it, if there is one."""
    paths: list[tuple[Party, tuple[Link, ...]]] = [(start, ())]
    seen = {start}
    for party, path in paths:
        steps = [
            (Link(*wait, hold), to) for wait in waits[party] for to, hold in holds.get(wait[2], ())
        ]
        for link, following in steps:
            if following == start:
                yield (*path, link)
                return
            if following not in seen and len(seen) < MOST_OWNERS:
                seen.add(following)
                paths.append((following, (*path, link)))


def _closed(ring: tuple[Link, ...]) -> bool:
    """Return whether all waits and holds of *ring* lasted when its oldest card was composed."""
    oldest = max(each.client.silent or 0.0 for each in ring) + ON_ITS_WAY
    return all(min(each.wait.waited or 0, each.hold.held_for or 0) >= oldest for each in ring)
