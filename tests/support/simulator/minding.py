"""The invariant that nothing is held on the server which its client has forgotten."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from interlock._core.model.holds import CLAIM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._core.model.holds import Hold
    from tests.support.simulator.client import SimulatedClient
    from tests.support.simulator.rules import Dumps
    from tests.support.simulator.world import World


class EverythingMinded:
    """I-19: a living client minds every hold that the server stores in its name.

    The client has the hold, is just acquiring or releasing it, or is going to release it.

    Left out are holds that only their lease has to end:

    * a hold that was lost, or that the outside ended;
    * a claim that nobody has taken, and a ticket;
    * a hold of a process that is gone or was interrupted twice;
    * a hold that came so late that its client need not expect it any more.
    """

    def __init__(self) -> None:
        self._holds: dict[int, Hold] = {}
        self._texts: dict[str, str] = {}
        self._found: dict[str, set[str]] = {}
        self._ours: dict[str, re.Pattern[str]] = {}

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every lock."""
        if simulator.changed:
            self._texts.clear()
            self._found.clear()
        for client in simulator.clients:
            found = self._found.get(client.name)
            if found is None:
                found = self._found[client.name] = self._stored_for(simulator, client, dumps)
            holds = client.session.holds.table.values()
            for hold in holds:
                self._holds[id(hold)] = hold
            # Most of the time the client has just what is stored.
            if not found or found <= {hold.holder for hold in holds}:
                continue
            busy = any(process.acting or process.negligent for process in client.processes)
            if not client.crashed and not busy:
                self._look_at(simulator, client, found)

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _stored_for(self, simulator: World, client: SimulatedClient, dumps: Dumps) -> set[str]:
        """Return the holders of *client* that its server has."""
        where = client.network.where
        text = self._texts.get(where)
        if text is None:
            stored = [dumps[where].get(key) for at, key, _ in simulator.locks if at == where]
            # All clients of a server look for theirs in the same text.
            text = self._texts[where] = str(
                [one.value for one in stored if one is not None and (one.ttl or 0) > CLAIM * 1000]
            )
        return self._numbers(client, (text,))

    def _numbers(self, client: SimulatedClient, texts: Iterable[str]) -> set[str]:
        """Return the holders of *client* that *texts* name."""
        ours = self._ours.get(client.name)
        if ours is None:
            ours = self._ours[client.name] = re.compile(client.session.client_id + ":[1-9][0-9]*")
        return {holder for text in texts for holder in ours.findall(text)}

    def _look_at(self, simulator: World, client: SimulatedClient, found: set[str]) -> None:
        numbers = partial(self._numbers, client)
        now = client.clock()
        sent = [call for exchange in client.network.travelling for call in exchange.calls]
        sent += client.cleanups.calls()
        sent += [effect.call for effect in client.settled if now >= effect.until]
        minded = numbers(hold.holder for hold in client.session.holds)
        minded |= numbers(client.network.tickets)
        minded |= numbers(str(word) for call in sent for word in call.args)
        minded |= numbers(
            hold.holder
            for hold in self._holds.values()
            if (hold.abandoned() and hold.depth)
            or hold.reason is not None
            or simulator.doubts.tainted(hold)
            or 0 < hold.valid_until <= now
        )
        if forgotten := found - minded:
            simulator.fail(f"I-19: {client.name} has forgotten {sorted(forgotten)}")
