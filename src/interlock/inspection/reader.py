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

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import BY_TICKET
from interlock._core.locks.transfer import LEFT_MARK, TICKET_MARK
from interlock._core.model import names
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.inspection.cards import STEP, CardReader
from interlock.inspection.deadlocks import Deadlock, DeadlockStep, WaitGraph
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.kinds import KINDS, around, channel_of, name_in, seen, sight_of
from interlock.inspection.service import Service, code_of, load, text_of
from interlock.inspection.words import LEFT_LOCKED
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self, TypeAlias

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.cards import Card, End, Entry
    from interlock.inspection.kinds import Sight
    from interlock.options import Options

    Place: TypeAlias = tuple[str, Sight | None]
    """A key, and the kind that has such keys beside those that are called like its objects."""

LOCK_INFO = load("lock_info")
LIMIT = 64
"""Holders and waiters that are told of one lock in a list."""
ALL = 1000
"""Holders and waiters that are told of one lock by itself."""
REMEMBERED = 100_000
"""Names that are remembered, to tell each only once; and waits and permits on cards."""
DEEPEST = 100
"""Entries of one reader that are looked at, at most."""
PERMIT = 32
"""Characters of the id of a permit."""
GONE = -2
"""What PTTL returns for a key that does not exist."""
OURS = ("redisson_", "interlock_")
"""How keys begin that are no names of locks."""
READ_ENTRY = ":rwlock_timeout:"
"""What is within the keys of readers' entries."""
NUMBERS = ("semaphore", "count_down_latch")
"""Kinds that are a number in Redis."""
_NOBODY = {TICKET_MARK: BY_TICKET, LEFT_MARK: LEFT_LOCKED}
"""How client ids begin that no client has -> what such a hold is called."""


@dataclass(slots=True)
class Told:
    """What only a look at all cards tells.

    Attributes:
        waits: who waits, by key.
        permits: the client that holds a permit, by its id and the semaphore's key.
        deadlocks: those that servers confirm.
        stuck: holder ids and keys of the waits in them.
    """

    waits: dict[str, list[WaiterInfo]] = field(default_factory=dict[str, list[WaiterInfo]])
    permits: dict[tuple[str, str], tuple[ClientInfo, Entry]] = field(
        default_factory=dict[tuple[str, str], "tuple[ClientInfo, Entry]"]
    )
    deadlocks: list[Deadlock] = field(default_factory=list[Deadlock])
    stuck: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


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
        self._told: Told | None = None

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
            Three round trips for each *step* keys of hashes, two for others; before them two for
            each 500 cards. The keys are gone through once for each type of key. A cluster has no
            list of its cards: it is scanned for them first.
        """
        wanted, known = frozenset(kinds), seen()
        if unknown := sorted(wanted - known.keys()):
            raise ConfigError(f"wanted kinds of {', '.join(known)}, found {unknown[0]!r}")
        pattern = check_text(pattern, "a pattern")
        told: set[int] = set()
        with self._service.understood():
            self._service.find_nodes()
            self._forget()
            for node in self._service.nodes:
                for places in self._places(node, pattern, wanted, step):
                    found = self._look(node, places, LIMIT)
                    page = [info for info in found if hash(_key_of(info)) not in told]
                    if len(told) > REMEMBERED:
                        told.clear()
                    told.update(hash(_key_of(info)) for info in page)
                    if page := [
                        each
                        for info in self._finish(node, page)
                        if (each := _as_wanted(info, wanted)) is not None
                    ]:
                        yield page

    def describe(self, key: str) -> LockInfo | None:
        """Return everything that is known about the lock *key*; None if nobody holds or awaits it.

        Raises:
            ConfigError: *key* is empty, or cannot be written as UTF-8.

        Cost:
            About five round trips, and one for each hundred cards.
        """
        key = check_name(key)
        apart = [sight for sight in seen().values() if sight.apart]
        # The number of a leased semaphore looks like that of a plain one.
        places: list[Place] = [(sight.key(key), sight) for sight in apart if sight.permits]
        places.append((key, None))
        places += [(sight.key(key), sight) for sight in apart if not sight.permits]
        with self._service.understood():
            self._service.find_nodes()
            node = self._service.owner(key)
            found = self._look(node, places, ALL)
            if not found:
                return None
            self._forget(closely=True)
            return self._finish(node, found[:1], ALL)[0]

    def type_of(self, key: str) -> str:
        """Return the type of the key *key*, in the words of the command TYPE."""
        with self._service.understood():
            self._service.find_nodes()
            [reply] = self._service.ask(self._service.owner(key), [("TYPE", key)])
        return text_of(reply) if isinstance(reply, bytes) else "none"

    def last_end(self, key: str) -> End | None:
        """Return how the last hold of the lock *key* ended, if that was in the last minute.

        Only holds of more than a second are told, and only by clients that write cards.

        Cost:
            About two round trips for each 500 cards.
        """
        with self._service.understood():
            self._service.find_nodes()
            keys = {kind.key(key) for kind in KINDS.values()}
            ends = [
                end
                for card in self._cards.all(ended=True)
                for (_, of), end in card.ends.items()
                if of in keys
            ]
        return min(ends, key=lambda end: end.ago, default=None)

    def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks among all clients that write cards.

        After `pages`, or a description for which all cards were read, these are those of that look.

        Cost:
            Two round trips for each 500 cards, and one for each lock of a deadlock.
        """
        with self._service.understood():
            self._service.find_nodes()
            return self._all_cards().deadlocks

    # Which keys may be locks.

    def _places(
        self, node: Endpoint, pattern: str, wanted: frozenset[str], step: int
    ) -> Iterator[list[Place]]:
        """Yield keys that may be of the kinds *wanted*, some at a time; of all if there is none."""
        fits, scan = _glob(pattern), self._service.scan
        sights = {kind: each for kind, each in seen().items() if not wanted or kind in wanted}
        plain = {sight.type for sight in sights.values() if not sight.apart}
        if "hash" in plain:
            for keys in scan(node, "hash", pattern, step):
                yield [(key, None) for key in keys if not key.startswith(OURS)]
        # Nobody holds a fair lock while its first waiter takes its time: then there is no hash.
        if "fair_lock" in sights:
            for keys in scan(node, "list", "*".join(around(names.fair_queue)), step):
                own = [name_in(key, names.fair_queue) for key in keys]
                yield [(name, None) for name in own if fits(name)]
        for sight in [sight for sight in sights.values() if sight.apart]:
            for keys in scan(node, sight.type, "*".join(around(sight.key)), step):
                yield [(key, sight) for key in keys if fits(sight.name_of(key))]
        if not wanted:
            yield [(name, None) for name in self._awaited_numbers(node) if fits(name)]
        elif "string" in plain:
            for keys in scan(node, "string", pattern, step):
                own = [key for key in keys if READ_ENTRY not in key and not key.startswith(OURS)]
                yield [(key, None) for key in own]

    def _awaited_numbers(self, node: Endpoint) -> list[str]:
        """Return the semaphores and latches that a client listens for."""
        asking = "SHARDCHANNELS" if self._service.sharded else "CHANNELS"
        begins = [channel_of(kind, "{}").rstrip("{}:") for kind in NUMBERS]
        commands = [("PUBSUB", asking, f"{begin}*") for begin in begins]
        found = dict[str, None]()
        for begin, reply in zip(begins, self._service.ask(node, commands), strict=True):
            for channel in () if isinstance(reply, ReplyError) else cast("list[bytes]", reply):
                name = channel.decode(errors="replace").removeprefix(begin).removeprefix(":")
                found[name[1:-1] if name.startswith("{") and name.endswith("}") else name] = None
        servers = self._service.servers
        return [
            key for key in found if not isinstance(servers, Cluster) or servers.owner(key) is node
        ]

    # What the server tells of them.

    def _look(self, node: Endpoint, places: Sequence[Place], limit: int) -> list[LockInfo]:
        """Return those of *places* that are locks, with *limit* holders and waiters of each.

        Raises:
            ServerUnavailableError: the server refused; but a key that has moved is passed over.
        """
        places = [(key, sight or _prefixed(key)) for key, sight in places]
        calls = [(_script_keys(key, sight), ()) for key, sight in places]
        replies = self._service.run(node, LOCK_INFO, limit, calls)
        found: list[LockInfo] = []
        for (key, sight), reply in zip(places, replies, strict=True):
            if isinstance(reply, ReplyError):
                if code_of(reply) not in ("MOVED", "ASK", "TRYAGAIN"):
                    raise ServerUnavailableError(f"{node.where} cannot be read: {reply}")
            elif reply is not None and (info := _lock_in(key, sight, cast("list[Any]", reply))):
                found.append(info)
        return self._without_dead_readers(node, found)

    def _without_dead_readers(self, node: Endpoint, found: list[LockInfo]) -> list[LockInfo]:
        """Return *found*, where each reader has what is left of its own entries."""
        readers = [
            (
                info.name,
                each.holder,
                names.read_entry(names.read_entries(info.name), each.holder, n),
            )
            for info in found
            if info.mode
            for each in info.holders
            if each.mode == "read"
            for n in range(1, min(each.depth, DEEPEST) + 1)
        ]
        replies = self._service.ask(node, [("PTTL", entry) for *_, entry in readers])
        left: dict[tuple[str, str], int] = {}
        for (name, holder, _), reply in zip(readers, replies, strict=True):
            # What is refused, or is moving just now, counts as alive as long as the lock.
            if isinstance(reply, int):
                left[name, holder] = max(reply, left.get((name, holder), GONE))

        def of_its_own(info: LockInfo) -> LockInfo:
            holders = tuple(
                [
                    each
                    if (ms := left.get((info.name, each.holder))) is None
                    else replace(each, remaining=_seconds(ms))
                    for each in info.holders
                    if left.get((info.name, each.holder)) != GONE
                ]
            )
            count = info.holder_count - len(info.holders) + len(holders)
            return replace(info, holders=holders, holder_count=count)

        return [of_its_own(info) if info.mode else info for info in found]

    def _listeners(self, node: Endpoint, page: Sequence[LockInfo]) -> dict[tuple[str, str], int]:
        """Return how many clients listen for each key of *page*, as an object of a kind."""
        channels: dict[str, tuple[str, str]] = {}
        for info in page if self._service.options.pubsub != "off" else ():
            for kind in NUMBERS if info.any_number else (info.kind,):
                if not info.queued:
                    channels[channel_of(kind, info.name)] = _key_of(info), kind
        if not channels:
            return {}
        asking = "SHARDNUMSUB" if self._service.sharded else "NUMSUB"
        counts: dict[tuple[str, str], int] = {}
        # Plain channels of a cluster are counted by each node for its own clients.
        for each in [node] if self._service.sharded else self._service.nodes:
            [reply] = self._service.ask(each, [("PUBSUB", asking, *channels)])
            if isinstance(reply, ReplyError):
                raise ServerUnavailableError(f"{each.where} refused PUBSUB {asking}: {reply}")
            flat = cast("list[Any]", reply)
            for channel, count in zip(map(text_of, flat[::2]), flat[1::2], strict=True):
                place = channels.get(channel, ("", ""))
                counts[place] = counts.get(place, 0) + int(count)
        return counts

    # What cards tell of them.

    def _forget(self, *, closely: bool = False) -> None:
        """Read cards again from now on; *closely*: as of `CardReader.forget`."""
        self._cards.forget(closely=closely)
        self._told = None

    def _all_cards(self) -> Told:
        """Return what all cards tell together; read it once."""
        if self._told is None:
            told, graph, left = Told(), WaitGraph(), REMEMBERED
            for card in self._cards.all():
                graph.add(card)
                for (holder, key), entry in card.holds.items():
                    ids = () if ":" in holder else range(0, min(len(holder), PERMIT * left), PERMIT)
                    for at in ids:
                        told.permits[holder[at : at + PERMIT], key] = card.client, entry
                    left -= len(ids)
                # Nothing of a client that is dead or gone.
                waits = not card.client.dead and card.client.connected is not False
                entries = [*card.waits.values(), *card.wishes.values()] if waits else []
                for entry in entries[:left]:
                    waiter = WaiterInfo(entry.holder, card.client)
                    told.waits.setdefault(entry.key, []).append(_waiting(waiter, entry))
                left -= len(entries[:left])
            self._prove(told, graph)
            self._told = told
        return self._told

    def _prove(self, told: Told, graph: WaitGraph) -> None:
        """Add the deadlocks of *graph* that servers confirm to what is *told*."""
        for ring in graph.rings():
            steps = [
                DeadlockStep(client, wait.thread, wait.key, holder, wait.age)
                for client, wait, hold in ring
                for holder in self._awaited_holders(wait.key)
                if holder.removesuffix(":write") == hold.holder
            ]
            if len(steps) == len(ring):
                told.deadlocks.append(Deadlock(tuple(steps)))
                told.stuck.update((each.wait.holder, each.wait.key) for each in ring)

    def _awaited_holders(self, key: str) -> list[str]:
        """Return the holder ids of the lock *key*, all of which a waiter waits for.

        Of a lock that several owners may hold there are none: one of them is enough to go on.
        """
        found = self._look(self._service.owner(key), [(key, None)], ALL)
        awaited = [info for info in found if not KINDS[info.kind].shared]
        return [holder.holder for info in awaited for holder in info.holders]

    def _finish(self, node: Endpoint, page: list[LockInfo], limit: int = LIMIT) -> list[LockInfo]:
        """Return *page* with all that is known of its locks, and *limit* waiters of each."""
        if not page:
            return []
        counts = self._listeners(node, page)
        for at, info in enumerate(page):
            if info.any_number and counts.get((_key_of(info), "count_down_latch")):
                page[at] = replace(info, kind="count_down_latch")
        clients = {each.client.client_id for info in page for each in info.holders}
        clients |= {each.client.client_id for info in page for each in info.waiters}
        cards = self._cards.of(clients - {""})
        # No holder or queue tells the ids of those who poll. To find cards, a cluster must be
        # scanned: for one lock only if somebody listens, or holds permits.
        scanned = limit == ALL and isinstance(self._service.servers, Cluster)
        permits = any(sight_of(info.kind).permits for info in page)
        told = Told()
        if not scanned or permits or any(counts.values()):
            told = self._all_cards()
        return [
            _finished(info, cards, told, counts.get((_key_of(info), info.kind), 0), limit)
            for info in page
        ]


def read_deadlocks(servers: Endpoint | Cluster, options: Options) -> list[Deadlock]:
    """Return the deadlocks among all clients; errors as `Reader`. It blocks."""
    with Reader(servers, options) as reader:
        return reader.deadlocks()


def read_lock(servers: Endpoint | Cluster, options: Options, key: str) -> LockInfo | None:
    """Return what is known of the lock *key*; errors as `Reader`. It blocks."""
    with Reader(servers, options) as reader:
        return reader.describe(key)


def _glob(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches *pattern*, as of the command KEYS."""
    python = re.sub(r"\\(.)|\[\^", lambda found: f"[{found[1]}]" if found[1] else "[!", pattern)
    return lambda name: fnmatchcase(name, python)


def _prefixed(key: str) -> Sight | None:
    """Return the kind whose keys begin as *key* does, which is no name then."""
    apart = [sight for sight in seen().values() if sight.apart and not sight.permits]
    return next((sight for sight in apart if sight.name_of(key) != key), None)


def _script_keys(key: str, sight: Sight | None) -> tuple[str, ...]:
    """Return the keys that `lock_info` looks at for *key*; it stands for those that there are not.

    A user may have no right to keys that no object has.
    """
    if sight is None:
        queue, places = names.fair_queue(key), names.fair_timeouts(key)
        totals = names.semaphore_total(key), names.latch_total(key)
        return (key, queue, places, names.fence_token(key), *totals)
    name = sight.name_of(key)
    token = key if sight.token is None else sight.token(name)
    # The number of free permits is called like the semaphore.
    return key, key, key, token, name if sight.permits else key, key


def _lock_in(key: str, sight: Sight | None, reply: list[Any]) -> LockInfo | None:
    """Return the lock *key* that `lock_info` told of; None if it is not of the kind of *sight*.

    None also if nobody holds it, and its queue has only places that are over: the next one who
    acquires it removes them.
    """
    told, left, count, holders, waiters, length, token, free, total = reply
    numbers = [count, length, *(each for each in (token, free, total) if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    kind = told.decode()
    mode = kind if kind in ("read", "write") else ""
    kind = "read_write_lock" if mode else kind
    if kind not in KINDS:
        raise TypeError(f"wanted a kind of lock, found {kind[:100]!r}")
    if (kind == "leased_semaphore") != (sight is not None and sight.permits):
        return None
    kind = next((each for each, its in seen().items() if its is sight), kind)
    queue = [(text_of(waiters[i]), waiters[i + 1]) for i in range(0, len(waiters), 2)]
    if length and not holders and all(ends < 0 for _, ends in queue):
        return None
    parts = [holders[i : i + 3] for i in range(0, len(holders), 3)]
    permits = sight_of(kind).permits
    return LockInfo(
        name=sight_of(kind).name_of(key),
        kind=kind,
        mode=mode,
        holders=tuple([_holder(part, mode, permit=permits) for part in parts]),
        holder_count=count,
        remaining=_seconds(left),
        waiters=tuple(
            [WaiterInfo(each, _client_of(each), remaining=_seconds(ends)) for each, ends in queue]
        ),
        waiting=length,
        free=free,
        total=total,
        token=token,
    )


def _holder(part: Sequence[Any], mode: str, *, permit: bool) -> HolderInfo:
    name, depth, left = part
    if permit:
        return HolderInfo(name.hex(), ClientInfo(""), remaining=_seconds(left))
    holder = text_of(name)
    if mode:
        mode = "write" if holder.endswith(":write") else "read"
    client = _client_of(holder)
    renewed = False if client.program else None
    return HolderInfo(holder, client, mode, int(depth), _seconds(left), renewed=renewed)


def _client_of(holder: str) -> ClientInfo:
    client_id = holder.partition(":")[0]
    return ClientInfo(client_id, program=_NOBODY.get(client_id.partition("-")[0], ""))


def _seconds(left: int) -> float | None:
    return left / 1000 if left >= 0 else None


def _key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return KINDS[info.kind].key(info.name)


def _as_wanted(info: LockInfo, wanted: frozenset[str]) -> LockInfo | None:
    """Return *info* if its kind is *wanted*: a number that nobody awaits may be a latch."""
    if not wanted or info.kind in wanted:
        return info
    latch = info.any_number and "count_down_latch" in wanted
    return replace(info, kind="count_down_latch") if latch else None


def _finished(
    info: LockInfo, cards: Mapping[str, Card], told: Told, listening: int, limit: int
) -> LockInfo:
    """Return *info* with what cards tell of its holders and waiters, and how many listen."""
    key, permits = _key_of(info), sight_of(info.kind).permits
    holders = [
        _held(each, *told.permits.get((each.holder, key), (None, None)))
        if permits
        else _held_on_card(each, key, cards)
        for each in info.holders
    ]
    # The card of a client that has just acquired the lock still tells of its wait.
    ids = {each.holder.removesuffix(":write") for each in holders}
    waiters = [each for each in told.waits.get(key, ()) if each.holder not in ids]
    waiters.sort(key=lambda each: each.waited or 0.0, reverse=True)
    count = len(waiters)
    if info.queued:
        waiters, count = [_queued(each, key, cards) for each in info.waiters], info.waiting
    return replace(
        info,
        holders=tuple(holders),
        waiters=tuple(
            [replace(each, deadlock=(each.holder, key) in told.stuck) for each in waiters[:limit]]
        ),
        waiting=max(info.waiting, listening),
        waiter_count=count,
    )


def _held_on_card(holder: HolderInfo, key: str, cards: Mapping[str, Card]) -> HolderInfo:
    card = cards.get(holder.client.client_id)
    if card is None:
        return holder
    return _held(holder, card.client, card.holds.get((holder.holder.removesuffix(":write"), key)))


def _held(holder: HolderInfo, client: ClientInfo | None, entry: Entry | None) -> HolderInfo:
    """Return *holder* with what its client's card tells."""
    if client is None or entry is None:
        return replace(holder, client=client or holder.client)
    return replace(
        holder,
        client=client,
        held_for=entry.age,
        lease=entry.lease,
        renewed=entry.renewed,
        thread=entry.thread,
        owner=entry.owner,
        trace_id=entry.trace_id,
    )


def _queued(waiter: WaiterInfo, key: str, cards: Mapping[str, Card]) -> WaiterInfo:
    """Return *waiter* with what its client's card tells."""
    card = cards.get(waiter.client.client_id)
    if card is None:
        return waiter
    entry = card.waits.get((waiter.holder, key))
    waiter = replace(waiter, client=card.client)
    return waiter if entry is None else _waiting(waiter, entry)


def _waiting(waiter: WaiterInfo, entry: Entry) -> WaiterInfo:
    return replace(waiter, waited=entry.age, thread=entry.thread, owner=entry.owner)
