"""A cluster: its nodes, and which node serves which slot, as far as this client knows.

Theory. A wrong map costs a round trip and nothing else: the wrong node names the right one (MOVED),
and the map is corrected. So the hot path looks into a list and never asks first. The whole map is
fetched again when a node does not answer, or when it says that it does not serve the slot. A thread
of its own does that. A caller that knows which node to ask does not wait for the map.

Rules:

* There is one fetch at a time. Fetches after failures are at least `ONCE_MORE` seconds apart.
* No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step is
  one assignment or one method of a dict or list. A MOVED that comes just between two steps is
  forgotten, which costs a round trip.
* A MOVED counts at once: the node itself says so. A fetched map may be older; then it costs a round
  trip.
"""

from __future__ import annotations

import math
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

from interlock._core.scripts.source import question
from interlock._links.replies import understood
from interlock._links.shared import Shared, answer_of
from interlock._links.topology import ONCE_MORE, SLOTS, Topology, done, slot_of
from interlock.errors import ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from interlock._links.dialled import Address
    from interlock._links.endpoint import Endpoint
    from interlock._links.replies import RedirectedError
    from interlock.options import PubSub

_RANDOM = Random()  # noqa: S311 - no secret
"""Not the generator of the user, who may have seeded it."""
PAUSE_AFTER_MOVED = 1.0
"""Seconds between two fetches after MOVED: each MOVED already tells where its own slot is."""
PATIENCE = 1.0
"""Seconds that each node has to tell which node serves which slot."""


class Cluster(Topology):
    """The nodes of one cluster, as one client knows them.

    Args:
        seeds: the nodes that are known at first.
        remap: turns an address that a node tells into one that can be reached from here.
    """

    clustered = True
    rights = ("cluster|slots", "pubsub|shardnumsub", "asking")

    def __init__(
        self, seeds: Sequence[Endpoint], remap: Callable[[Address], Address] | None = None
    ) -> None:
        self._seeds = list(seeds)
        self._remap: Callable[[Address], Address] = remap or (lambda address: address)
        where = "cluster " + ",".join(sorted(seed.where for seed in seeds))
        super().__init__(where, seeds[0].db, seeds[0].command_timeout)
        self.sharded = None
        self._probe = False
        self._nodes: dict[Address, Endpoint] = {}
        self._owners: list[Endpoint | None] = [None] * SLOTS
        self._moved_at: dict[int, float] = {}
        self._fetching = Shared[None]("interlock-cluster", here=False)
        self._fetched_at = -math.inf

    def took_over(self, key: str) -> float:
        return monotonic() - self._moved_at.get(slot_of(key), -math.inf)

    @property
    def nodes(self) -> list[Endpoint]:
        return list(self._nodes.values())

    def primaries(self, timeout: float) -> Sequence[Endpoint]:
        try:
            answer_of(self.open("auto"), timeout)
        except TimeoutError as error:
            raise self.silent(timeout) from error
        return list(dict.fromkeys(owner for owner in self._owners if owner is not None))

    def owner(self, key: str) -> Endpoint | None:
        return self._owners[slot_of(key)]

    def any_owner(self) -> Endpoint:
        return next((owner for owner in self._owners if owner is not None), self._seeds[0])

    def learn(self, redirected: RedirectedError) -> Endpoint:
        node = self._node(self._remap(redirected.address))
        if not redirected.asking:
            self._note_move(redirected.slot, node)
            self._owners[redirected.slot] = node
            self.on_change()
            _ = self.fetch(PAUSE_AFTER_MOVED)
        return node

    def _note_move(self, slot: int, owner: Endpoint | None) -> None:
        """Note when *slot* moves from a node that is known to *owner*."""
        if self._owners[slot] not in (None, owner) and owner is not None:
            self._moved_at[slot] = monotonic()

    def _node(self, address: Address) -> Endpoint:
        node = self._nodes.get(address)
        if node is None:
            node = self._seeds[0].at(*address)
            # The cluster names this node: if it does not answer, that is an outage, not a mistake.
            node.seen = True
            node = self._nodes.setdefault(address, node)
        return node

    def open(self, pubsub: PubSub) -> Future[None]:
        self._probe = pubsub in ("auto", "sharded")
        return self.fetch(0)

    def fetch(self, pause: float = ONCE_MORE) -> Future[None]:
        if self._fetching.running("map") is None and monotonic() < self._fetched_at + pause:
            return done()
        return self._fetching.begin("map", self._fetch)

    def _fetch(self) -> None:
        try:
            owners, nodes = self._ask_nodes()
        finally:
            self._fetched_at = monotonic()
        changed = [slot for slot, owner in enumerate(owners) if owner is not self._owners[slot]]
        for slot in changed:
            self._note_move(slot, owners[slot])
        self._nodes, self._owners = nodes, owners
        for seed in self._seeds:
            seed.seen = True
        if self._probe and self.sharded is None:
            self.sharded = self._has_sharded_channels()
        if changed:
            self.on_change()

    def _ask_nodes(self) -> tuple[list[Endpoint | None], dict[Address, Endpoint]]:
        """Ask one node after another, in any order, until they have told about all slots.

        Return the primary of each slot that has one, and all nodes there are.

        Raises:
            ServerUnavailableError: no node answered; it is the error of the last one.
            ConfigError: it is no cluster.
        """
        asked = {node.address: node for node in (*self._nodes.values(), *self._seeds)}
        owners: list[Endpoint | None] = [None] * SLOTS
        found: dict[Address, Endpoint] = {}
        failure: ServerUnavailableError | None = None
        for node in _RANDOM.sample(list(asked.values()), len(asked)):
            try:
                ranges = node.answer(PATIENCE, "CLUSTER", "SLOTS")
                with understood(node.where):
                    for first, last, *serving in ranges:
                        addresses = [self._remap(_address(each, node)) for each in serving]
                        found |= {address: self._node(address) for address in addresses}
                        for slot in range(first, last + 1):
                            owners[slot] = found[addresses[0]]
            except ServerUnavailableError as error:
                failure = error
            if None not in owners:
                break
        if failure is None or found:
            return owners, found
        if "cluster support disabled" in str(failure):
            message = f"{self.where} is no cluster: connect by redis:// or rediss://"
            raise ConfigError(message) from failure
        raise failure

    def _has_sharded_channels(self) -> bool:
        """Return whether the cluster has sharded channels, and takes SPUBLISH in scripts.

        It is asked for the channels as Redisson does.
        """
        node = self.any_owner()
        try:
            _ = node.answer(PATIENCE, "PUBSUB", "SHARDNUMSUB")
        except ServerUnavailableError as error:
            if error.code != "ERR":
                raise
            return False
        try:
            _ = node.answer(PATIENCE, "EVAL", question("SPUBLISH"), "0")
        except ServerUnavailableError as error:
            return error.code != "FORBIDDEN"
        return True


def _address(told: Any, asked: Endpoint) -> Address:
    """Return the address of a node, as the node that was *asked* has *told* it.

    A server that does not know the host leaves it out, or writes a question mark where it should
    have a name. Then it is the address in the node's further data (since Redis 7), or else the host
    that was asked.

    Source: https://redis.io/docs/latest/commands/cluster-slots/
    """
    more: list[list[Any]]
    host, port, _, *more = told
    if host == b"?":
        data = more[0] if more else []
        host = dict(zip(data[::2], data[1::2], strict=True)).get(b"ip")
    return host.decode() if host else asked.address[0], int(port)
