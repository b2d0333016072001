"""Read locks from servers: page by page, with few commands and bounded memory.

Theory. SCAN goes through the keys in small steps and never blocks the server. One script for each
key tells what it is and who holds it, in one atomic look. A page of several hundred locks costs
three round trips: the locks, the number of clients that listen for them, and the holders' cards.

Rules:

* Nothing is written, and nothing is looked at as a whole: each answer has a bound.
* A right that the user lacks is an error. What moves meanwhile, or is no lock, is left out.
* A lock that comes or goes meanwhile may be missed. While keys move, one may come twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlock._links.cluster import Cluster
from interlock.errors import ConfigError
from interlock.inspection.card_reader import (
    ALL,
    LIMIT,
    NOBODY,
    REMEMBERED,
    STEP,
    CardReader,
    complete,
    waiter_with_card,
)
from interlock.inspection.deadlocks import Deadlock, DeadlockStep
from interlock.inspection.info import EndInfo
from interlock.inspection.kinds import KINDS, queues_permits, seen, sight_of
from interlock.inspection.locks import (
    as_number,
    key_of,
    listeners_of,
    look,
    numbers,
    permit_waiters,
    read_beside,
    read_totals,
)
from interlock.inspection.search import scans
from interlock.inspection.service import Service
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.card_reader import Told
    from interlock.inspection.info import LockInfo, WaiterInfo
    from interlock.options import Options


class Reader:
    """Reads the locks of one server or cluster; close it, or use it in a ``with`` statement.

    Every method raises ServerUnavailableError if a server cannot be reached, does not answer, or
    refuses because the user lacks a right. Then the error has the line that permits it.

    Args:
        servers: one server, what finds it, or a cluster.
        options: the client's.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self._service = Service(servers, options)
        self._cards = CardReader(self._service)
        self._proven: tuple[Told, list[Deadlock], set[tuple[str, str]]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        self._service.close()

    def pages(
        self, pattern: str = "*", kinds: Iterable[str] = (), *, step: int = STEP
    ) -> Iterator[list[LockInfo]]:
        """Yield the locks whose keys match *pattern*, some at a time.

        A semaphore and a latch look like any other number. So without *kinds* only those are told
        that a client waits for. A number that nobody waits for is told as a semaphore, or as a
        latch if *kinds* asks for latches and not for semaphores.

        Args:
            pattern: as of the command KEYS.
            kinds: of `LockInfo.kind`; none for all.
            step: keys that the server looks at for each page.

        Raises:
            ConfigError: a kind that does not exist, or *pattern* cannot be written as UTF-8.

        Cost:
            Four round trips for each *step* keys of hashes, two for others; before them two for
            each 500 cards. The keys are gone through once for each type of key. A cluster has no
            list of its cards: it is scanned for them first.
        """
        wanted, known = frozenset(kinds), seen()
        if unknown := sorted(wanted - known.keys()):
            raise ConfigError(f"wanted kinds of {', '.join(known)}, found {unknown[0]!r}")
        pattern = check_text(pattern, "a pattern")
        # A number may be of any kind of number until all is known of it.
        possible = wanted if wanted.isdisjoint(numbers()) else wanted.union(numbers())
        told: set[int] = set()
        with self._service.understood():
            self._service.find_nodes()
            self._cards.forget()
            for node in self._service.nodes:
                for keys, apart in scans(self._service, node, pattern, wanted, step):
                    new = keys if apart else [key for key in keys if hash(key) not in told]
                    page = [
                        info
                        for info in look(self._service, node, new, LIMIT, apart)
                        if hash(key_of(info)) not in told and info.kind in (possible or known)
                    ]
                    if len(told) > REMEMBERED:
                        told.clear()
                    told.update(hash(key_of(info)) for info in page)
                    found = [as_number(info, wanted) for info in self._finish(node, page)]
                    if any(found):
                        yield [info for info in found if info is not None]

    def describe(self, key: str) -> LockInfo | None:
        """Return everything that is known about the lock *key*; None if nobody holds or awaits it.

        Raises:
            ConfigError: *key* is empty, or cannot be written as UTF-8.

        Cost:
            About seven round trips, and one for each hundred cards.
        """
        key = check_name(key)
        with self._service.understood():
            self._service.find_nodes()
            node = self._service.owner(key)
            found = self._found(node, key)
            if found is None:
                return None
            self._cards.forget(closely=True)
            return self._finish(node, [found], key_of(found))[0]

    def _found(self, node: Endpoint, key: str) -> LockInfo | None:
        """Return the lock *key*, if there is one, without what cards tell."""
        apart = [(kind, sight) for kind, sight in seen().items() if sight.apart]
        # The number of a leased semaphore looks like that of a plain one.
        first = [sight for kind, sight in apart if KINDS[kind].key is not sight.key]
        last = [sight for kind, sight in apart if KINDS[kind].key is sight.key]
        for sight in (*first, None, *last):
            at = key if sight is None else sight.key(key)
            for info in look(self._service, node, [at], ALL, sight):
                if sight is None or sight_of(info.kind) is sight:
                    return info
        return None

    def beside(self, key: str) -> dict[str, str]:
        """Return what there is of other objects called *key*, as `read_beside` does."""
        with self._service.understood():
            self._service.find_nodes()
            return read_beside(self._service, key)

    def ends(self, key: str) -> list[EndInfo]:
        """Return how holds of the lock *key* ended in the last minute, the newest first.

        Only holds of more than a second are told, and only by clients that write cards.

        Cost:
            About two round trips for each 500 cards.
        """
        with self._service.understood():
            self._service.find_nodes()
            keys = {kind.key(key) for kind in KINDS.values()}
            found = [
                EndInfo(holder, client, end.age, end.lost, end.why)
                for holder, client, end in self._cards.ends(keys)
            ]
        return sorted(found, key=lambda end: end.ago)

    def uptime(self) -> int | None:
        """Return the seconds since the last start of a server; None if that is not known."""
        with self._service.understood():
            self._service.find_nodes()
            return self._service.uptime()

    def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks among all clients that write cards.

        After `pages`, or a description for which all cards were read, these are those of that look.

        Cost:
            Two round trips for each 500 cards, and one for each lock of a deadlock.
        """
        with self._service.understood():
            self._service.find_nodes()
            return self._prove(self._cards.read_all(None))[0]

    def _prove(self, told: Told) -> tuple[list[Deadlock], set[tuple[str, str]]]:
        """Return the deadlocks that cards tell and servers confirm, and who waits in them."""
        if self._proven is None or self._proven[0] is not told:
            found: list[Deadlock] = []
            waits: set[tuple[str, str]] = set()
            for ring in told.graph.rings():
                steps = [
                    DeadlockStep(client, wait.thread, wait.key, holder, wait.age)
                    for client, wait, hold in ring
                    for holder in self._holders(wait.key)
                    if holder.removesuffix(":write") == hold.holder
                ]
                if len(steps) == len(ring):
                    found.append(Deadlock(tuple(steps)))
                    waits.update((each.wait.holder, each.wait.key) for each in ring)
            self._proven = told, found, waits
        return self._proven[1:]

    def _holders(self, key: str) -> list[str]:
        """Return the holder ids of the lock *key*, all of which a waiter waits for.

        Of a lock that several owners may hold there are none: one of them is enough to go on.
        """
        found = look(self._service, self._service.owner(key), [key], ALL)
        awaited = [info for info in found if not KINDS[info.kind].shared]
        return [holder.holder for info in awaited for holder in info.holders]

    def _finish(
        self, node: Endpoint, page: list[LockInfo], only: str | None = None
    ) -> list[LockInfo]:
        """Return *page* with all that is known of its locks; *only* is the key of a single one."""
        if not page:
            return []
        waiting, twins = listeners_of(self._service, node, page)
        totals = read_totals(self._service, node, page)
        awaited = [info for info in page if waiting.get(key_of(info))]
        if queues := permit_waiters(self._service, node, awaited, LIMIT if only is None else ALL):
            page = [replace(info, waiters=queues.get(key_of(info), info.waiters)) for info in page]
        clients = {each.client.client_id for info in page for each in info.holders}
        clients |= {each.client.client_id for info in page for each in info.waiters}
        cards = self._cards.of(clients - {""})
        # No holder or queue tells the ids of those who poll. Once for all pages: else a waiter
        # would appear or not by what its page has beside it. To find cards, a cluster must be
        # scanned: for one lock only if somebody listens, or holds permits.
        permits = any(sight_of(info.kind).permits for info in page)
        scanned = only is not None and isinstance(self._service.servers, Cluster)
        told: Told | None = None
        if not scanned or permits or any(waiting.values()):
            told = self._cards.read_all(only)
        finished: list[LockInfo] = []
        for info in page:
            key, sight = key_of(info), sight_of(info.kind)
            for holder in info.holders:
                complete(holder, key, cards, told, permit=sight.permits)
            crowd = NOBODY if told is None or info.queued else told.crowds.get(key, NOBODY)
            listening = waiting.get(key, 0)
            kind, total = totals.get(key, (info.kind, None))
            kind = twins.get(key, kind)
            if info.waiters or crowd.count or listening or total is not None or kind != info.kind:
                if sight.alone:
                    crowd = crowd.without(info.holders)
                queue: Sequence[WaiterInfo] = [
                    waiter_with_card(each, info.name, cards) for each in info.waiters
                ]
                if queues_permits(kind):
                    queue, crowd = (), crowd.beside(queue)
                info = replace(  # noqa: PLW2901 - the finished one
                    info,
                    kind=kind,
                    total=total,
                    waiters=self._marked(queue or crowd.by_wait(), key, told),
                    waiting=max(info.waiting, listening),
                    waiter_count=info.waiting if queue else crowd.count,
                )
            finished.append(info)
        return finished

    def _marked(
        self, waiters: Sequence[WaiterInfo], key: str, told: Told | None
    ) -> tuple[WaiterInfo, ...]:
        """Return *waiters* for *key*, with a mark for each that waits in a deadlock."""
        stuck = set[tuple[str, str]]() if told is None else self._prove(told)[1]
        marks = ((each, (each.holder, key) in stuck) for each in waiters)
        return tuple([replace(each, deadlock=True) if mark else each for each, mark in marks])
