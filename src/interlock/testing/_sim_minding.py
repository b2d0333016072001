"""The invariant that nothing is held on the server which its client has forgotten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._core.holds import Hold
    from interlock.testing._sim_client import SimulatedClient
    from interlock.testing._sim_rules import Dump, Dumps
    from interlock.testing._sim_world import World


class EverythingMinded:
    """I-19: what is held in the name of a client that lives, it has, is just acquiring or releasing, or is going to release.

    Left out is what its lease has to end: what was lost, what the outside ended, what belonged to a process that is gone or was
    interrupted twice, and what came so late that its client need not expect it any more.
    """

    def __init__(self) -> None:
        self._holds: dict[int, Hold] = {}
        self._found: dict[str, tuple[Dump, int, set[str]]] = {}

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every lock."""
        for client in simulator.clients:
            for hold in client.session.holds.table.values():
                self._holds[id(hold)] = hold
            busy = any(process.acting or process.negligent for process in client.processes)
            if not client.crashed and not busy:
                self._look_at(simulator, client, dumps)

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _look_at(self, simulator: World, client: SimulatedClient, dumps: Dumps) -> None:
        where = client.network.where
        ours = re.compile(client.session.client_id + ":[1-9][0-9]*")

        def numbers(texts: Iterable[object]) -> set[str]:
            return {holder for text in texts for holder in ours.findall(str(text))}

        dump, locks, found = self._found.get(client.name, ({}, -1, set()))
        if dump is not dumps[where] or locks != len(simulator.locks):
            stored = [dumps[where].get(key) for at, key, _ in simulator.locks if at == where]
            found = numbers(one.value for one in stored if one is not None)
            self._found[client.name] = dumps[where], len(simulator.locks), found
        # Most of the time the client has just what is stored.
        if found <= {hold.holder for hold in client.session.holds.table.values()}:
            return
        now = client.clock()
        sent = [call for exchange in client.network.travelling for call in exchange.calls]
        sent += client.cleanups.calls()
        sent += [effect.call for effect in client.settled if now >= effect.until]
        minded = numbers(hold.holder for hold in client.session.holds)
        minded |= numbers(word for call in sent for word in call.args)
        minded |= numbers(
            hold.holder
            for hold in self._holds.values()
            if (hold.abandoned() and hold.depth) or hold.reason is not None or simulator.doubts.tainted(hold)
            or 0 < hold.valid_until <= now
        )  # fmt: skip
        if forgotten := found - minded:
            simulator.fail(f"I-19: {client.name} has forgotten {sorted(forgotten)}")
