"""Reads the locks of a service again and again, once for all who look at the console."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from interlock._drivers.background.log import LOGGER
from interlock.console.changes import Changes, Happening
from interlock.console.graph import Graph, graph_of
from interlock.console.history import History
from interlock.console.rounds import Rounds
from interlock.errors import InterlockError
from interlock.inspection import Reader
from interlock.inspection.deadlocks import DeadlockSearch
from interlock.inspection.server_facts import ServerFacts, story_of
from interlock.inspection.why import explain
from interlock.inspection.words import trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.inspection import ClientInfo, LockInfo
    from interlock.inspection.cards import Card
    from interlock.inspection.info import EndInfo
    from interlock.inspection.why import Account
    from interlock.options import Options

INTERVAL = 0.5
"""Seconds between two readings while somebody looks on; large fleets are read less often."""
IDLE_INTERVAL = 10.0
"""Seconds between two readings while nobody looks on."""
LOOKING = 15.0
"""Seconds after a request for which somebody still counts as looking on."""
DRAWN = 100
"""Locks that the graph shows."""
ALIKE_AMONG = 1000
"""Locks among whose names one may look alike."""
MOST_CARDS = 200
"""Cards of waiting clients that are read each time."""
STEP = 1000
"""Keys that the server looks at for each request: it takes a third of a millisecond."""
LONG = 300.0
"""Seconds after which a hold counts as long."""

CALM = (0, True, True, True, 0)
"""How `trouble` begins for a lock without any, and without waiters."""

FILTERS: Mapping[str, Callable[[LockInfo], bool]] = {
    "dead": lambda info: info.dead,
    "deadlock": lambda info: info.deadlock,
    "late": lambda info: info.late,
    "silent": lambda info: info.silent,
    "waiting": lambda info: info.awaited is not False,
    "long": lambda info: (info.held_for or 0) >= LONG,
}
"""The word of a filter -> whether it shows a lock."""


def shown_by(info: LockInfo) -> frozenset[str]:
    """Return the words of the filters that show a lock."""
    return frozenset([word for word, shows in FILTERS.items() if shows(info)])


@dataclass(slots=True)
class Row:
    """A lock, with what is worked out once for each look at it.

    Attributes:
        key: as of `trouble`.
        info: the lock.
        shown_by: the words of the filters that show it.
    """

    key: tuple[int | bool | float | str, ...]
    info: LockInfo
    shown_by: frozenset[str]


def counts_of(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many locks each filter shows."""
    counts = dict.fromkeys(FILTERS, 0)
    # Most locks are shown by no filter.
    for words, count in Counter([row.shown_by for row in rows if row.shown_by]).items():
        for word in words:
            counts[word] += count
    return counts


@dataclass(slots=True)
class ClientRow:
    """A client, with what was found of it.

    Attributes:
        client: the client.
        holds: how many locks and permits it holds.
        waits: how many of its threads and tasks wait.
    """

    client: ClientInfo
    holds: int = 0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The locks at one moment.

    Attributes:
        version: grows with each reading.
        at: seconds since 1970; 0 before the first reading.
        locks: sorted by trouble.
        graph: who waits for whom.
        read: those of the locks that this reading looked at.
        error: why the last reading failed; empty if it did not.
        missing: what the user of the console may not read, in words.
        counts: filter -> locks that it shows.
        facts: what the servers tell of restarts, flushes and evictions.
        oldest: seconds since one of the locks was looked at; 0 if this reading looked at all.
    """

    version: int = 0
    at: float = 0.0
    locks: tuple[LockInfo, ...] = ()
    graph: Graph = field(default_factory=Graph)
    read: tuple[LockInfo, ...] = ()
    error: str = ""
    missing: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(FILTERS, 0))
    facts: ServerFacts = field(default_factory=ServerFacts)
    oldest: float = 0.0

    def about(self) -> dict[str, object]:
        """Return what each page tells of the reading, as what JSON can carry."""
        return {
            "at": self.at,
            "oldest": self.oldest,
            "problem": self.error,
            "missing": self.missing,
        }

    def clients(self) -> list[ClientRow]:
        """Return the clients that hold or await something; those that hold most come first."""
        found: dict[str, ClientRow] = {}
        for info in self.locks:
            for holder in info.holders:
                row = found.setdefault(holder.client.client_id, ClientRow(holder.client))
                row.holds += 1
            for waiter in info.waiters:
                row = found.setdefault(waiter.client.client_id, ClientRow(waiter.client))
                row.waits += 1
        return sorted(found.values(), key=lambda row: (-row.holds, -row.waits))


class Watch:
    """Reads in a thread of its own, from `start` to `close`.

    Args:
        servers: of the service.
        options: for reading.
        interval: seconds between two readings while somebody looks on.
        history: remembers what was seen.

    Attributes:
        snapshot: the newest reading.
        history: what was seen until now.
    """

    def __init__(
        self,
        servers: Endpoint | Cluster,
        options: Options,
        *,
        interval: float = INTERVAL,
        history: History | None = None,
    ) -> None:
        self.servers = servers
        self.options = options
        self.snapshot = Snapshot()
        self.history = history or History()
        self._interval = interval
        self._search = DeadlockSearch()
        self._changes = Changes()
        self._told: dict[str, Card | None] = {}
        self._looked_at = 0.0
        self._rounds = Rounds()
        self._rows: list[Row] = []
        self._refused: set[str] = set()
        self._seen: dict[str, float] = {}
        self._wakeup = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="interlock-console", daemon=True)
        self._listeners: tuple[Callable[[], None], ...] = ()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._closing = True
        self._wakeup.set()
        self._thread.join(10)
        self.history.write(now=True)

    def looked_at(self) -> None:
        """Note that somebody looks on."""
        idle = time.monotonic() - self._looked_at > LOOKING
        self._looked_at = time.monotonic()
        if idle:
            self._wakeup.set()

    def seen(self, names: Iterable[str]) -> None:
        """Note that somebody sees the locks *names*: each reading looks at them for a while."""
        self._seen.update(dict.fromkeys(names, time.monotonic()))

    def read_now(self) -> None:
        """Read soon."""
        self._wakeup.set()

    def explain(
        self,
        name: str,
        info: LockInfo | None,
        ends: Sequence[EndInfo],
        beside: Mapping[str, str] | None = None,
    ) -> Account:
        """Return why the lock *name* is as it is.

        Args:
            name: of the lock.
            info: what is known of it.
            ends: how its holds ended.
            beside: what else has its name, as of `Reader.beside`.
        """
        names = [each.name for each in self.snapshot.locks[:ALIKE_AMONG]]
        found = self._search.found()
        uptime = self.snapshot.facts.uptime
        return explain(
            name, info, ends=ends, deadlocks=found, names=names, beside=beside, uptime=uptime
        )

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call *listener* after each reading, in the thread; return what ends that."""
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    def note(self, happening: Happening) -> None:
        """Remember *happening*."""
        self.history.note(happening)

    def _settle(self) -> None:
        """Tell how holds ended, where their clients' cards tell it by now."""
        better = dict(self._changes.settle(self._told))
        if better:
            self.history.correct(better)

    def read(self) -> None:
        """Read once, in this thread."""
        self._take(self._read())

    def _run(self) -> None:
        while not self._closing:
            started = time.monotonic()
            self._wakeup.clear()
            self.read()
            took = time.monotonic() - started
            looking = time.monotonic() - self._looked_at < LOOKING
            pause = self._interval if looking else IDLE_INTERVAL
            # Reading never takes more than two thirds of the time.
            _ = self._wakeup.wait(max(pause - took, took / 2))

    def _read(self) -> Snapshot:
        last = self.snapshot
        try:
            with Reader(self.servers, self.options) as reader:
                read = self._look(reader)
                awaited = [row.info for row in self._rows if "waiting" in row.shown_by]
                # Only cards tell who waits for a lock without a queue.
                cards = list(islice(reader.waiting_cards(), MOST_CARDS)) if awaited else []
                self._search.look(reader, cards)
                cycles = self._search.cycles
                dead = {link.key for links in cycles for link in links}
                awaited.sort(key=lambda info: info.name not in dead)
                graph = graph_of(awaited[:DRAWN], cards, cycles)
                facts = reader.facts()
                reader.forbidden = len(self._refused)
                wanted = list(self._changes.clients())[:MOST_CARDS]
                self._told = {client: reader.card(client) for client in wanted}
                return Snapshot(
                    last.version + 1,
                    time.time(),
                    tuple([row.info for row in self._rows]),
                    graph,
                    read=tuple(read),
                    missing=tuple(reader.missing()),
                    counts=counts_of(self._rows),
                    facts=facts,
                    oldest=self._rounds.oldest(time.monotonic()),
                )
        except InterlockError as error:
            if not last.error:
                event = {"event": "console.unreadable"}
                LOGGER.warning("the console cannot read the locks: %s", error, extra=event)
            return replace(last, version=last.version + 1, error=str(error))
        except Exception as error:  # noqa: BLE001 - the thread must go on, or pages get stale
            told = f"{type(error).__name__}: {error}"
            if told != last.error:
                mistake = {"event": "console.failed"}
                LOGGER.exception("the console cannot read the locks", extra=mistake)
            return replace(last, version=last.version + 1, error=told)

    def _look(self, reader: Reader) -> list[LockInfo]:
        """Return the locks that this reading looks at: all, or of very many some by turns.

        `_rows` has all of them afterwards, by trouble.
        """
        oldest = time.monotonic() - LOOKING
        self._seen = {name: at for name, at in list(self._seen.items()) if at > oldest}
        troubled = takewhile(lambda row: row.key[: len(CALM)] < CALM, self._rows)
        self._rounds.begin(chain(self._seen, (row.info.name for row in troubled)))
        pages = reader.pages("*", step=STEP, wants=self._rounds.wants)
        read = [info for page in pages for info in page]
        now, kept = time.monotonic(), self._rounds.kept()
        rows = [row for row in self._rows if row.info.name in kept]
        rows += [Row(trouble(info, now), info, shown_by(info)) for info in read]
        self._rows = sorted(rows, key=attrgetter("key"))
        self._refused = (self._refused & kept) | reader.refused
        return read

    def _compare(self, last: Snapshot, snapshot: Snapshot, story: str) -> None:
        """Note what has happened since *last*; *story* is what the servers did meanwhile."""
        now, least = time.monotonic(), snapshot.at - last.at

        def passed(name: str) -> float:
            return max(self._rounds.age(name, now), least)

        kept = self._rounds.kept()
        before = [info for info in last.locks if info.name not in kept]
        found = list(self._changes.between(before, snapshot.read, passed, story))
        for each in found:
            self.note(each)
        awaited = [row.info for row in self._rows if "waiting" in row.shown_by]
        self.history.look(awaited, [each.name for each in found if each.turn])

    def _take(self, snapshot: Snapshot) -> None:
        last = self.snapshot
        if snapshot.error:
            if not last.error:
                self.note(
                    Happening(time.time(), "", f"the server cannot be read: {snapshot.error}")
                )
        else:
            if last.error:
                self.note(Happening(time.time(), "", "the server can be read again"))
            known = set(map(frozenset, last.graph.cycles))
            for cycle in snapshot.graph.cycles:
                if frozenset(cycle) not in known:
                    what = ", ".join(map(snapshot.graph.label, cycle))
                    self.note(Happening(time.time(), "", f"deadlock: {what} wait for each other"))
            self._settle()
            if last.at:
                story = story_of(last.facts, snapshot.facts)
                if story:
                    self.note(Happening(time.time(), "", f"the server's data: {story}"))
                self._compare(last, snapshot, story)
            self._rounds.end(time.monotonic())
        self.snapshot = snapshot
        self.history.write()
        for listener in self._listeners:
            listener()
