"""Deadlocks: cycles of the wait-for graph across all processes. Pure; `now` and cards come in.

Theory. An owner is a thread or task of one client. It waits for a key, the key has holders, and
each holder belongs to an owner. A cycle in which each owner waits for a key that the next one
holds never ends by itself: none of them can release anything. One cycle suffices, for an owner
needs every holder of its key to go.

A look never shows the present. Holders are read from the server, and waits from cards that may be
old. An owner may have given up, and its key may have gone to another one. So a cycle that was seen
is only suspected. A second look confirms it if it shows the same holders and the same waits. Each
client's card must also be *two* numbers further than after the first look. A client composes a card
only after the one before was answered. So the second one was composed after the first look was
over. The wait that both tell of lasted over that moment, and so did all others of the cycle: at
that moment it was closed. A closed cycle stays closed until one of its waits is given up.

Rules:

* Only a wait of at least `PATIENCE` seconds is looked into, along the chain that starts at it. An
  owner without any hold is in no cycle, so a crowd that wants one lock makes no look.
* Permits have no owner, so a semaphore is never part of a cycle.
* A chain that cannot be followed (Java, no rights, no card, a doubtful card) is no deadlock.
* A card may be forged. So a cycle is logged, but it ends no wait until `unproven` is None. Then the
  server itself shows each holder and that each lock is awaited.

Source: Mani Chandy, Misra, Haas: Distributed Deadlock Detection (1983), AND model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PATIENCE = 5.0
"""Seconds that a thread or task waits before it is suspected to be in a deadlock."""
FIRST_SEARCH_PAUSE = 2.0
LONGEST_SEARCH_PAUSE = 60.0
"""Seconds between two checks of one client: the first ones, and the longest."""
MOST_OWNERS = 200
"""Owners that one check follows."""


class Party(NamedTuple):
    """A thread or task that holds and waits.

    Attributes:
        client_id: its client.
        owner: tells it from others of that client.
    """

    client_id: str
    owner: int


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a cycle: *party* waits for *key*, which *holder* of the next party holds.

    Attributes:
        party: who waits.
        waits_as: the holder id that it waits with.
        key: the lock.
        holder: the holder id that the lock has.
        label: what the party is called.
        waited: seconds.
    """

    party: Party
    waits_as: str
    key: str
    holder: str
    label: str = ""
    waited: float = 0.0

    @property
    def same(self) -> tuple[Party, str, str, str]:
        """Return what does not change while the step lasts."""
        return (self.party, self.waits_as, self.key, self.holder)


class Wait(NamedTuple):
    """A wait, as its client tells it.

    Attributes:
        waits_as: the holder id that it waits with.
        key: the lock.
        label: what the thread or task is called.
        waited: seconds.
    """

    waits_as: str
    key: str
    label: str = ""
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What one client tells of itself.

    Attributes:
        number: of its card; None for what is known without one.
        owners: who holds, by holder id and key.
        waits: what each owner waits for.
    """

    number: int | None
    owners: Mapping[tuple[str, str], int]
    waits: Mapping[int, Sequence[Wait]]


class Sight(NamedTuple):
    """A cycle that was seen.

    Attributes:
        links: its steps, beginning at the one who asked.
        seen: the number of each client's card that told of a step; None without a card.
        after: the numbers of the cards when all had been read.
        at: when all had been read, in seconds.
    """

    links: tuple[Link, ...]
    seen: Mapping[str, int | None]
    after: Mapping[str, int | None]
    at: float


def find_cycle(
    start: Party,
    told: Callable[[str], Told | None],
    holders: Callable[[str], Iterable[str]],
) -> tuple[Link, ...] | None:
    """Return the shortest cycle that leads from *start* back to it; None if there is none.

    Args:
        start: who waits.
        told: returns what a client tells; None if nothing is known.
        holders: returns the holder ids of a lock, as the server has them.
    """
    paths: list[tuple[Party, tuple[Link, ...]]] = [(start, ())]
    seen = {start}
    for party, path in paths:
        client = told(party.client_id)
        if client is None:
            continue
        for wait in client.waits.get(party.owner, ()):
            for holder in holders(wait.key):
                following = _owner_of(holder, wait.key, told)
                if following is None:
                    continue
                link = Link(party, wait.waits_as, wait.key, holder, wait.label, wait.waited)
                if following == start:
                    return (*path, link)
                if following not in seen and len(seen) < MOST_OWNERS:
                    seen.add(following)
                    paths.append((following, (*path, link)))
    return None


def _owner_of(holder: str, key: str, told: Callable[[str], Told | None]) -> Party | None:
    """Return whose hold *holder* is; None if nobody tells."""
    plain = holder.removesuffix(":write")
    client_id = plain.partition(":")[0]
    client = told(client_id)
    owner = None if client is None else client.owners.get((plain, key))
    return None if owner is None else Party(client_id, owner)


def confirmed(first: Sight, second: Sight) -> bool:
    """Return whether the cycle of *first* was closed, as *second* proves."""
    if [link.same for link in first.links] != [link.same for link in second.links]:
        return False
    for link in second.links:
        client_id = link.party.client_id
        if client_id in first.after:  # it was told of by a card
            before, now = first.after[client_id], second.seen.get(client_id)
            if before is None or now is None or now < before + 2:
                return False
        if link.waited < second.at - first.at:
            return False  # it is another wait than that of the first look
    return True


@dataclass(frozen=True, slots=True)
class Shown:
    """What the server shows of a lock, without any card.

    Attributes:
        holders: the holder ids.
        queue: the holder ids in the queue of a fair lock.
        listeners: clients that listen for its release.
    """

    holders: frozenset[str] = frozenset()
    queue: frozenset[str] = frozenset()
    listeners: int = 0


def unproven(
    links: Sequence[Link],
    shown: Callable[[str], Shown],
    own: Callable[[Link], bool | None],
    listens: Callable[[str], bool],
) -> Link | None:
    """Return a step of a cycle that only cards tell of; None if the server shows all.

    Args:
        links: the cycle.
        shown: returns what the server shows of a lock at this moment.
        own: returns whether the wait of a step lasts; None if it is another client's.
        listens: returns whether this client listens for the release of a lock.
    """
    for link in links:
        lock, lasts = shown(link.key), own(link)
        if lasts is None:
            others = lock.listeners - listens(link.key)
            waits_as = {link.waits_as, f"{link.waits_as}:write"}
            lasts = others > 0 or bool(lock.queue & waits_as)
        if not lasts or link.holder not in lock.holders:
            return link
    return None


def same_cycle(links: Sequence[Link]) -> frozenset[tuple[Party, str, str, str]]:
    """Return what tells a cycle from others, at whatever step it begins."""
    return frozenset(link.same for link in links)


def told_of(links: Sequence[Link]) -> str:
    """Return a sentence about a cycle."""
    return "; ".join(
        f"{link.label or link.waits_as} waits for {link.key!r}, held by {link.holder}"
        for link in links
    )


def youngest(links: Sequence[Link]) -> Link:
    """Return the step of the thread or task that has waited for the shortest time.

    All members of a cycle must choose the same one. Ages that were read at different times differ
    a little, so what differs by less than a second is decided by the ids.
    """
    shortest = min(link.waited for link in links)
    return min((link for link in links if link.waited < shortest + 1), key=lambda link: link.same)
