"""Read the cards of clients from the servers, and set what they tell of holders and waiters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from interlock._core.insight.card import CARD, INDEX
from interlock._core.insight.connection_name import client_in_names, client_part
from interlock._core.kinds import KINDS
from interlock._core.model.foreign_text import safe
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection import cards
from interlock.inspection.info import ClientInfo, HolderInfo, WaiterInfo
from interlock.inspection.search import scan
from interlock.inspection.server_facts import read_facts
from interlock.inspection.service import code_of, load, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import LockInfo
    from interlock.inspection.server_facts import ServerFacts
    from interlock.inspection.service import Call, Service

STEP = 500
"""Keys that one SCAN looks at."""
LIMIT = 64
"""Holders and waiters that are told of one lock in a list."""
ALL = 1000
"""Holders and waiters that are told of one lock by itself."""
REMEMBERED = 100_000
"""Names that are remembered, to tell each only once."""
FRESH = 2.0
"""Seconds for which a card proves that its client is alive."""
KEPT = 200_000
"""Entries of cards that are kept for the next pages, about 250 bytes each."""
BACK_WITHIN = 60
"""Seconds after the start of a server in which its clients connect again."""
LONGEST_ID = 100
"""Bytes of the id of a client."""
PERMIT = 32
"""Characters of the id of a permit."""
_CARD_BEGIN, _CARD_END = CARD.format("\n").split("\n")
CARD_READ = load("card_read")
CARD_BUSY = load("card_busy")
WAITS, PERMITS, _ENDS = 1, 2, 4
_set = object.__setattr__


@dataclass(slots=True)
class Crowd:
    """Who waits for one key without a queue.

    Attributes:
        count: how many.
        waiters: the first of them that were found.
    """

    count: int = 0
    waiters: list[WaiterInfo] = field(default_factory=list[WaiterInfo])

    def without(self, holders: Iterable[HolderInfo]) -> Crowd:
        """Return the same without those who hold it by now: their cards tell it later."""
        ids = {each.holder.removesuffix(":write") for each in holders}
        waiters = [each for each in self.waiters if each.holder not in ids]
        return Crowd(self.count - len(self.waiters) + len(waiters), waiters)

    def beside(self, queue: Iterable[WaiterInfo]) -> Crowd:
        """Return the same with those of *queue* whose client has none in it.

        They are counted only if cards tell of others: each may stand for several threads.
        """
        clients = {each.client.client_id for each in self.waiters}
        others = [each for each in queue if each.client.client_id not in clients]
        count = self.count + len(others) if self.count else 0
        return Crowd(count, [*self.waiters, *others])


NOBODY = Crowd()


@dataclass(slots=True)
class Told:
    """What only a look at all cards tells.

    Attributes:
        crowds: who waits, by key.
        permits: who holds a permit, by its id and the semaphore's key.
    """

    crowds: dict[str, Crowd] = field(default_factory=dict[str, Crowd])
    permits: dict[tuple[str, str], tuple[ClientInfo, cards.Entry]] = field(
        default_factory=dict[tuple[str, str], "tuple[ClientInfo, cards.Entry]"]
    )


class CardReader:
    """Reads cards.

    Args:
        service: where to ask.

    Attributes:
        unread: the keys of cards that the user has no right to read; empty: to find them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: Told | None = None
        self._kept: dict[str, cards.Card | None] = {}
        self._kept_entries = 0
        self._connected: frozenset[str] | None = None
        self._closely = False
        self._facts: ServerFacts | None = None
        self.unread: set[str] = set()

    def forget(self, *, closely: bool = False) -> None:
        """Read everything again from now on.

        *closely*: look for the connection of each client whose card is not fresh.
        """
        self._told, self._kept, self._kept_entries = None, {}, 0
        self._connected, self._facts, self._closely = None, None, closely

    def busy(self, wanted: int) -> Iterator[cards.Card]:
        """Yield the cards of clients that wait, hold permits, or tell ends, as *wanted* says."""
        self._service.find_nodes()
        for node, keys in self._card_keys():
            # There may be very many. Most are not needed, and the server tells which ones are.
            calls: list[Call] = [((key,), ()) for key in keys]
            replies = self._service.run(node, CARD_BUSY, cards.LONGEST_VALUE, calls)
            whole: list[Call] = []
            for key, reply in zip(keys, replies, strict=True):
                self._note_card(key, reply)
                if isinstance(reply, int) and reply & wanted:
                    whole.append(((key,), (0,)))
            yield from self.read(node, whole)

    def _card_keys(self) -> Iterator[tuple[Endpoint, list[str]]]:
        """Yield the keys of all cards, some at a time, with the server that has them."""
        if not isinstance(self._service.servers, Cluster):
            node, cursor = self._service.nodes[0], "0"
            while True:
                [reply] = self._service.ask(node, [("ZSCAN", INDEX, cursor, "COUNT", STEP)])
                if isinstance(reply, ReplyError):
                    break  # without the right, or with something else there: the scan finds them
                told, flat = cast("tuple[bytes, list[bytes]]", reply)
                cursor = told.decode()
                ids = [text_of(each) for each in flat[::2] if len(each) <= LONGEST_ID]
                yield node, [cards.card_key(each) for each in ids]
                if cursor == "0":
                    return
        for node in self._service.nodes:
            try:
                for keys in scan(self._service, node, "hash", f"{_CARD_BEGIN}*{_CARD_END}", STEP):
                    yield node, keys
            except ServerUnavailableError as error:
                if error.code != "NOPERM":
                    raise
                self.unread.add("")

    def read_all(self, only: str | None) -> None:
        """Note what all cards tell together, of the key *only* if that is given; only once."""
        if self._told is not None:
            return
        told, left = Told(), REMEMBERED
        for card in self.busy(WAITS | PERMITS):
            for (holder, key), entry in card.holds.items():
                if ":" in holder or only not in (None, key):
                    continue
                for start in range(0, len(holder), PERMIT):
                    if left:
                        left -= 1
                        permit = holder[start : start + PERMIT]
                        told.permits[permit, key] = card.client, entry
            for entry in _waits(card):
                if only not in (None, entry.key) or (not left and entry.key not in told.crowds):
                    continue
                crowd = told.crowds.setdefault(entry.key, Crowd())
                crowd.count += 1
                if left and len(crowd.waiters) < (LIMIT if only is None else ALL):
                    left -= 1
                    crowd.waiters.append(_waiter(entry, card.client))
        self._told = told

    @property
    def crowds(self) -> dict[str, Crowd]:
        """Return who waits for each key without a queue, as far as `read_all` has seen."""
        return {} if self._told is None else self._told.crowds

    def complete(
        self, holder: HolderInfo, key: str, told: dict[str, cards.Card], *, permit: bool
    ) -> None:
        """Set what cards tell of *holder*, which may be a *permit*."""
        if permit:
            found = None if self._told is None else self._told.permits.get((holder.holder, key))
            if found is not None:
                _set_entry(holder, *found)
            return
        card = told.get(holder.client.client_id)
        if card is not None:
            entry = card.holds.get((holder.holder.removesuffix(":write"), key))
            _set_entry(holder, card.client, entry)

    def of(self, wanted: Iterable[tuple[str, str, str, str]]) -> dict[str, cards.Card]:
        """Return the cards of clients, with the *wanted* entries (client id, holder, mark, key)."""
        entries: dict[str, list[tuple[str, str, str]]] = {}
        for client_id, holder, mark, key in wanted:
            if client_id:
                entries.setdefault(client_id, []).append((mark, holder, key))
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in entries:
            node = self._service.owner(cards.card_key(client_id))
            by_node.setdefault(node, []).append(client_id)
        found: dict[str, cards.Card] = {}
        for node, clients in by_node.items():
            calls: list[Call] = []
            for each in clients:
                fields = cards.fields_for(entries[each])
                calls.append(((cards.card_key(each),), (len(fields), *fields)))
            for card in self.read(node, calls):
                found[card.client.client_id] = card
        return found

    def kept(self, infos: Iterable[LockInfo]) -> dict[str, cards.Card]:
        """Return the whole cards of the clients of *infos*; most come again with the next page."""
        wanted = {each.client.client_id for info in infos for each in info.holders}
        wanted |= {each.client.client_id for info in infos for each in info.waiters}
        wanted.discard("")
        by_node: dict[Endpoint, list[Call]] = {}
        for client_id in wanted - self._kept.keys():
            key = cards.card_key(client_id)
            by_node.setdefault(self._service.owner(key), []).append(((key,), (0,)))
            self._kept[client_id] = None
        for node, calls in by_node.items():
            for card in self.read(node, calls):
                self._kept[card.client.client_id] = card
                self._kept_entries += len(card.holds) + len(card.waits)
        kept = {each: told for each in wanted if (told := self._kept[each]) is not None}
        if self._kept_entries + len(self._kept) > KEPT:
            self._kept, self._kept_entries = {}, 0
        return kept

    def _note_card(self, key: str, reply: object) -> None:
        """Count a card that may not be read."""
        if code_of(reply) == "NOPERM" and len(self.unread) < REMEMBERED:
            self.unread.add(key)

    def read(self, node: Endpoint, calls: Sequence[Call]) -> Iterator[cards.Card]:
        """Yield the cards that there are."""
        while calls:
            again: list[Call] = []
            replies = self._service.run(node, CARD_READ, cards.LONGEST_VALUE, calls)
            for call, reply in zip(calls, replies, strict=True):
                self._note_card(call[0][0], reply)
                if reply == 1:
                    again.append(call)
                elif not isinstance(reply, ReplyError):
                    client_id = call[0][0].removeprefix(_CARD_BEGIN).removesuffix(_CARD_END)
                    card = cards.read_card(safe(client_id), reply)
                    if card is not None:
                        yield self._with_connection(card)
            calls = again

    def _with_connection(self, card: cards.Card) -> cards.Card:
        """Return *card*; if its client is late, with whether the server has a connection of it."""
        client = card.client
        doubtful = self._closely and client.answering and (client.silent or 0) > FRESH
        if not client.named or not (doubtful or client.answering is False):
            return card
        if self._connected is None:
            self._connected = self._connected_clients()
        if self._connected is None:
            return card
        connected = client_part(client.client_id) in self._connected
        if not connected and self._may_come_back(client.silent or 0):
            return card
        return replace(card, client=replace(client, connected=connected))

    def _may_come_back(self, silent: float) -> bool:
        """Return whether a client lost its connection by a start of a server just now.

        It has been silent since before that start, and may not have connected again.
        """
        if self._facts is None:
            self._facts = read_facts(self._service)
        uptime = self._facts.uptime
        return uptime is not None and uptime < min(BACK_WITHIN, silent)

    def _connected_clients(self) -> frozenset[str] | None:
        """Return the clients that have a connection with a name; None if the server refuses.

        Cost:
            A round trip for each primary; the reply has about 350 bytes for each connection.
        """
        found: set[str] = set()
        for node in self._service.nodes:
            [reply] = self._service.ask(node, [("CLIENT", "LIST", "TYPE", "NORMAL")])
            if isinstance(reply, ReplyError):
                return None
            found |= client_in_names(cast("bytes", reply))
        return frozenset(found)

    def ends(self, name: str) -> Iterator[tuple[str, cards.Card, cards.End]]:
        """Yield how holds of *name* ended, with the holder, as cards tell it for a minute."""
        keys = {kind.key(name) for kind in KINDS.values()}
        for card in self.busy(_ENDS):
            for (holder, of), end in card.ends.items():
                if of in keys:
                    yield holder, card, end


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


def _waits(card: cards.Card) -> Iterator[cards.Entry]:
    """Yield what threads and tasks wait for; nothing of a client that is dead or gone."""
    if not card.client.dead and card.client.connected is not False:
        yield from card.waits.values()
        yield from card.wishes.values()


def _waiter(entry: cards.Entry, client: ClientInfo) -> WaiterInfo:
    return WaiterInfo(
        entry.holder,
        client,
        entry.age,
        thread=entry.thread,
        owner=entry.owner,
        deadlock=entry.deadlock,
    )


def waiter_with_card(waiter: WaiterInfo, key: str, told: dict[str, cards.Card]) -> WaiterInfo:
    """Return *waiter* for *key* with what its card tells."""
    card = told.get(waiter.client.client_id)
    if card is None:
        return waiter
    entry = card.waits.get((waiter.holder, key))
    if entry is None:
        return replace(waiter, client=card.client)
    return WaiterInfo(
        waiter.holder,
        card.client,
        entry.age,
        waiter.remaining,
        entry.thread,
        entry.owner,
        entry.deadlock,
    )


def place_of(each: HolderInfo | WaiterInfo) -> tuple[str, str]:
    """Return the client and the holder, as a card names them."""
    return each.client.client_id, each.holder.removesuffix(":write")


def waited(waiter: WaiterInfo) -> float:
    """Return the seconds of a wait; 0 where no card tells."""
    return waiter.waited or 0.0
