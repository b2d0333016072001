"""Deadlocks: cycles in the wait-for graph of all processes. Pure: times and cards are arguments.

Theory. An owner is a thread or task of one client. It waits for a key, the key has holders, and
each holder belongs to an owner. In a cycle each owner waits for a key that the next one holds. A
cycle lasts until a lease ends or an owner gives up, because none of its owners can release
anything. One cycle is enough: an owner cannot go on until every holder of its key has released it.

A look never shows the present. Holders are read from the server, and waits from cards that may be
old. An owner may have given up, and its key may have gone to another one. So a cycle that was seen
is only suspected. A second look confirms it if it shows the same holders and the same waits. The
number of each client's card must also have grown by *two* since the end of the first look. A client
composes a card only after the one before was answered. So the second card was composed after the
first look was over. A wait that is on both cards lasted beyond that moment. So did all other waits
of the cycle: at that moment it was closed. A closed cycle stays closed until one of its waits is
given up.

Rules:

* A look starts only at a wait of at least `PATIENCE` seconds, and follows the chain from there. An
  owner without any hold is in no cycle. So a crowd of waiters for one lock causes no look.
* Permits have no owner, so a semaphore is never part of a cycle. Nor is a lock that several owners
  may hold (`KnownLock.shared`): its waiter needs only one of them to release.
* A chain that cannot be followed (Java, no rights, no card, a doubtful card) is no deadlock.

Source: Mani Chandy, Misra, Haas: Distributed Deadlock Detection (1983), AND model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PATIENCE = 5.0
"""Seconds that a thread or task waits before it is suspected to be in a deadlock."""
MOST_OWNERS = 200
"""Owners that one look follows at most."""


class Party(NamedTuple):
    """A thread or task that holds and waits.

    Attributes:
        client_id: its client.
        owner: a number that tells it from the other owners of that client.
    """

    client_id: str
    owner: int


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a cycle: *party* waits for *key*, which the next party holds as *holder*.

    Attributes:
        party: who waits.
        waits_as: the holder id that it waits with.
        key: the lock.
        holder: the holder id that the lock has.
        label: what the party is called.
        waited: how long it has waited, in seconds.
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
    """A wait, as its client reports it.

    Attributes:
        waits_as: the holder id that it waits with.
        key: the lock.
        label: what the thread or task is called.
        waited: how long it has waited, in seconds.
    """

    waits_as: str
    key: str
    label: str = ""
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What one client reports about itself.

    Attributes:
        number: the number of its card; None if this is known without a card.
        owners: the owner of each hold, by holder id and key.
        waits: what each owner waits for.
    """

    number: int | None
    owners: Mapping[tuple[str, str], int]
    waits: Mapping[int, Sequence[Wait]]


class Sight(NamedTuple):
    """A cycle that was seen.

    Attributes:
        links: its steps, from the owner at which the look started.
        seen: by client, the number of the card that reported its step; None without a card.
        after: by client, the number of its card after everything was read.
        at: when everything was read, in seconds.
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
        start: the owner that waits.
        told: returns what a client reports; None if nothing is known.
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
    """Return the owner of the hold *holder* of *key*; None if it is not known."""
    plain = holder.removesuffix(":write")
    client_id = plain.partition(":")[0]
    client = told(client_id)
    if client is None or (owner := client.owners.get((plain, key))) is None:
        return None
    return Party(client_id, owner)


def confirmed(first: Sight, second: Sight) -> bool:
    """Return whether *second* proves that the cycle of *first* was closed."""
    if [link.same for link in first.links] != [link.same for link in second.links]:
        return False
    for link in second.links:
        client_id = link.party.client_id
        if client_id in first.after:  # a card reported it
            before, now = first.after[client_id], second.seen.get(client_id)
            if before is None or now is None or now < before + 2:
                return False
        if link.waited < second.at - first.at:
            return False  # not the wait of the first look
    return True


def same_cycle(links: Sequence[Link]) -> frozenset[tuple[Party, str, str, str]]:
    """Return what identifies a cycle, no matter at which step it begins."""
    return frozenset(link.same for link in links)
