"""Who waits for whom: threads and tasks on one side, the locks that they hold and await opposite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.inspection.words import called

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from interlock.inspection import Deadlock, HolderInfo, LockInfo, WaiterInfo

MOST = 200
"""Lines of a picture. Those of deadlocks come first."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A line between an owner and a lock.

    Attributes:
        owner: what all holds and waits of one thread or task have in common.
        lock: the name of the lock.
        label: what people call the owner.
        waits: whether the owner waits for the lock; else it holds the lock.
        dead: whether this line is a part of a deadlock.
    """

    owner: str
    lock: str
    label: str
    waits: bool
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """The picture.

    Attributes:
        edges: its lines.
        left_out: how many more lines there are.
    """

    edges: tuple[Edge, ...]
    left_out: int

    @property
    def owners(self) -> dict[str, str]:
        """Return the label of each owner, from top to bottom."""
        return {edge.owner: edge.label for edge in self.edges}

    @property
    def locks(self) -> list[str]:
        """Return the names of the locks, from top to bottom."""
        return list(dict.fromkeys(edge.lock for edge in self.edges))

    @property
    def lines(self) -> list[tuple[Edge, int, int]]:
        """Return each edge with the places of its owner and its lock."""
        owners, locks = list(self.owners), self.locks
        return [(edge, owners.index(edge.owner), locks.index(edge.lock)) for edge in self.edges]


def graph_of(locks: Sequence[LockInfo], deadlocks: Sequence[Deadlock]) -> Graph:
    """Return the picture of the awaited ones among *locks*, with *deadlocks* at the top."""
    named = {info.name: info for info in locks}
    edges: dict[tuple[str, str, bool], Edge] = {}
    for deadlock in deadlocks:
        for edge in _ring(deadlock, named):
            edges[edge.owner, edge.lock, edge.waits] = edge
    for info in locks:
        if info.waiters:
            for edge in _edges(info):
                _ = edges.setdefault((edge.owner, edge.lock, edge.waits), edge)
    return Graph(tuple(edges.values())[:MOST], max(len(edges) - MOST, 0))


def _edges(info: LockInfo) -> Iterator[Edge]:
    for each in info.holders:
        yield Edge(
            _party(each), info.name, called(each.client, each.thread, each.holder), waits=False
        )
    for one in info.waiters:
        yield Edge(_party(one), info.name, called(one.client, one.thread, one.holder), waits=True)


def _ring(deadlock: Deadlock, named: Mapping[str, LockInfo]) -> Iterator[Edge]:
    """Yield the lines of *deadlock*: what a step waits for, the next step holds."""
    steps = deadlock.steps
    owners: list[tuple[str, str]] = []
    for before, step in zip((steps[-1], *steps[:-1]), steps, strict=True):
        info = named.get(before.waits_for)
        held = [each for each in info.holders if each.holder == before.held_by] if info else []
        owner = _party(held[0]) if held else before.held_by
        owners.append((owner, called(step.client, step.thread, before.held_by)))
    following = (*owners[1:], owners[0])
    for step, (owner, label), (holder, holding) in zip(steps, owners, following, strict=True):
        yield Edge(owner, step.waits_for, label, waits=True, dead=True)
        yield Edge(holder, step.waits_for, holding, waits=False, dead=True)


def _party(each: HolderInfo | WaiterInfo) -> str:
    return each.holder if each.owner is None else f"{each.client.client_id}/{each.owner}"
