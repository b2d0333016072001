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
    from interlock.options import Options

_numbers = itertools.count(1)
"""The numbers of waits without a hold."""


class State:
    """One client.

    Args:
        where: tells its servers from others.
        options: the client's.
        clustered: whether several servers share the keys.
        caller: returns the owner that calls.

    Attributes:
        where, options, clustered: as given.
        client_id: the first half of the ids of its holds; another one in a forked child.
        events: what observers and cards are told.
        period: seconds between two rounds of renewals.
    """

    def __init__(
        self, where: str, options: Options, clustered: bool, caller: Callable[[], Owner]
    ) -> None:
        self.where, self.options, self.clustered = where, options, clustered
        self.events = Observing(clock.now, options.slow_acquire, options.slow_hold)
        self.events.server = where
        self.period = options.lease / 3
        self._caller = caller
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
