"""Read locks from servers: page by page, with few commands and bounded memory.

Theory. SCAN goes through the keys in small steps and never blocks the server. One script for each
key tells what it is and who holds it, in one atomic look. A page of several hundred locks costs
three round trips: the locks, the number of clients that listen for them, and the holders' cards.

Rules:

* Nothing is written, and nothing is looked at as a whole: each answer has a bound.
* What cannot be read (no rights, moved meanwhile, no lock) is left out, and counted if it was the
  rights.
* A lock that comes or goes meanwhile may be missed. While keys move, one may come twice.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import ASK, CARD, INDEX
from interlock._core.insight.deadlock import Shown
from interlock._core.model import names
from interlock._core.model.effects import Script
from interlock._links.cluster import Cluster
from interlock._links.connection import Connection
from interlock._links.replies import understood
from interlock._links.resp import ReplyError, pack
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.inspection import cards
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, StackInfo, WaiterInfo
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

STEP = 500
"""Keys that one SCAN looks at."""
LIMIT = 64
"""Holders and waiters that are told of one lock in a list."""
ALL = 1000
"""Holders and waiters that are told of one lock by itself."""
TOGETHER = 50
"""Keys that one script looks at, on a server that is no cluster."""
REMEMBERED = 100_000
"""Names that are remembered, to tell each only once."""
KEPT = 200_000
"""Entries of cards that are kept for the next pages, about 250 bytes each."""
ASKED = 16
"""Holders that are asked for their stacks, at most."""
ANSWER_WITHIN = 4.0
"""Seconds in which a client answers; it may have answered another question just before."""
ASK_AGAIN = 0.5
"""Seconds until an unanswered question is asked again."""
LOOK_AGAIN = 0.05
"""Seconds between two looks for the answer."""
Call = tuple[str, tuple[str | int, ...]]
"""A key, and the arguments of a script for that key."""
_LUA = resources.files("interlock.inspection").joinpath("lua")
_PASSED_OVER = {"NOPERM", "MOVED", "ASK", "TRYAGAIN", "WRONGTYPE"}
_OURS = ("redisson_", "interlock_")
_CARD_BEGIN, _CARD_END = CARD.format("\n").split("\n")
LONGEST_ID = 100
"""Bytes of the id of a client."""
_NUMBERS = frozenset({"semaphore", "count_down_latch"})
_ELECTION = "interlock_election:"
_ENTRY = ":rwlock_timeout:"
_set = object.__setattr__
_LEASES = ":timeout"


def _load(stem: str) -> Script[object]:
    text = _LUA.joinpath(f"{stem}.lua").read_text(encoding="utf-8")
    return Script(stem, text, lambda reply: reply)


LOCK_INFO = _load("lock_info")
CARD_READ = _load("card_read")
CARD_BUSY = _load("card_busy")
_WAITS, _PERMITS = 1, 2

KINDS = (
    "lock",
    "fair_lock",
    "fenced_lock",
    "read_write_lock",
    "group_lock",
    "leased_semaphore",
    "semaphore",
    "count_down_latch",
    "election",
)
"""What `LockInfo.kind` may be."""


PERMIT = 32
"""Characters of the id of a permit."""


@dataclass(slots=True)
class _Crowd:
    """Who waits for one key without a queue.

    Attributes:
        count: how many.
        waiters: the first of them that were found.
    """

    count: int = 0
    waiters: list[WaiterInfo] = field(default_factory=list[WaiterInfo])


_NOBODY = _Crowd()


@dataclass(slots=True)
class _Told:
    """What only a look at all cards tells.

    Attributes:
        crowds: who waits, by key.
        permits: who holds a permit, by its id and the semaphore's key.
    """

    crowds: dict[str, _Crowd] = field(default_factory=dict[str, _Crowd])
    permits: dict[tuple[str, str], tuple[ClientInfo, cards.Entry]] = field(
        default_factory=dict[tuple[str, str], "tuple[ClientInfo, cards.Entry]"]
    )


class Reader:
    """Reads the locks of one server or cluster; close it, or use it in a ``with`` statement.

    Args:
        servers: one server, what finds it, or a cluster.
        options: the client's.

    Attributes:
        forbidden: how many keys the user has no right to read.
        forbidden_counts: how often the server refused to tell how many clients listen.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self._servers = servers
        self._options = options
        self._timeout = servers.command_timeout or options.command_timeout
        self._nodes: Sequence[Endpoint] = ()
        self._connections: dict[Endpoint, Connection] = {}
        self._told: _Told | None = None
        self._kept: dict[str, cards.Card | None] = {}
        self._kept_entries = 0
        self._unread: set[str] = set()
        self.forbidden = 0
        self.forbidden_counts = 0

    @property
    def forbidden_cards(self) -> int:
        """Return how many cards the user has no right to read; finding them counts as one."""
        return len(self._unread)

    def missing(self) -> list[str]:
        """Return what could not be read for want of rights, one line for each kind."""
        lines: list[str] = []
        if self.forbidden:
            lines.append(f"{self.forbidden} keys were left out: the user has no right to read them")
        if self._unread:
            lines.append(
                f"{len(self._unread)} cards were left out: the user has no right to read them, "
                "so host, thread and age of holders and waiters may be missing"
            )
        if self.forbidden_counts:
            lines.append(
                "some waiters may be missing: the server refused to tell who listens "
                "(PUBSUB NUMSUB, a right of its own)"
            )
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _understood(self) -> AbstractContextManager[None]:
        return understood(self._servers.where, self.close)

    def pages(
        self, pattern: str = "*", kinds: Iterable[str] = (), *, step: int = STEP
    ) -> Iterator[list[LockInfo]]:
        """Yield the locks whose keys match *pattern*, some at a time.

        A semaphore and a latch look like any other number. So without *kinds* only those are told
        that a client waits for. A number that nobody waits for is told as a semaphore, or as a
        latch if *kinds* asks for latches and not for semaphores.

        Args:
            pattern: as of the command KEYS.
            kinds: of `KINDS`; none for all.
            step: keys that the server looks at for each page.

        Raises:
            ConfigError: a kind that does not exist, or *pattern* cannot be written as UTF-8.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            Four round trips for each *step* keys of hashes, two for others; before them two for
            each 500 cards. A cluster has no list of its cards: it is scanned for them first.
        """
        wanted = frozenset(kinds)
        if unknown := sorted(wanted - set(KINDS)):
            raise ConfigError(f"wanted kinds of {', '.join(KINDS)}, found {unknown[0]!r}")
        pattern = check_text(pattern, "a pattern")
        with self._understood():
            yield from self._pages(pattern, wanted, step)

    def _pages(self, pattern: str, wanted: frozenset[str], step: int) -> Iterator[list[LockInfo]]:
        self._find_nodes()
        self._told, self._kept, self._kept_entries = None, {}, 0
        seen: set[int] = set()
        for node in self._nodes:
            for keys, leases in self._scans(node, pattern, wanted, step):
                page = [
                    info
                    for info in self._look(node, keys, LIMIT, leases=leases)
                    if hash(_key_of(info)) not in seen and _may_be(info, wanted)
                ]
                if page:
                    if len(seen) > REMEMBERED:
                        seen.clear()
                    seen.update(hash(_key_of(info)) for info in page)
                    finished = self._finish(node, page)
                    if wanted & _NUMBERS:
                        finished = list(_numbers(finished, wanted))
                    yield finished

    def describe(self, key: str) -> LockInfo | None:
        """Return everything that is known about the lock *key*; None if nobody holds or awaits it.

        Raises:
            ConfigError: *key* is empty, or cannot be written as UTF-8.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            About six round trips, and one for each hundred cards.
        """
        key = check_name(key)
        with self._understood():
            return self._describe(key)

    def _describe(self, key: str) -> LockInfo | None:
        self._find_nodes()
        node = self._owner(key)
        forbidden = self.forbidden
        # The number of a leased semaphore looks like that of a plain one.
        permits = self._look(node, [names.permit_leases(key)], ALL, leases=True)
        # The queue of a fair lock may be found under that name too.
        found = [info for info in permits if info.kind == "leased_semaphore"]
        found = found or self._look(node, [key], ALL)
        found = found or self._look(node, [names.election_key(key)], ALL)
        if not found:
            return None
        self.forbidden = forbidden  # of what is not this lock
        self._told = None
        return self._finish(node, found[:1], _key_of(found[0]))[0]

    def card(self, client_id: str) -> cards.Card | None:
        """Return the whole card of a client; None if there is none, or if it may not be read."""
        with self._understood():
            self._find_nodes()
            key = cards.card_key(client_id)
            return next(self._read_cards(self._owner(key), [(key, (0,))]), None)

    def holders(self, key: str) -> tuple[str, ...]:
        """Return the holder ids of the lock *key*."""
        with self._understood():
            self._find_nodes()
            found = self._look(self._owner(key), [key], ALL)
            return tuple(holder.holder for info in found for holder in info.holders)

    def stacks(self, info: LockInfo) -> Iterator[StackInfo]:
        """Ask the clients of the holders of *info* for their stacks; yield what each answers.

        Cost:
            About four round trips for each holder, and at most `ANSWER_WITHIN` seconds for all.
        """
        until = time.monotonic() + ANSWER_WITHIN
        for holder in info.holders[ASKED:]:
            yield StackInfo(holder.holder, missing=f"only the first {ASKED} holders are asked")
        for holder in info.holders[:ASKED]:
            client_id, _ = place = _place(holder)
            if not client_id:
                yield StackInfo(holder.holder, missing="no card tells whose it is")
                continue
            yield StackInfo(holder.holder, *self._stack(client_id, place[1], _key_of(info), until))

    def _stack(
        self, client_id: str, holder: str, key: str, until: float
    ) -> tuple[tuple[str, ...], str]:
        """Return the calls of *holder*, and why there are none."""
        before = self.card(client_id)
        if before is None:
            return (), "its client wrote no card: Redisson, card=False, or a hold that is new"
        ask_at = 0.0
        node = self._owner(cards.card_key(client_id))
        while (now := time.monotonic()) < until:
            if now >= ask_at:
                ask_at = now + ASK_AGAIN
                [heard] = self._ask(node, [("PUBLISH", ASK.format(client_id), holder)])
                if isinstance(heard, ReplyError):
                    return (), f"the question was refused: {heard}"
                # In a cluster a node counts its own listeners only.
                if heard == 0 and not isinstance(self._servers, Cluster):
                    return (), "its client does not listen: it never waited for a lock, or may not"
            time.sleep(LOOK_AGAIN)
            card = self.card(client_id)
            if card is None:
                return (), "the hold is over"
            # What stood there before the question may be old.
            if (
                card.number > before.number
                and (calls := card.stacks.get((holder, key))) is not None
            ):
                return calls, "" if calls else "its thread or task is not known, or has ended"
        doubt = f"; {before.client.doubt}" if before.client.doubt else ""
        return (), f"no answer within {ANSWER_WITHIN:g} s{doubt}"

    def shown(self, key: str) -> Shown:
        """Return who holds and awaits the lock *key*, as the server itself shows it.

        Cost:
            Two round trips.
        """
        with self._understood():
            self._find_nodes()
            node = self._owner(key)
            page = self._look(node, [key], ALL)
            if not page:
                return Shown()
            [info], (listening, _) = page, self._listening(node, page) or ({}, set[str]())
        return Shown(
            frozenset([each.holder for each in info.holders]),
            frozenset([each.holder for each in info.waiters]),
            listening.get(key, 0),
        )

    def waiting_cards(self) -> Iterator[cards.Card]:
        """Yield the cards of all clients with a thread or task that waits."""
        with self._understood():
            yield from self._busy_cards(permits=False)

    def _busy_cards(self, *, permits: bool) -> Iterator[cards.Card]:
        """Yield the cards of clients that wait, with *permits* also of those that hold some."""
        self._find_nodes()
        for node, keys in self._card_keys():
            # There may be very many. Most are not needed, and the server tells which ones are.
            calls: list[Call] = [(key, ()) for key in keys]
            replies = self._run(node, CARD_BUSY, cards.LONGEST_VALUE, calls)
            whole: list[Call] = []
            for key, reply in zip(keys, replies, strict=True):
                self._note_card(key, reply)
                if isinstance(reply, int) and reply & (_WAITS | _PERMITS if permits else _WAITS):
                    whole.append((key, (0,)))
            yield from self._read_cards(node, whole)

    def _card_keys(self) -> Iterator[tuple[Endpoint, list[str]]]:
        """Yield the keys of all cards, some at a time, with the server that has them."""
        if not isinstance(self._servers, Cluster):
            node, cursor = self._nodes[0], "0"
            while True:
                [reply] = self._ask(node, [("ZSCAN", INDEX, cursor, "COUNT", STEP)])
                if isinstance(reply, ReplyError):
                    break  # without the right, or with something else there: the scan finds them
                told, flat = cast("tuple[bytes, list[bytes]]", reply)
                cursor = told.decode()
                ids = [_text(each) for each in flat[::2] if len(each) <= LONGEST_ID]
                yield node, [cards.card_key(each) for each in ids]
                if cursor == "0":
                    return
        for node in self._nodes:
            try:
                for keys in self._scan(node, "hash", f"{_CARD_BEGIN}*{_CARD_END}", STEP):
                    yield node, keys
            except ServerUnavailableError as error:
                if error.code != "NOPERM":
                    raise
                self._unread.add("")

    # Where to ask.

    def _find_nodes(self) -> None:
        if not self._nodes:
            self._nodes = self._servers.primaries(self._timeout)

    def _owner(self, key: str) -> Endpoint:
        if not isinstance(self._servers, Cluster):
            return self._nodes[0]
        node = self._servers.owner(key)
        if node is None:
            raise self._servers.nobody(key)
        return node

    def _ask(self, node: Endpoint, commands: Sequence[Sequence[str | int]]) -> list[object]:
        """Return the replies of *node* to *commands*, sent in one write; errors are replies too."""
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = Connection(node, self._timeout)
        try:
            return connection.exchange([pack(command) for command in commands], self._timeout)
        except ServerUnavailableError:
            self._connections.pop(node).close()
            raise

    def _run(
        self, node: Endpoint, script: Script[object], limit: int, calls: Sequence[Call]
    ) -> list[object]:
        """Return what *script* answers for each of *calls*, several of which go together.

        A key that the user may not read refuses all that go with it: these are asked one by one.
        """
        size = 1 if isinstance(self._servers, Cluster) else TOGETHER
        groups = [calls[start : start + size] for start in range(0, len(calls), size)]
        found: list[object] = []
        for group, reply in zip(groups, self._answers(node, script, limit, groups), strict=True):
            if not isinstance(reply, ReplyError):
                found += cast("list[object]", reply)
            elif len(group) == 1:
                found.append(reply)
            else:
                singly = [[call] for call in group]
                for answer in self._answers(node, script, limit, singly):
                    error = isinstance(answer, ReplyError)
                    found += [answer] if error else cast("list[object]", answer)
        return found

    def _answers(
        self,
        node: Endpoint,
        script: Script[object],
        limit: int,
        groups: Sequence[Sequence[Call]],
    ) -> list[object]:
        """Return the replies of *node* to *script*, one for each of *groups*."""
        tails: list[tuple[str | int, ...]] = []
        for group in groups:
            keys = [key for key, _ in group]
            arguments = [argument for _, arguments in group for argument in arguments]
            tails.append((len(keys), *keys, limit, *arguments))
        replies = self._ask(node, [("EVALSHA", script.sha, *tail) for tail in tails])
        missing = [i for i, reply in enumerate(replies) if _code(reply) == "NOSCRIPT"]
        if missing:
            # The text goes with the first one; the server knows it by its digest from then on.
            commands = [
                ("EVAL", script.text, *tails[i]) if n == 0 else ("EVALSHA", script.sha, *tails[i])
                for n, i in enumerate(missing)
            ]
            for i, reply in zip(missing, self._ask(node, commands), strict=True):
                replies[i] = reply
        return replies

    @property
    def _sharded(self) -> bool:
        wanted = self._options.pubsub in ("auto", "sharded")
        return isinstance(self._servers, Cluster) and wanted and bool(self._servers.sharded)

    # Which keys to look at.

    def _scans(
        self, node: Endpoint, pattern: str, kinds: frozenset[str], step: int
    ) -> Iterator[tuple[list[str], bool]]:
        """Yield keys that may be of *kinds*, and whether they are those of permits' leases."""
        matches = glob(pattern)
        if not kinds or kinds & set(KINDS[:5]):
            for keys in self._scan(node, "hash", pattern, step):
                yield [key for key in keys if not key.startswith(_OURS)], False
        if not kinds or "election" in kinds:
            for keys in self._scan(node, "hash", f"{_ELECTION}*", step):
                yield [key for key in keys if matches(_of_election(key))], False
        if not kinds or "leased_semaphore" in kinds:
            for keys in self._scan(node, "zset", f"*{_LEASES}", step):
                yield [key for key in keys if matches(_of_leases(key))], True
        if kinds & _NUMBERS:
            for keys in self._scan(node, "string", pattern, step):
                own = [key for key in keys if _ENTRY not in key and not key.startswith(_OURS)]
                yield own, False
        elif not kinds:
            yield self._waited_numbers(node, pattern), False

    def _scan(self, node: Endpoint, kind: str, pattern: str, step: int) -> Iterator[list[str]]:
        cursor = "0"
        while True:
            command = ("SCAN", cursor, "MATCH", pattern, "COUNT", step, "TYPE", kind)
            [reply] = self._ask(node, [command])
            if isinstance(reply, ReplyError):
                raise ServerUnavailableError(
                    f"{node.where} refused SCAN: {reply}", code=_code(reply)
                )
            told, keys = cast("tuple[bytes, list[bytes]]", reply)
            if keys:
                yield [key.decode() for key in dict.fromkeys(keys) if _is_text(key)]
            cursor = told.decode()
            if cursor == "0":
                return

    def _waited_numbers(self, node: Endpoint, pattern: str) -> list[str]:
        """Return the semaphores and latches that a client listens for."""
        asking = "SHARDCHANNELS" if self._sharded else "CHANNELS"
        first, second = names.semaphore_channel(""), names.latch_channel("")
        begins = [begin.removesuffix("{}").rstrip(":") for begin in (first, second)]
        commands = [("PUBSUB", asking, f"{begin}*") for begin in begins]
        matches, found = glob(pattern), dict[str, None]()
        for begin, reply in zip(begins, self._ask(node, commands), strict=True):
            for channel in () if isinstance(reply, ReplyError) else cast("list[bytes]", reply):
                name = _text(channel).removeprefix(begin).removeprefix(":")
                inner = name[1:-1] if name.startswith("{") and name.endswith("}") else name
                if matches(inner):
                    found[inner] = None
        if isinstance(self._servers, Cluster):
            return [key for key in found if self._servers.owner(key) is node]
        return list(found)

    # What they are.

    def _look(
        self, node: Endpoint, keys: Sequence[str], limit: int, *, leases: bool = False
    ) -> list[LockInfo]:
        """Return those of *keys* that are locks, without what cards tell.

        Args:
            node: has them.
            keys: any keys.
            limit: of the holders and waiters of each.
            leases: whether *keys* are those of permits' leases, and not of the locks themselves.
        """
        if not keys:
            return []
        calls: list[Call] = []
        for key in keys:
            name = _of_leases(key) if leases else key
            token = names.fence_token(name)
            if key.startswith(_ELECTION):
                token = names.election_token(_of_election(key))
            others = (
                names.fair_queue(name),
                names.fair_timeouts(name),
                names.read_entries(name),
                token,
                name,
            )
            calls.append((key, others))
        found: list[LockInfo] = []
        for key, reply in zip(keys, self._run(node, LOCK_INFO, limit, calls), strict=True):
            if isinstance(reply, ReplyError):
                self._note(node, reply)
            elif reply is not None:
                found.append(_info(key, cast("list[Any]", reply)))
        return found

    def _note(self, node: Endpoint, reply: Exception) -> None:
        """Count what may not be read; pass over what has moved.

        Raises:
            ServerUnavailableError: another error of the server's.
        """
        code = _code(reply)
        self.forbidden += code == "NOPERM"
        if code not in _PASSED_OVER:
            raise ServerUnavailableError(f"{node.where} cannot be read: {reply}", code=code)

    def _finish(
        self, node: Endpoint, page: list[LockInfo], only: str | None = None
    ) -> list[LockInfo]:
        """Return *page* with all that is known of its locks; *only* is the key of a single one."""
        heard = self._listening(node, page)
        waiting, latches = heard or ({}, set[str]())
        if only is None:
            told = self._kept_cards(page)
        else:
            wanted = [(*_place(each), "h", only) for info in page for each in info.holders]
            wanted += [(*_place(each), "w", only) for info in page for each in info.waiters]
            told = self._cards(wanted)
        # No holder or queue tells the ids of those who poll. Once for all pages: else a waiter
        # would appear or not by what its page has beside it. To find cards, a cluster must be
        # scanned: for one lock only if somebody listens, or holds permits.
        leased = any(info.kind == "leased_semaphore" for info in page)
        scanned = only is not None and isinstance(self._servers, Cluster)
        if not scanned or leased or heard is None or any(waiting.values()):
            self._told = self._told or self._read_all(only)
        crowds = {} if self._told is None else self._told.crowds
        finished: list[LockInfo] = []
        for info in page:
            key, kind = _key_of(info), info.kind
            crowd = crowds.get(key, _NOBODY) if kind != "fair_lock" else _NOBODY
            if kind == "semaphore" and key in latches:
                kind = "count_down_latch"
            for holder in info.holders:
                self._complete(holder, info.kind, key, told)
            listening = waiting.get(key, 0)
            counted = heard is not None or info.kind == "fair_lock"
            if info.waiters or crowd.count or listening or kind != info.kind or not counted:
                queue = tuple([_waiter_with_card(each, info.name, told) for each in info.waiters])
                info = replace(  # noqa: PLW2901 - the finished one
                    info,
                    kind=kind,
                    waiters=queue or tuple(sorted(crowd.waiters, key=_waited, reverse=True)),
                    waiting=max(info.waiting, listening),
                    waiter_count=info.waiting if queue else crowd.count,
                    waiting_known=counted,
                )
            finished.append(info)
        return finished

    def _listening(
        self, node: Endpoint, page: Sequence[LockInfo]
    ) -> tuple[dict[str, int], set[str]] | None:
        """Return how many clients listen for each key of *page*, and which of these are latches.

        None if the server does not tell.
        """
        channels = {_channel(info): _key_of(info) for info in page if info.kind != "fair_lock"}
        latches = {names.latch_channel(info.name) for info in page if info.kind == "semaphore"}
        channels |= {
            names.latch_channel(info.name): info.name for info in page if info.kind == "semaphore"
        }
        if not channels or self._options.pubsub == "off":
            return {}, set()
        asking = "SHARDNUMSUB" if self._sharded else "NUMSUB"
        # Plain channels of a cluster are counted by each node for its own clients.
        asked = [node] if self._sharded or len(self._nodes) == 1 else self._nodes
        counts: dict[str, int] = {}
        found: set[str] = set()
        for each in asked:
            [reply] = self._ask(each, [("PUBSUB", asking, *channels)])
            if isinstance(reply, ReplyError):
                self.forbidden_counts += 1
                return None
            flat = cast("list[Any]", reply)
            for channel, count in zip(map(_text, flat[::2]), map(int, flat[1::2]), strict=True):
                key = channels.get(channel, "")
                counts[key] = counts.get(key, 0) + count
                if count and channel in latches:
                    found.add(key)
        return counts, found

    # What cards tell.

    def _read_all(self, only: str | None) -> _Told:
        """Return what all cards tell together, of the key *only* if that is given."""
        told, left = _Told(), REMEMBERED
        for card in self._busy_cards(permits=True):
            for (holder, key), entry in card.holds.items():
                if ":" in holder or only not in (None, key):
                    continue
                for start in range(0, len(holder), PERMIT):
                    if left:
                        left -= 1
                        permit = holder[start : start + PERMIT]
                        told.permits[permit, key] = card.client, entry
            for entry in card.waits.values():
                if only not in (None, entry.key) or (not left and entry.key not in told.crowds):
                    continue
                crowd = told.crowds.setdefault(entry.key, _Crowd())
                crowd.count += 1
                if left and len(crowd.waiters) < (LIMIT if only is None else ALL):
                    left -= 1
                    crowd.waiters.append(_waiter(entry, card.client))
        return told

    def _complete(
        self, holder: HolderInfo, kind: str, key: str, told: dict[str, cards.Card]
    ) -> None:
        """Set what cards tell of *holder*."""
        if kind == "leased_semaphore":
            found = None if self._told is None else self._told.permits.get((holder.holder, key))
            if found is not None:
                _set_entry(holder, *found)
            return
        card = told.get(holder.client.client_id)
        if card is not None:
            entry = card.holds.get((holder.holder.removesuffix(":write"), key))
            _set_entry(holder, card.client, entry)

    def _cards(self, wanted: Iterable[tuple[str, str, str, str]]) -> dict[str, cards.Card]:
        """Return the cards of clients, with the *wanted* entries (client id, holder, mark, key)."""
        entries: dict[str, list[tuple[str, str, str]]] = {}
        for client_id, holder, mark, key in wanted:
            if client_id:
                entries.setdefault(client_id, []).append((mark, holder, key))
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in entries:
            node = self._owner(cards.card_key(client_id))
            by_node.setdefault(node, []).append(client_id)
        found: dict[str, cards.Card] = {}
        for node, clients in by_node.items():
            calls: list[Call] = []
            for each in clients:
                fields = cards.fields_for(entries[each])
                calls.append((cards.card_key(each), (len(fields), *fields)))
            for card in self._read_cards(node, calls):
                found[card.client.client_id] = card
        return found

    def _kept_cards(self, infos: Iterable[LockInfo]) -> dict[str, cards.Card]:
        """Return the whole cards of the clients of *infos*; most come again with the next page."""
        wanted = {each.client.client_id for info in infos for each in info.holders}
        wanted |= {each.client.client_id for info in infos for each in info.waiters}
        wanted.discard("")
        by_node: dict[Endpoint, list[Call]] = {}
        for client_id in wanted - self._kept.keys():
            key = cards.card_key(client_id)
            by_node.setdefault(self._owner(key), []).append((key, (0,)))
            self._kept[client_id] = None
        for node, calls in by_node.items():
            for card in self._read_cards(node, calls):
                self._kept[card.client.client_id] = card
                self._kept_entries += len(card.holds) + len(card.waits)
        kept = {each: told for each in wanted if (told := self._kept[each]) is not None}
        if self._kept_entries + len(self._kept) > KEPT:
            self._kept, self._kept_entries = {}, 0
        return kept

    def _note_card(self, key: str, reply: object) -> None:
        """Count a card that may not be read."""
        if _code(reply) == "NOPERM" and len(self._unread) < REMEMBERED:
            self._unread.add(key)

    def _read_cards(self, node: Endpoint, calls: Sequence[Call]) -> Iterator[cards.Card]:
        """Yield the cards that there are."""
        while calls:
            again: list[Call] = []
            replies = self._run(node, CARD_READ, cards.LONGEST_VALUE, calls)
            for call, reply in zip(calls, replies, strict=True):
                self._note_card(call[0], reply)
                if reply == 1:
                    again.append(call)
                elif not isinstance(reply, ReplyError):
                    client_id = call[0].removeprefix(_CARD_BEGIN).removesuffix(_CARD_END)
                    card = cards.read_card(client_id, reply)
                    if card is not None:
                        yield card
            calls = again


def _info(key: str, reply: list[Any]) -> LockInfo:
    """Return the lock that `lock_info` told of."""
    told, left, count, holders, waiters, length, token, free = reply
    numbers = [count, length, *(each for each in (token, free) if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    kind, mode, name = told.decode(), "", key
    if key.startswith(_ELECTION):
        kind, name = "election", _of_election(key)
    elif kind in ("read", "write"):
        kind, mode = "read_write_lock", kind
    elif kind == "group":
        kind = "group_lock"
    elif kind == "leased":
        kind, name = "leased_semaphore", _of_leases(key)
    elif kind == "number":
        kind = "semaphore"
    elif length:
        kind = "fair_lock"
    elif token is not None:
        kind = "fenced_lock"
    return LockInfo(
        name=name,
        kind=kind,
        mode=mode,
        holders=tuple([_holder(holders[i : i + 3], kind, mode) for i in range(0, len(holders), 3)]),
        holder_count=count,
        remaining=_seconds(left),
        waiters=tuple(
            [
                WaiterInfo(
                    _text(waiters[i]),
                    _client(_text(waiters[i]).partition(":")[0]),
                    remaining=_seconds(waiters[i + 1]),
                )
                for i in range(0, len(waiters), 2)
            ]
        ),
        waiting=length,
        free=free,
        token=token,
    )


def _holder(part: Sequence[Any], kind: str, mode: str) -> HolderInfo:
    name, depth, left = part
    if kind == "leased_semaphore":
        return HolderInfo(name.hex(), ClientInfo(""), remaining=_seconds(left))
    holder = _text(name)
    if mode:
        mode = "write" if holder.endswith(":write") else "read"
    return HolderInfo(holder, _client(holder.partition(":")[0]), mode, int(depth), _seconds(left))


@lru_cache(maxsize=1024)
def _client(client_id: str) -> ClientInfo:
    return ClientInfo(client_id)


def _set_entry(holder: HolderInfo, client: ClientInfo, entry: cards.Entry | None) -> None:
    """Set what a card tells of *holder*, which nobody else has seen yet.

    There may be very many holders, and a second frozen object costs many times as much.
    """
    _set(holder, "client", client)
    if entry is not None:
        _set(holder, "held_for", entry.age)
        _set(holder, "lease", entry.lease)
        _set(holder, "renewed", entry.renewed)
        _set(holder, "thread", entry.thread)
        _set(holder, "owner", entry.owner)
        if entry.trace_id:
            _set(holder, "trace_id", entry.trace_id)


def _waiter(entry: cards.Entry, client: ClientInfo) -> WaiterInfo:
    return WaiterInfo(entry.holder, client, entry.age, thread=entry.thread, owner=entry.owner)


def _waiter_with_card(waiter: WaiterInfo, key: str, told: dict[str, cards.Card]) -> WaiterInfo:
    card = told.get(waiter.client.client_id)
    if card is None:
        return waiter
    entry = card.waits.get((waiter.holder, key))
    if entry is None:
        return replace(waiter, client=card.client)
    return WaiterInfo(
        waiter.holder, card.client, entry.age, waiter.remaining, entry.thread, entry.owner
    )


def _place(each: HolderInfo | WaiterInfo) -> tuple[str, str]:
    """Return the client and the holder, as a card names them."""
    return each.client.client_id, each.holder.removesuffix(":write")


def _waited(waiter: WaiterInfo) -> float:
    return waiter.waited or 0.0


def _key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return names.election_key(info.name) if info.kind == "election" else info.name


def _may_be(info: LockInfo, wanted: frozenset[str]) -> bool:
    """Return whether *info* may be of a kind that is *wanted*; none means all."""
    return (
        not wanted or info.kind in wanted or (info.kind == "semaphore" and bool(wanted & _NUMBERS))
    )


def _numbers(page: Iterable[LockInfo], wanted: frozenset[str]) -> Iterator[LockInfo]:
    """Yield the *wanted* ones of *page*; a number that nobody awaits may be of either kind."""
    for info in page:
        unknown = info.kind == "semaphore" and not info.waiting
        if info.kind in wanted:
            yield info
        elif unknown:
            yield replace(info, kind="count_down_latch")


def _channel(info: LockInfo) -> str:
    if info.kind == "election":
        return names.election_channel(info.name)
    if info.kind == "read_write_lock":
        return names.read_write_channel(info.name)
    if info.kind in ("leased_semaphore", "semaphore"):
        return names.semaphore_channel(info.name)
    return names.lock_channel(info.name)


def _of_election(key: str) -> str:
    """Return the name of the election whose leader is in *key*."""
    name = key.removeprefix(_ELECTION)
    return name[1:-1] if name.startswith("{") and "{" not in name[1:] else name


def _of_leases(key: str) -> str:
    """Return the name of the leased semaphore whose leases are in *key*."""
    name = key.removesuffix(_LEASES)
    inner = name[1:-1]
    braced = name.startswith("{") and name.endswith("}") and "{" not in inner
    return inner if braced else name


def _seconds(left: object) -> float | None:
    return cast("int", left) / 1000 if cast("int", left) >= 0 else None


def _text(value: object) -> str:
    return cast("bytes", value).decode("utf-8", "replace")


def _is_text(key: bytes) -> bool:
    """Return whether *key* can be the name of a lock, which is UTF-8."""
    with suppress(UnicodeDecodeError):
        return bool(key.decode())
    return False


def _code(reply: object) -> str:
    return str(reply).partition(" ")[0] if isinstance(reply, ReplyError) else ""


def glob(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches *pattern*, exactly as Redis matches keys.

    Redis compares bytes: ``?`` is one byte of UTF-8.

    Source:
        stringmatchlen in util.c of Redis 8.
    """
    text, place = pattern.encode(), 0
    parts: list[bytes] = []
    while place < len(text):
        each = text[place : place + 1]
        if each == b"*":
            parts.append(b"" if parts[-1:] == [b".*"] else b".*")
        elif each == b"?":
            parts.append(b".")
        elif each == b"[":
            place, part = _class_of(text, place + 1)
            parts.append(part)
        else:
            if each == b"\\" and place + 1 < len(text):
                place += 1
            parts.append(re.escape(text[place : place + 1]))
        place += 1
    matches = re.compile(b"".join(parts), re.DOTALL).fullmatch
    return lambda name: matches(name.encode()) is not None


def _class_of(text: bytes, place: int) -> tuple[int, bytes]:
    """Return where the class that begins at *place* ends, and a regular expression for it.

    One that is not closed ends with the pattern.
    """
    negated = text[place : place + 1] == b"^"
    place += negated
    found: set[int] = set()
    while place < len(text) and text[place] != ord("]"):
        if text[place] == ord("\\") and place + 1 < len(text):
            place += 1
            found.add(text[place])
        elif text[place + 1 : place + 2] == b"-" and place + 2 < len(text):
            first, last = sorted((text[place], text[place + 2]))
            found.update(range(first, last + 1))
            place += 2
        else:
            found.add(text[place])
        place += 1
    if not found:
        return place, b"." if negated else b"(?!)"
    inside = b"".join(b"\\x%02x" % byte for byte in sorted(found))
    return place, (b"[^%s]" if negated else b"[%s]") % inside
