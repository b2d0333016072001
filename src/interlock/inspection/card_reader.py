"""Read the cards of clients from the servers, and set what they tell of holders and waiters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from interlock._core.insight.card import CARD, INDEX
from interlock._core.insight.connection_name import client_in_names, client_part
from interlock._core.model.foreign_text import safe
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection import cards
from interlock.inspection.deadlocks import WaitGraph
from interlock.inspection.info import ClientInfo, HolderInfo, WaiterInfo
from interlock.inspection.search import scan
from interlock.inspection.service import load, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlock._links.endpoint import Endpoint
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
Connections: TypeAlias = "tuple[frozenset[str] | None, int | None]"
"""The clients that have a connection, if the server says so, and the server's uptime."""
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

    def by_wait(self) -> list[WaiterInfo]:
        """Return the waiters, the one who has waited for longest first."""
        return sorted(self.waiters, key=lambda each: each.waited or 0.0, reverse=True)


NOBODY = Crowd()


@dataclass(slots=True)
class Told:
    """What only a look at all cards tells.

    Attributes:
        crowds: who waits, by key.
        permits: who holds a permit, by its id and the semaphore's key.
        graph: who holds something and waits.
    """

    crowds: dict[str, Crowd] = field(default_factory=dict[str, Crowd])
    permits: dict[tuple[str, str], tuple[ClientInfo, cards.Entry]] = field(
        default_factory=dict[tuple[str, str], "tuple[ClientInfo, cards.Entry]"]
    )
    graph: WaitGraph = field(default_factory=WaitGraph)


class CardReader:
    """Reads cards.

    Args:
        service: where to ask.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.forget()

    def forget(self, *, closely: bool = False) -> None:
        """Read everything again from now on.

        *closely*: look for the connection of each client whose card is not fresh.
        """
        self._told: Told | None = None
        self._kept: dict[str, cards.Card | None] = {}
        self._kept_entries = 0
        self._connections: Connections | None = None
        self._closely = closely

    def of(self, clients: set[str]) -> dict[str, cards.Card]:
        """Return the cards of *clients*; most are asked for again with the next page."""
        if self._kept_entries + len(self._kept) > KEPT:
            self._kept, self._kept_entries = {}, 0
        by_node: dict[Endpoint, list[str]] = {}
        for client_id in clients - self._kept.keys():
            self._kept[client_id] = None
            key = cards.card_key(client_id)
            by_node.setdefault(self._service.owner(key), []).append(key)
        for node, keys in by_node.items():
            for card in self._read(node, keys, whole=1):
                self._kept[card.client.client_id] = card
                self._kept_entries += len(card.holds) + len(card.waits)
        return {each: found for each in clients if (found := self._kept.get(each)) is not None}

    def read_all(self, only: str | None) -> Told:
        """Return what all cards tell together, of the key *only* if that is given; read it once."""
        if self._told is not None:
            return self._told
        told, left = Told(), REMEMBERED
        for card in self._all():
            told.graph.add(card)
            for (holder, key), entry in card.holds.items():
                if ":" in holder or only not in (None, key):
                    continue
                permits = [holder[at : at + PERMIT] for at in range(0, len(holder), PERMIT)]
                for permit in permits[:left]:
                    told.permits[permit, key] = card.client, entry
                left -= len(permits[:left])
            for entry in _waits(card):
                if only not in (None, entry.key) or (not left and entry.key not in told.crowds):
                    continue
                crowd = told.crowds.setdefault(entry.key, Crowd())
                crowd.count += 1
                if left and len(crowd.waiters) < (LIMIT if only is None else ALL):
                    left -= 1
                    crowd.waiters.append(_waiter(entry, card.client))
        self._told = told
        return told

    def ends(self, keys: set[str]) -> Iterator[tuple[str, ClientInfo, cards.End]]:
        """Yield how holds of *keys* ended, with the holder, as cards tell it for a minute."""
        for card in self._all(ended=True):
            for (holder, key), end in card.ends.items():
                if key in keys:
                    yield holder, card.client, end

    def _all(self, *, ended: bool = False) -> Iterator[cards.Card]:
        """Yield the cards of clients that wait or hold permits, or else that tell of ends."""
        self._service.find_nodes()
        for node, keys in self._keys():
            # There may be very many. Most are not needed, and what they say of the client tells it.
            heads = self._read(node, keys, whole=0)
            wanted = [
                cards.card_key(head.client.client_id)
                for head in heads
                if (head.ended if ended else head.client.waits or head.permits)
            ]
            yield from self._read(node, wanted, whole=1)

    def _keys(self) -> Iterator[tuple[Endpoint, list[str]]]:
        """Yield the keys of all cards, some at a time, with the server that has them."""
        if isinstance(self._service.servers, Cluster):
            for node in self._service.nodes:
                for keys in scan(self._service, node, "hash", f"{_CARD_BEGIN}*{_CARD_END}", STEP):
                    yield node, keys
            return
        [node], cursor = self._service.nodes, ""
        while cursor != "0":
            [reply] = self._service.ask(node, [("ZSCAN", INDEX, cursor or "0", "COUNT", STEP)])
            if isinstance(reply, ReplyError):
                raise ServerUnavailableError(f"{node.where} refused {INDEX}: {reply}")
            told, flat = cast("tuple[bytes, list[bytes]]", reply)
            cursor = told.decode()
            ids = [text_of(each) for each in flat[::2] if len(each) <= LONGEST_ID]
            yield node, [cards.card_key(each) for each in ids]

    def _read(self, node: Endpoint, keys: list[str], *, whole: int) -> Iterator[cards.Card]:
        """Yield the cards that there are."""
        while keys:
            again: list[str] = []
            calls: list[Call] = [((key,), (whole,)) for key in keys]
            replies = self._service.run(node, CARD_READ, cards.LONGEST_VALUE, calls)
            for key, reply in zip(keys, replies, strict=True):
                if reply == 1:
                    again.append(key)
                elif not isinstance(reply, ReplyError):
                    client_id = safe(key.removeprefix(_CARD_BEGIN).removesuffix(_CARD_END))
                    card = cards.read_card(client_id, reply)
                    if card is not None:
                        yield self._with_connection(card)
            keys = again

    def _with_connection(self, card: cards.Card) -> cards.Card:
        """Return *card*; if its client is late, with whether the server has a connection of it."""
        client = card.client
        doubtful = self._closely and client.answering and (client.silent or 0) > FRESH
        if not client.named or not (doubtful or client.answering is False):
            return card
        if self._connections is None:
            self._connections = self._read_connections()
        clients, uptime = self._connections
        if clients is None:
            return card
        connected = client_part(client.client_id) in clients
        # A client that was silent before the server started may not have connected again.
        if not connected and uptime is not None and uptime < min(BACK_WITHIN, client.silent or 0):
            return card
        return replace(card, client=replace(client, connected=connected))

    def _read_connections(self) -> Connections:
        """Return which clients have a connection with a name, and the uptime.

        Cost:
            Two round trips for each primary; one reply has about 350 bytes for each connection.
        """
        found: set[str] = set()
        for node in self._service.nodes:
            # Some services permit this to nobody.
            command = ("CLIENT", "LIST", "TYPE", "NORMAL")
            [reply] = self._service.ask(node, [command], may_lack=True)
            if isinstance(reply, ReplyError):
                return None, None
            found |= client_in_names(cast("bytes", reply))
        return frozenset(found), self._service.uptime()


def complete(
    holder: HolderInfo,
    key: str,
    cards_of: dict[str, cards.Card],
    told: Told | None,
    *,
    permit: bool,
) -> None:
    """Set what cards tell of *holder*, which may be a *permit* and which nobody else has seen yet.

    There may be very many holders, and a second frozen object costs many times as much.
    """
    entry: cards.Entry | None = None
    if permit:
        found = None if told is None else told.permits.get((holder.holder, key))
        if found is None:
            return
        client, entry = found
    elif (card := cards_of.get(holder.client.client_id)) is not None:
        client = card.client
        entry = card.holds.get((holder.holder.removesuffix(":write"), key))
    else:
        return
    _set(holder, "client", client)
    if entry is not None:
        _set(holder, "held_for", entry.age)
        for name in ("lease", "renewed", "thread", "owner", "trace_id"):
            _set(holder, name, getattr(entry, name))


def waiter_with_card(waiter: WaiterInfo, key: str, told: dict[str, cards.Card]) -> WaiterInfo:
    """Return *waiter* for *key* with what its card tells."""
    card = told.get(waiter.client.client_id)
    if card is None:
        return waiter
    entry = card.waits.get((waiter.holder, key))
    if entry is None:
        return replace(waiter, client=card.client)
    return replace(_waiter(entry, card.client), remaining=waiter.remaining)


def _waiter(entry: cards.Entry, client: ClientInfo) -> WaiterInfo:
    return WaiterInfo(entry.holder, client, entry.age, thread=entry.thread, owner=entry.owner)


def _waits(card: cards.Card) -> Iterator[cards.Entry]:
    """Yield what threads and tasks wait for; nothing of a client that is dead or gone."""
    if not card.client.dead and card.client.connected is not False:
        yield from card.waits.values()
        yield from card.wishes.values()
