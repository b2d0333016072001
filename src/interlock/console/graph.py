"""Who waits for whom, as a picture: owners on the left, locks on the right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.inspection import HolderInfo, LockInfo, WaiterInfo

ROW = 44
"""Height of a row of the picture."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A line of the picture.

    Attributes:
        owner: a holder id.
        lock: the name of a lock.
        waits: whether the owner waits for the lock; else it holds the lock.
        dead: whether the line is a part of a deadlock.
    """

    owner: str
    lock: str
    waits: bool
    dead: bool


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


def graph_of(locks: Sequence[LockInfo]) -> Graph:
    """Return the graph of *locks*, as far as cards and queues tell who waits."""
    holds = {info.name: [each.holder for each in info.holders] for info in locks}
    waits = {info.name: [each.holder for each in info.waiters] for info in locks}
    labels: dict[str, str] = {}
    for info in locks:
        everybody: list[HolderInfo | WaiterInfo] = [*info.holders, *info.waiters]
        for each in everybody:
            client = each.client
            parts = [client.host, f"pid {client.pid}" if client.pid else "", each.thread]
            labels[each.holder] = " ".join(part for part in parts if part) or each.holder
    targets: dict[str, set[str]] = {}
    for name, waiters in waits.items():
        for waiter in waiters:
            targets.setdefault(waiter, set()).update(holds.get(name, ()))
    cycles = _cycles(targets)
    steps = {(cycle[n], cycle[(n + 1) % len(cycle)]) for cycle in cycles for n in range(len(cycle))}
    edges: list[Edge] = []
    for name, holders in holds.items():
        for waiter in waits[name]:
            dead = any((waiter, holder) in steps for holder in holders)
            edges.append(Edge(waiter, name, waits=True, dead=dead))
        for holder in holders:
            dead = any((waiter, holder) in steps for waiter in waits[name])
            edges.append(Edge(holder, name, waits=False, dead=dead))
    return Graph(tuple(edges), labels, tuple(cycles))


def _cycles(targets: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the cycles of the graph, each once."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for start in targets:
        path, seen = [start], {start}
        stack = [iter(sorted(targets[start]))]
        while stack:
            owner = next(stack[-1], None)
            if owner is None:
                _ = stack.pop()
                _ = path.pop()
            elif owner == start:
                found.setdefault(frozenset(path), tuple(path))
            elif owner not in seen and owner in targets:
                seen.add(owner)
                path.append(owner)
                stack.append(iter(sorted(targets[owner])))
    return list(found.values())
