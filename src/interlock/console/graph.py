"""Who waits for whom, as a picture: owners on the left, locks on the right."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from interlock._core.insight.deadlock import Party

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.insight.deadlock import Link
    from interlock.inspection import ClientInfo, LockInfo
    from interlock.inspection.cards import Card, Entry

ROW = 44
"""Height of a row of the picture."""
MOST = 300
"""Lines of a picture; those of deadlocks come first."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A line of the picture.

    Attributes:
        owner: the `party` of a holder or waiter.
        lock: the name of a lock.
        waits: whether the owner waits for the lock; else it holds the lock.
        deadlock: whether the line is a part of a deadlock.
    """

    owner: str
    lock: str
    waits: bool
    deadlock: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """The wait-for graph.

    Attributes:
        edges: who holds and awaits what.
        labels: owner -> what to call it.
        cycles: of each deadlock the owners, each of which waits for the next.
    """

    edges: tuple[Edge, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    cycles: tuple[tuple[str, ...], ...] = ()

    def owners(self) -> list[str]:
        """Return the owners from top to bottom."""
        return list(dict.fromkeys(edge.owner for edge in self.edges))

    def locks(self) -> list[str]:
        """Return the locks from top to bottom."""
        return list(dict.fromkeys(edge.lock for edge in self.edges))

    def label(self, owner: str) -> str:
        """Return what to call *owner*."""
        return self.labels.get(owner, owner)


def graph_of(
    locks: Sequence[LockInfo],
    waiting: Sequence[Card] = (),
    cycles: Sequence[Sequence[Link]] = (),
) -> Graph:
    """Return the graph of *locks*.

    Args:
        locks: with their holders, and the waiters in their queues.
        waiting: the cards of clients with a thread or task that waits.
        cycles: the deadlocks.
    """
    cards = {card.client.client_id: card for card in waiting}
    labels: dict[str, str] = {}

    def node(client: ClientInfo, holder: str, key: str, thread: str) -> str:
        """Return the owner of *holder*, as far as cards tell whose it is."""
        plain, card = holder.removesuffix(":write"), cards.get(client.client_id)
        place = (plain, key)
        entry = None if card is None else _entry(card, place)
        owner = plain if entry is None else _owner(Party(client.client_id, entry.owner))
        thread = thread or ("" if entry is None else entry.thread)
        parts = [client.host, f"pid {client.pid}" if client.pid else "", thread]
        labels[owner] = " ".join(part for part in parts if part) or plain
        return owner

    waits = {(_owner(link.party), link.key) for links in cycles for link in links}
    holds = {
        (_owner(following.party), link.key)
        for links in cycles
        for link, following in zip(links, (*links[1:], links[0]), strict=True)
    }
    edges: dict[Edge, None] = {}
    shown = {info.name for info in locks}
    for info in locks:
        for waiter in info.waiters:
            owner = node(waiter.client, waiter.holder, info.name, waiter.thread)
            deadlock = (owner, info.name) in waits
            edges[Edge(owner, info.name, waits=True, deadlock=deadlock)] = None
        for each in info.holders:
            owner = node(each.client, each.holder, info.name, each.thread)
            deadlock = (owner, info.name) in holds
            edges[Edge(owner, info.name, waits=False, deadlock=deadlock)] = None
    for card in waiting:
        for entry in chain(card.waits.values(), card.wishes.values()):
            if entry.key in shown:
                owner = node(card.client, entry.holder, entry.key, entry.thread)
                deadlock = (owner, entry.key) in waits
                edges[Edge(owner, entry.key, waits=True, deadlock=deadlock)] = None
    first = sorted(edges, key=lambda edge: not edge.deadlock)[:MOST]
    told = tuple(tuple(_owner(link.party) for link in links) for links in cycles)
    return Graph(tuple(first), labels, told)


def _entry(card: Card, place: tuple[str, str]) -> Entry | None:
    """Return what *card* tells of the holder and key *place*."""
    return card.holds.get(place) or card.waits.get(place) or card.wishes.get(place)


def _owner(party: Party) -> str:
    return f"{party.client_id}/{party.owner}"
