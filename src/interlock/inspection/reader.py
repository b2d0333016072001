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
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from interlock._core import names
from interlock._core.card import CARD
from interlock._core.effects import Script
from interlock._links.cluster import Cluster
from interlock._links.connection import Connection
from interlock._links.resp import ReplyError, pack
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.inspection import cards
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

STEP = 500
"""Keys that one SCAN looks at."""
LIMIT = 64
"""Holders and waiters that are told of one lock in a list."""
ALL = 1000
"""Holders and waiters that are told of one lock by itself."""
REMEMBERED = 100_000
"""Names that are remembered, to tell each only once."""
MOST_CLIENTS = 2000
"""Connections that CLIENT LIST is asked for; the server does nothing else while it answers."""

_LUA = resources.files("interlock.inspection").joinpath("lua")
_PASSED_OVER = {"NOPERM", "MOVED", "ASK", "TRYAGAIN", "WRONGTYPE"}
_OURS = ("redisson_", "interlock_")
_ENTRY = ":rwlock_timeout:"
_LEASES = ":timeout"


def _load(stem: str) -> Script[object]:
    text = _LUA.joinpath(f"{stem}.lua").read_text(encoding="utf-8")
    return Script(stem, text, lambda reply: reply)


LOCK_INFO = _load("lock_info")
CARD_READ = _load("card_read")

KINDS = (
    "lock",
    "fair_lock",
    "fenced_lock",
    "read_write_lock",
    "group_lock",
    "leased_semaphore",
    "semaphore",
    "count_down_latch",
)
"""What `LockInfo.kind` may be."""


class Reader:
    """Reads the locks of one server or cluster; close it, or use it in a ``with`` statement.

    Args:
        servers: one server, what finds it, or a cluster.
        options: the client's.

    Attributes:
        forbidden: how many keys the user has no right to read.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self._servers = servers
        self._options = options
        self._timeout = servers.command_timeout or options.command_timeout
        self._nodes: Sequence[Endpoint] = ()
        self._connections: dict[Endpoint, Connection] = {}
        self._lists_clients: bool | None = None
        self.forbidden = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        while self._connections:
            self._connections.popitem()[1].close()

    def pages(
        self, pattern: str = "*", kinds: Iterable[str] = (), *, step: int = STEP
    ) -> Iterator[list[LockInfo]]:
        """Yield the locks whose keys match *pattern*, some at a time.

        A semaphore and a latch look like any other number. So without *kinds* only those are told
        that a client waits for.

        Args:
            pattern: as of the command KEYS.
            kinds: of `KINDS`; none for all.
            step: keys that the server looks at for each page.

        Raises:
            ConfigError: a kind that does not exist.
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            Four round trips for each *step* keys of hashes, two for others.
        """
        wanted = frozenset(kinds)
        if unknown := sorted(wanted - set(KINDS)):
            raise ConfigError(f"wanted kinds of {', '.join(KINDS)}, found {unknown[0]!r}")
        self._find_nodes()
        seen: set[int] = set()
        for node in self._nodes:
            for keys in self._scans(node, pattern, wanted, step):
                page = [
                    info
                    for info in self._look(node, keys, LIMIT)
                    if (not wanted or info.kind in wanted) and hash(info.name) not in seen
                ]
                if page:
                    if len(seen) > REMEMBERED:
                        seen.clear()
                    seen.update(hash(info.name) for info in page)
                    yield self._finish(node, page)

    def describe(self, key: str) -> LockInfo | None:
        """Return everything that is known about the lock *key*; None if nobody holds or awaits it.

        Raises:
            ServerUnavailableError: a server cannot be reached, or did not answer.

        Cost:
            About six round trips, and one for each hundred cards.
        """
        self._find_nodes()
        node = self._owner(key)
        # The number of a leased semaphore looks like that of a plain one.
        permits = self._look(node, [names.permit_leases(key)], ALL)
        # The queue of a fair lock may be found under that name too.
        found = [info for info in permits if info.kind == "leased_semaphore"]
        found = found or self._look(node, [key], ALL)
        if not found:
            return None
        return self._finish(node, found[:1])[0]

    def card(self, client_id: str) -> cards.Card | None:
        """Return the whole card of a client; None if there is none, or if it may not be read."""
        self._find_nodes()
        key = cards.card_key(client_id)
        [reply] = self._run(self._owner(key), CARD_READ, [(key, cards.LONGEST_VALUE)])
        return None if isinstance(reply, ReplyError) else cards.read_card(client_id, reply)

    def holders(self, key: str) -> tuple[str, ...]:
        """Return the holder ids of the lock *key*."""
        self._find_nodes()
        found = self._look(self._owner(key), [key], ALL)
        return tuple(holder.holder for info in found for holder in info.holders)

    def waiting_cards(self) -> Iterator[cards.Card]:
        """Yield the cards of all clients with a thread or task that waits."""
        self._find_nodes()
        begin, end = CARD.split("{{{}}}")
        for node in self._nodes:
            for keys in self._scan(node, "hash", f"{begin}{{*}}{end}", STEP):
                calls = [(key, cards.LONGEST_VALUE, "written", "client") for key in keys]
                for key, reply in zip(keys, self._run(node, CARD_READ, calls), strict=True):
                    client_id = key.removeprefix(begin).strip("{}")
                    if isinstance(reply, ReplyError):
                        continue
                    short = cards.read_card(client_id, reply)
                    if short is not None and short.client.waits:
                        whole = self.card(client_id)
                        if whole is not None:
                            yield whole

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
        self, node: Endpoint, script: Script[object], calls: Sequence[Sequence[str | int]]
    ) -> list[object]:
        """Return the replies of *node* to *script* with each key and arguments of *calls*."""
        replies = self._ask(node, [("EVALSHA", script.sha, 1, *call) for call in calls])
        missing = [i for i, reply in enumerate(replies) if _code(reply) == "NOSCRIPT"]
        if missing:
            # The text goes with the first one; the server knows it by its digest from then on.
            commands = [
                ("EVAL", script.text, 1, *calls[i])
                if n == 0
                else ("EVALSHA", script.sha, 1, *calls[i])
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
    ) -> Iterator[list[str]]:
        if not kinds or kinds & set(KINDS[:5]):
            for keys in self._scan(node, "hash", pattern, step):
                yield [key for key in keys if not key.startswith(_OURS)]
        if not kinds or "leased_semaphore" in kinds:
            matches = glob(pattern)
            for keys in self._scan(node, "zset", f"*{_LEASES}", step):
                yield [key for key in keys if matches(_of_leases(key))]
        if kinds & {"semaphore", "count_down_latch"}:
            for keys in self._scan(node, "string", pattern, step):
                yield [key for key in keys if _ENTRY not in key and not key.startswith(_OURS)]
        elif not kinds:
            yield self._waited_numbers(node, pattern)

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
        commands = [("PUBSUB", asking, f"{begin.rstrip('{}')}*") for begin in (first, second)]
        matches, found = glob(pattern), dict[str, None]()
        for reply in self._ask(node, commands):
            for channel in () if isinstance(reply, ReplyError) else cast("list[bytes]", reply):
                _, _, rest = _text(channel).partition(":")
                name = rest.removeprefix("_channel__")
                inner = name[1:-1] if name.startswith("{") and name.endswith("}") else name
                if matches(inner):
                    found[inner] = None
        if isinstance(self._servers, Cluster):
            return [key for key in found if self._servers.owner(key) is node]
        return list(found)

    # What they are.

    def _look(self, node: Endpoint, keys: Sequence[str], limit: int) -> list[LockInfo]:
        """Return those of *keys* that are locks, without what cards tell."""
        if not keys:
            return []
        calls: list[Sequence[str | int]] = []
        for key in keys:
            name = _of_leases(key) if key.endswith(_LEASES) else key
            calls.append(
                (
                    key,
                    limit,
                    names.fair_queue(name),
                    names.fair_timeouts(name),
                    names.read_entries(name),
                    names.fence_token(name),
                    name,
                )
            )
        found: list[LockInfo] = []
        for key, reply in zip(keys, self._run(node, LOCK_INFO, calls), strict=True):
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

    def _finish(self, node: Endpoint, page: list[LockInfo]) -> list[LockInfo]:
        """Return *page* with how many wait, and with what cards tell of the holders."""
        waiting = self._listening(node, page)
        wanted: list[tuple[str, str, str]] = []
        for info in page:
            parts: tuple[HolderInfo | WaiterInfo, ...] = (*info.holders, *info.waiters)
            wanted += (
                (each.client.client_id, each.holder.removesuffix(":write"), info.name)
                for each in parts
            )
        told = self._cards(wanted)
        return [
            replace(
                info,
                holders=tuple(_with_card(each, info.name, told) for each in info.holders),
                waiters=tuple(_waiter_with_card(each, told) for each in info.waiters),
                waiting=max(info.waiting, waiting.get(info.name, 0)),
            )
            for info in page
        ]

    def _listening(self, node: Endpoint, page: Sequence[LockInfo]) -> dict[str, int]:
        """Return how many clients listen for a release of each lock of *page*."""
        channels = {_channel(info): info.name for info in page if info.kind != "fair_lock"}
        if not channels or self._options.pubsub == "off":
            return {}
        asking = "SHARDNUMSUB" if self._sharded else "NUMSUB"
        # Plain channels of a cluster are counted by each node for its own clients.
        asked = [node] if self._sharded or len(self._nodes) == 1 else self._nodes
        counts: dict[str, int] = {}
        for each in asked:
            [reply] = self._ask(each, [("PUBSUB", asking, *channels)])
            if isinstance(reply, ReplyError):
                return {}
            flat = cast("list[Any]", reply)
            for channel, count in zip(flat[::2], flat[1::2], strict=True):
                name = channels.get(_text(channel), "")
                counts[name] = counts.get(name, 0) + int(count)
        return counts

    # What cards tell.

    def _cards(self, wanted: Iterable[tuple[str, str, str]]) -> dict[str, cards.Card]:
        """Return the cards of clients, with the *wanted* entries (client id, holder, key)."""
        entries: dict[str, list[tuple[str, str]]] = {}
        for client_id, holder, key in wanted:
            if client_id:
                entries.setdefault(client_id, []).append((holder, key))
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in entries:
            node = self._owner(cards.card_key(client_id))
            by_node.setdefault(node, []).append(client_id)
        found: dict[str, cards.Card] = {}
        for node, clients in by_node.items():
            calls: list[Sequence[str | int]] = [
                (cards.card_key(each), cards.LONGEST_VALUE, *cards.fields_for(entries[each]))
                for each in clients
            ]
            for client_id, reply in zip(clients, self._run(node, CARD_READ, calls), strict=True):
                if isinstance(reply, ReplyError):
                    continue
                card = cards.read_card(client_id, reply)
                if card is not None:
                    found[client_id] = card
        return found


def _info(key: str, reply: list[Any]) -> LockInfo:
    """Return the lock that `lock_info` told of."""
    told, left, count, holders, waiters, length, token, free = reply
    kind, mode, name = told.decode(), "", key
    if kind in ("read", "write"):
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
        holders=tuple(_holder(holders[i : i + 3], kind, mode) for i in range(0, len(holders), 3)),
        holder_count=count,
        remaining=_seconds(left),
        waiters=tuple(
            WaiterInfo(
                _text(waiters[i]), _client(_text(waiters[i])), remaining=_seconds(waiters[i + 1])
            )
            for i in range(0, len(waiters), 2)
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
    return HolderInfo(holder, _client(holder), mode, int(depth), _seconds(left))


def _client(holder: str) -> ClientInfo:
    return ClientInfo(holder.partition(":")[0])


def _with_card(holder: HolderInfo, key: str, told: dict[str, cards.Card]) -> HolderInfo:
    card = told.get(holder.client.client_id)
    if card is None:
        return holder
    entry = card.holds.get((holder.holder.removesuffix(":write"), key))
    if entry is None:
        return replace(holder, client=card.client)
    return replace(
        holder,
        client=card.client,
        held_for=entry.age,
        lease=entry.lease,
        renewed=entry.renewed,
        thread=entry.thread,
        trace_id=entry.trace_id,
    )


def _waiter_with_card(waiter: WaiterInfo, told: dict[str, cards.Card]) -> WaiterInfo:
    card = told.get(waiter.client.client_id)
    return waiter if card is None else replace(waiter, client=card.client)


def _channel(info: LockInfo) -> str:
    if info.kind == "read_write_lock":
        return names.read_write_channel(info.name)
    if info.kind in ("leased_semaphore", "semaphore"):
        return names.semaphore_channel(info.name)
    return names.lock_channel(info.name)


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


def glob(pattern: str) -> Any:
    """Return what tells whether a name matches *pattern*, as Redis matches keys."""
    parts: list[str] = []
    tokens = re.findall(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|.", pattern, re.DOTALL)
    for part in tokens:
        if part == "*":
            parts.append(".*")
        elif part == "?":
            parts.append(".")
        elif len(part) > 1 and part[0] == "[":
            parts.append(part)
        else:
            parts.append(re.escape(part[-1]))
    with suppress(re.error):
        return re.compile("".join(parts), re.DOTALL).fullmatch
    return re.compile(re.escape(pattern)).fullmatch
