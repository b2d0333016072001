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
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import BY_TICKET
from interlock._core.locks.transfer import LEFT_MARK, TICKET_MARK
from interlock._core.model import names
from interlock._core.model.names import (
    leased_queue,
    limited_permits,
    limited_queue,
    waiting_queue,
)
from interlock._links.resp import ReplyError
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.inspection.cards import LONGEST_TIME, CardReader, Place
from interlock.inspection.deadlocks import Deadlock, DeadlockStep, rings
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.kinds import KINDS, around, itself, name_in, seen
from interlock.inspection.service import Call, Service, code_of, load, text_of
from interlock.inspection.words import LEFT_LOCKED
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.inspection.cards import Card
    from interlock.options import Options

LOCK_INFO = load("lock_info")
LIMIT, ALL = 64, 1000
"""Holders and waiters that are told of one lock in a list, and by itself."""
REMEMBERED = 100_000
"""Names that are remembered, to tell each only once; and waits and permits on cards."""
DEEPEST = 100
"""Entries of one reader that are looked at, at most."""
PERMIT = 32
"""Characters of the id of a permit."""
GONE = -2
"""What PTTL returns for a key that does not exist."""
OURS, READ_ENTRY = ("redisson_", "interlock_"), ":rwlock_timeout:"
"""How keys begin that are no names of locks, and what is within the keys of readers' entries."""
_HOLDER = re.compile(r"[0-9a-f-]+:[0-9]+(/[0-9]+)?(:write)?", re.IGNORECASE)
_MEMBER = re.compile(
    r"([0-9a-f-]+:[0-9]{12}(?:/[0-9]+)?(?::write)?)(?:\*[0-9]+)?(?:%[0-9]+)?(\??)", re.IGNORECASE
)
"""Who stands in the queue of a lock: the holder that it will be, and whether it cannot listen."""
_DEPTH = re.compile("[0-9]{1,10}")
_NOBODY = {TICKET_MARK: BY_TICKET, LEFT_MARK: LEFT_LOCKED}
"""How client ids begin that no client has -> what such a hold is called."""


@dataclass(slots=True)
class Told:
    """What all cards tell together: waits by key, permits by id and key, and deadlocks."""

    waits: dict[str, list[WaiterInfo]] = field(default_factory=dict[str, list[WaiterInfo]])
    permits: dict[Place, HolderInfo] = field(default_factory=dict[Place, HolderInfo])
    deadlocks: list[Deadlock] = field(default_factory=list[Deadlock])
    stuck: set[Place] = field(default_factory=set[Place])


class Reader(AbstractContextManager["Reader"]):
    """Reads the locks of one server or cluster; close it, or use it in a ``with`` statement.

    Every method raises ServerUnavailableError if a server cannot be reached, does not answer, or
    refuses because the user lacks a right. Then the error has the line that permits it.
    """

    def __init__(self, servers: Topology, options: Options) -> None:
        self._service = Service(servers, options)
        self._prefix = options.prefix or ""
        self._forget()

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        self._service.close()

    def pages(self, pattern: str = "*", kinds: Iterable[str] = ()) -> Iterator[list[LockInfo]]:
        """Yield the locks whose names match *pattern*, as of `Client.locks`, some at a time.

        A semaphore and a latch look like any other number. So without *kinds* only those are told
        that a client waits for, as cards tell. A number that nobody waits for is told as a
        semaphore, or as a latch if *kinds* asks for latches and not for semaphores.

        The keys are gone through once for each type of key. A cluster has no list of its cards: it
        is scanned for them first.
        """
        wanted = frozenset(kinds)
        if unknown := sorted(wanted - seen().keys()):
            raise ConfigError(f"wanted kinds of {', '.join(seen())}, found {unknown[0]!r}")
        pattern, told = self._prefix + check_text(pattern, "a pattern"), set[int]()
        latches = "count_down_latch" in wanted and "semaphore" not in wanted
        with self._service.asked():
            self._forget()
            for node in self._service.nodes:
                for places in self._places(node, pattern, wanted):
                    if len(told) > REMEMBERED:
                        told.clear()
                    found = {hash(_key_of(each)): each for each in self._look(node, places, LIMIT)}
                    new = [info for mark, info in found.items() if mark not in told]
                    told.update(found)
                    page = [
                        replace(info, kind="count_down_latch")
                        if latches and info.any_number
                        else info
                        for info in self._finish(node, new)
                    ]
                    if page := [info for info in page if not wanted or info.kind in wanted]:
                        yield page

    def describe(self, name: str) -> LockInfo | None:
        """Return all that is known about the lock *name*; None if nobody holds or awaits it."""
        key = self._key(name)
        # The number of a leased semaphore looks like that of a plain one, so its leases come first.
        places = [
            (names.permit_leases(key), "leased_semaphore"),
            (limited_permits(key), "limited"),
            (key, ""),
            (names.election_key(key), "election"),
        ]
        with self._service.asked():
            self._forget(closely=True)
            node = self._service.owner(key)
            found = self._finish(node, self._look(node, places, ALL)[:1], ALL)
        return found[0] if found else None

    def type_of(self, name: str) -> str:
        """Return the type of the key that is called *name*, in the words of the command TYPE."""
        key = self._key(name)
        with self._service.asked():
            return text_of(self._service.one(self._service.owner(key), "TYPE", key))

    def note(self, name: str, holder: str) -> str:
        """Return why the hold of *holder* was broken, unless its program has read that already."""
        key = self._key(name)
        with self._service.asked():
            command = ("GET", names.forced_note(key, holder))
            [reply] = self._service.ask(self._service.owner(key), [command], may_lack=True)
        return text_of(reply) if isinstance(reply, bytes) else ""

    def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks among all clients that write cards, as of the last look."""
        with self._service.asked():
            return self._all_cards().deadlocks

    # Names and keys: all below is told of keys with the prefix.

    def _key(self, name: str) -> str:
        name = check_name(name)
        if self._service.servers.clustered:
            names.check_one_slot(name)
        return self._prefix + name

    def _name_of(self, key: str) -> str:
        return name_in(key, names.election_key).removeprefix(self._prefix)

    # Which keys may be locks.

    def _places(
        self, node: Endpoint, pattern: str, wanted: frozenset[str]
    ) -> Iterator[list[Place]]:
        """Yield keys that may be of the kinds *wanted*, some at a time; of all if there is none.

        Each has the kind whose keys are not called like their objects; nothing for any other.
        """
        fits, scan = _glob(pattern), self._service.scan
        kinds = {name: kind for name, kind in seen().items() if not wanted or name in wanted}
        plain = {kind.type for kind in kinds.values() if kind.seen_at is itself}
        for form in plain if wanted else {"hash"}:
            for keys in scan(node, form, pattern):
                own = [key for key in keys if READ_ENTRY not in key and not key.startswith(OURS)]
                yield [(key, "") for key in own]
        for kind, row in kinds.items():
            if row.seen_at is not itself:
                for keys in scan(node, row.type, "*".join(around(row.seen_at))):
                    yield [(key, kind) for key in keys if fits(name_in(key, row.seen_at))]
        # While the first waiter of a fair lock takes its time, there is a list and no hash.
        queues = "*".join(around(names.fair_queue))
        for keys in scan(node, "list", queues) if "fair_lock" in kinds else ():
            found = [name_in(key, names.fair_queue) for key in keys]
            yield [(name, "") for name in found if fits(name)]
        if not wanted:  # of numbers those that somebody awaits
            awaited = [key for key in self._all_cards().waits if fits(key)]
            yield [(key, "") for key in awaited if self._service.owner(key) is node]

    # What the server tells of them.

    def _look(self, node: Endpoint, places: Sequence[Place], limit: int) -> list[LockInfo]:
        """Return those of *places* that are locks, with *limit* holders and waiters of each."""
        election = around(names.election_key)[0]
        places = [(key, "election" if key.startswith(election) else kind) for key, kind in places]
        calls: list[Call] = [(8, *_script_keys(key, kind), limit) for key, kind in places]
        replies, found = self._service.run(node, LOCK_INFO, calls), list[LockInfo]()
        for (key, kind), reply in zip(places, replies, strict=True):
            if code_of(reply) not in ("", "MOVED", "ASK", "TRYAGAIN"):
                raise ServerUnavailableError(f"{node.where} cannot be read: {reply}")
            if reply is not None and not isinstance(reply, ReplyError):
                info = _lock_in(key, kind, cast("list[Any]", reply))
                found += [] if info is None else [info]
        return self._with_living_readers(node, found)

    def _with_living_readers(self, node: Endpoint, found: list[LockInfo]) -> list[LockInfo]:
        """Return *found*, where each reader has what is left of its own entries."""
        entries = {
            names.read_entry(names.read_entries(info.name), each.holder, n): (
                info.name,
                each.holder,
            )
            for info in found
            for each in info.holders
            for n in range(1, min(each.depth, DEEPEST) + 1)
            if each.mode == "read"
        }
        if not entries:
            return found
        left: dict[Place, int] = {}
        replies = self._service.ask(node, [("PTTL", entry) for entry in entries])
        for place, reply in zip(entries.values(), replies, strict=True):
            # What is refused, or is moving just now, counts as alive as long as the lock.
            if isinstance(reply, int):
                left[place] = max(reply, left.get(place, GONE))
        for at, info in enumerate(found):
            living: list[HolderInfo] = []
            for each in info.holders:
                ms = left.get((info.name, each.holder))
                if ms != GONE:
                    living.append(each if ms is None else replace(each, remaining=_seconds(ms)))
            count = info.holder_count - len(info.holders) + len(living)
            found[at] = replace(info, holders=tuple(living), holder_count=count)
        return found

    def _listeners(self, node: Endpoint, page: Sequence[LockInfo]) -> dict[Place, int]:
        """Return how many clients listen for each key of *page*, as an object of a kind."""
        channels: dict[str, Place] = {}
        for info in page if self._service.options.pubsub != "off" else ():
            either = ("semaphore", "count_down_latch") if info.any_number else (info.kind,)
            for kind in () if info.queued else either:
                channel = KINDS[kind].channel
                assert channel is not None  # whatever the reader tells of
                channels[channel(info.name)] = _key_of(info), kind
        counts: dict[Place, int] = {}
        asking = "SHARDNUMSUB" if self._service.sharded else "NUMSUB"
        # Plain channels of a cluster are counted by each node for its own clients.
        for each in ([node] if self._service.sharded else self._service.nodes) if channels else ():
            flat = self._service.one(each, "PUBSUB", asking, *channels)
            for told, count in zip(map(text_of, flat[::2]), flat[1::2], strict=True):
                place = channels.get(told, ("", ""))
                counts[place] = counts.get(place, 0) + int(count)
        return counts

    # What cards tell of them.

    def _forget(self, *, closely: bool = False) -> None:
        """Read cards again from now on; *closely*: as of `CardReader`."""
        self._cards = CardReader(self._service, closely=closely)
        self._told: Told | None = None

    def _all_cards(self) -> Told:
        """Return what all cards tell together; read it once."""
        if self._told is None:
            told = Told()
            for ring in rings(_noted(self._cards.all("waits", "permits"), told)):
                steps = [
                    DeadlockStep(
                        client, wait.thread, self._name_of(key), each.holder, wait.waited or 0.0
                    )
                    for client, wait, key, hold in ring
                    for info in self._look(self._service.owner(key), [(key, "")], ALL)
                    for each in info.holders
                    if _bare(each.holder) == hold.holder
                ]
                # Servers have the last word on who holds a lock.
                if len(steps) == len(ring):
                    told.deadlocks.append(Deadlock(tuple(steps)))
                    told.stuck.update((each.wait.holder, each.key) for each in ring)
            self._told = told
        return self._told

    def _finish(self, node: Endpoint, page: list[LockInfo], limit: int = LIMIT) -> list[LockInfo]:
        """Return *page* with all that is known of its locks, and *limit* waiters of each."""
        if not page:
            return []
        counts = self._listeners(node, page)
        held = {each.client.client_id for info in page for each in info.holders}
        awaited = {each.client.client_id for info in page for each in info.waiters}
        cards = self._cards.of(held | awaited)
        # No holder or queue tells the ids of those who poll. To find cards, a cluster must be
        # scanned: for one lock only if somebody listens, or holds permits.
        permits = any(KINDS[info.kind].type == "zset" for info in page)
        scans = self._service.servers.clustered and limit == ALL
        spared = scans and not permits and not any(counts.values())
        told = Told() if spared else self._all_cards()
        found: list[LockInfo] = []
        for info in page:
            if info.any_number and counts.get((_key_of(info), "count_down_latch")):
                info = replace(info, kind="count_down_latch")  # noqa: PLW2901 - the same lock
            listening = counts.get((_key_of(info), info.kind), 0)
            name = self._name_of(info.name)
            found.append(_finished(info, name, cards, told, listening, limit))
        return found


def read_deadlocks(servers: Topology, options: Options) -> list[Deadlock]:
    """Return the deadlocks among all clients; errors as `Reader`. It blocks."""
    with Reader(servers, options) as reader:
        return reader.deadlocks()


def read_lock(servers: Topology, options: Options, name: str) -> LockInfo | None:
    """Return what is known of the lock *name*; errors as `Reader`. It blocks."""
    with Reader(servers, options) as reader:
        return reader.describe(name)


# Names and keys.


def _glob(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches *pattern*, as of the command KEYS."""
    python = re.sub(r"\\(.)|\[\^", lambda found: f"[{found[1]}]" if found[1] else "[!", pattern)
    return lambda name: fnmatchcase(name, python)


def _script_keys(key: str, kind: str) -> tuple[str, ...]:
    """Return the keys that `lock_info` looks at for *key*; it stands for those that there are not.

    A user may have no right to keys that no object has.
    """
    if not kind:
        queue, places = names.fair_queue(key), names.fair_timeouts(key)
        token, latch = names.fence_token(key), names.latch_total(key)
        channels = names.lock_channel(key), names.read_write_channel(key)
        lines = [key if names.shares_channels(key) else waiting_queue(each) for each in channels]
        return key, queue, places, token, names.semaphore_total(key), latch, *lines
    row, name = KINDS[kind], name_in(key, KINDS[kind].seen_at)
    token = key if row.token is None else row.token(name)
    # The number of free permits is called like the semaphore.
    waits_in = {"leased_semaphore": leased_queue, "limited": limited_queue}.get(kind)
    free = name if kind == "leased_semaphore" else key
    return key, key, key, token, free, key, key if waits_in is None else waits_in(name), key


def _key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return KINDS[info.kind].key(info.name)


# What the replies mean.


def _lock_in(key: str, kind: str, reply: list[Any]) -> LockInfo | None:
    """Return the lock *key* that `lock_info` told of; None if it is not of the *kind* it may be.

    None also if nobody holds it, and its queue has only places that are over: the next one who
    acquires it removes them.
    """
    form, left, count, flat, mode, waiters, length, token, free, total, latch, now = reply[:12]
    members, in_line = reply[12:]
    told = (token, free, total, latch)
    numbers = [count, length, in_line, *(each for each in told if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    if (form == b"zset") != (kind in seen() and KINDS[kind].type == "zset"):
        return None
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    mode = text_of(mode) if mode in (b"read", b"write") else ""
    queue = list(zip(map(text_of, waiters[::2]), waiters[1::2], strict=True))
    holders: list[HolderInfo] | None = []
    if form == b"string":
        named = "semaphore" if latch is None else "count_down_latch"
    elif form == b"zset":
        named = kind
        holders = [_permit(name, ms) for name, ms in pairs]
    else:
        named = "fair_lock" if length else "lock" if token is None else "fenced_lock"
        fields = [(text_of(name), text_of(value)) for name, value in pairs]
        holders = _holders([each for each in fields if not mode or each[0] != "mode"], left, mode)
        if mode:
            named, count = "read_write_lock", count - 1
        elif holders is None and (holders := _of_group(dict(fields), left, now)):
            named, count = "group_lock", len(holders)
        elif any(b":write" in member for member in members[::2]):
            named = "read_write_lock"
        nobody = not holders and not in_line and all(ends < 0 for _, ends in queue)
        if holders is None or nobody:
            return None
    standing = [WaiterInfo(who, _client_of(who), remaining=_seconds(ends)) for who, ends in queue]
    found = _in_line(members, now)
    return LockInfo(
        name=name_in(key, KINDS[kind].seen_at) if kind else key,
        kind=kind or named,
        mode=mode,
        holders=tuple(holders or ()),
        holder_count=count,
        remaining=_seconds(left),
        waiters=(*standing, *found),
        waiting=length,
        free=free,
        total=total if latch is None else latch,
        token=token,
        waiter_count=length + in_line - len(members) // 2 + len(found),
    )


def _in_line(flat: list[Any], now: int) -> list[WaiterInfo]:
    """Return who stands in the queue of a lock; *flat* has members and their times."""
    found: list[WaiterInfo] = []
    for member, score in zip(flat[::2], flat[1::2], strict=True):
        if told := _MEMBER.fullmatch(text_of(member)):
            age = min(max(now - abs(score), 0) / 1000, LONGEST_TIME)
            waited, granted = (age, None) if score >= 0 else (None, age)
            holder, polls = told[1], bool(told[2])
            found.append(
                WaiterInfo(holder, _client_of(holder), waited, polls=polls, granted=granted)
            )
    return found


def _holders(fields: Sequence[tuple[str, str]], left: int, mode: str) -> list[HolderInfo] | None:
    """Return who holds a lock as long as its key lives; None if other fields are there."""
    if not all(_HOLDER.fullmatch(name) and _DEPTH.fullmatch(value) for name, value in fields):
        return None
    return [
        _holder(name, int(value), left, mode and ("write" if name.endswith(":write") else "read"))
        for name, value in fields
    ]


def _of_group(fields: dict[str, str], left: int, now: int) -> list[HolderInfo] | None:
    """Return who holds values of a group, each holder once; None if nobody does.

    Of a large group only some fields were read: then the TTL of its key stands for a time.
    """
    found: dict[str, HolderInfo] = {}
    for value, holder in fields.items():
        if _HOLDER.fullmatch(holder):
            ends = fields.get(f"{value}:{holder}:expire_time", str(now + left))
            depth = fields.get(f"{value}:{holder}:lock_count", "1")
            if not (ends.isdecimal() and _DEPTH.fullmatch(depth)):
                return None
            if int(ends) > now:
                found.setdefault(holder, _holder(holder, int(depth), int(ends) - now, ""))
    return list(found.values()) or None


def _holder(holder: str, depth: int, left: int, mode: str) -> HolderInfo:
    client = _client_of(holder)
    renewed = False if client.program else None
    return HolderInfo(holder, client, mode, depth, _seconds(left), renewed=renewed)


def _permit(name: bytes, left: int) -> HolderInfo:
    """Return who has the permit that the server calls *name*: that of a limit tells its client."""
    if len(name) == PERMIT // 2:
        return HolderInfo(name.hex(), ClientInfo(""), remaining=_seconds(left))
    holder = text_of(name).rpartition(".")[0]
    return HolderInfo(holder, _client_of(holder), remaining=_seconds(left))


def _client_of(holder: str) -> ClientInfo:
    client_id = holder.partition(":")[0]
    return ClientInfo(client_id, program=_NOBODY.get(client_id.partition("-")[0], ""))


def _bare(holder: str) -> str:
    """Return what cards call *holder*, of either side of a read/write lock."""
    return holder.removesuffix(":write")


def _seconds(left: int) -> float | None:
    return left / 1000 if left >= 0 else None


def _noted(cards: Iterator[Card], told: Told) -> Iterator[Card]:
    """Yield *cards*, once their permits and waits are noted in what is *told*."""
    left = REMEMBERED
    for card in cards:
        for (ids, key), hold in card.holds.items():
            for at in () if ":" in ids else range(0, min(len(ids), PERMIT * left), PERMIT):
                told.permits[ids[at : at + PERMIT], key] = replace(hold, client=card.client)
                left -= 1
        # Nothing of a client that is dead or gone.
        if not card.client.dead and card.client.connected is not False:
            waits = [*card.waits.items(), *card.wishes.items()][:left]
            for (_, key), wait in waits:
                told.waits.setdefault(key, []).append(replace(wait, client=card.client))
            left -= len(waits)
        yield card


def _finished(
    info: LockInfo, name: str, cards: dict[str, Card], told: Told, listening: int, limit: int
) -> LockInfo:
    """Return *info* as *name*, with what cards tell of its holders and waiters, and who listens."""
    key, holders = _key_of(info), list[HolderInfo]()
    for each in info.holders:
        known = told.permits.get((each.holder, key), each)
        client = known.client
        if (card := cards.get(each.client.client_id)) is not None:
            known, client = card.holds.get((_bare(each.holder), key), each), card.client
        if known is not each or card is not None:
            known = replace(
                known,
                holder=each.holder,
                client=client,
                mode=each.mode,
                depth=each.depth,
                remaining=each.remaining,
            )
        holders.append(known)
    others = told.waits.get(key, ())
    if not (info.waiters or others or listening) and name == info.name and not info.waiting:
        return info if holders == [*info.holders] else replace(info, holders=tuple(holders))
    # A holder keeps its place until it releases, and its card may still tell of its wait.
    ids = {_bare(each.holder) for each in holders}
    standing = [each for each in info.waiters if _bare(each.holder) not in ids]
    waiters = [
        _standing(each, at, cards.get(each.client.client_id), key)
        for at, each in enumerate(standing, 1)
    ]
    ids.update(_bare(each.holder) for each in info.waiters)
    others = [each for each in others if each.holder not in ids]
    others.sort(key=lambda each: each.waited or 0.0, reverse=True)
    count = info.waiter_count - len(info.waiters) + len(waiters)
    if not info.queued and info.waiter_count == len(info.waiters):  # the rest may be in the queue
        waiters, count = [*waiters, *others], count + len(others)
    return replace(
        info,
        name=name,
        holders=tuple(holders),
        waiters=tuple(
            replace(each, deadlock=(_bare(each.holder), key) in told.stuck)
            for each in waiters[:limit]
        ),
        waiting=max(info.waiting, listening),
        waiter_count=count,
    )


def _standing(waiter: WaiterInfo, at: int, card: Card | None, key: str) -> WaiterInfo:
    """Return *waiter*, which stands in the queue of *key*, with what its client's *card* tells."""
    waiter = replace(waiter, position=at)
    if card is None:
        return waiter
    known = card.waits.get((_bare(waiter.holder), key), waiter)
    return replace(
        waiter,
        client=card.client,
        waited=waiter.waited if known.waited is None else known.waited,
        thread=known.thread,
        owner=known.owner,
    )
