"""What a client knows from its beginning, before it has connected to anything."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from interlock._core.insight.observing import Observing, Wish
from interlock._drivers.background.log import log_lack
from interlock._drivers.process import clock
from interlock._drivers.process.identity import new_client_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Owner
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import Options

_numbers = itertools.count(1)
"""The numbers of waits without a hold."""


class State:
    """One client.

    Args:
        servers: one server, or a cluster.
        options: the client's.
        topology: of *servers*.
        caller: returns the owner that calls.

    Attributes:
        options: as given.
        client_id: the first half of the ids of its holds; another one in a forked child.
        where, database: what tells its servers and its database from others.
        epoch: returns how often another server has taken over, as far as is known here.
        took_over: returns how many seconds ago another server has taken over a key.
        clustered: whether several servers share the keys.
        counts_failovers: whether *epoch* counts all failovers.
        events: what observers and cards are told.
        period: seconds between two rounds of renewals.
    """

    def __init__(
        self,
        servers: Endpoint | Cluster,
        options: Options,
        topology: Topology,
        caller: Callable[[], Owner],
    ) -> None:
        self.options, self._caller = options, caller
        self.where, self.database = servers.where, servers.identity
        self.epoch, self.took_over = servers.epoch, servers.took_over
        self.clustered = topology.only is None
        self.counts_failovers = topology.only is not None and topology.only.moves
        self.events = Observing(clock.now, options.slow_acquire, options.slow_hold)
        self.events.server = self.where
        self.period = options.lease / 3
        self._noted = dict[str, object]()
        self.begin()

    def begin(self) -> None:
        """Be a client of its own, also in a forked child."""
        self.client_id = self.events.client_id = new_client_id()

    def note(self, event: str, text: str) -> None:
        """Log what the server lacks, or what it is asked in vain, once for each *event*."""
        me = object()  # two threads may note it at a time
        if self._noted.setdefault(event, me) is me:
            log_lack(event, self.where, text)

    def wish(self, key: str) -> Wish:
        """Return what operators are told of the running thread or task, which begins to wait."""
        number, caller = next(_numbers), self._caller()
        return Wish(key, f"{self.client_id}:{number}", clock.now(), caller.identity, caller.label)
