"""Facts that a client cannot know, or that the order of events leaves open.

The invariants must not ask for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock._core.model.holds import Hold
    from tests.support.simulator.client import SimulatedClient
    from tests.support.simulator.network import Network
    from tests.support.simulator.rules import Dumps


class Doubts:
    """Holds that the outside ended, and keys whose depths may differ for a while.

    A hold is *tainted* when its key is removed from outside, so that its client cannot know.

    A forced release tells all clients at once. Then the first one that asks takes the lock.

    A key is *blurred* when a script ran for it after its sender had given up. It is also blurred
    when the background repeats a script, or when a clean-up was interrupted. Scripts tell depths
    absolutely. So at worst, another depth is shown for a while.
    """

    def __init__(self, networks: Sequence[Network], clients: Sequence[SimulatedClient]) -> None:
        self._networks = networks
        self._clients = clients
        self._tainted: dict[int, Hold] = {}
        self._blurred: set[tuple[str, str]] = set()
        self._told_all: set[tuple[str, str]] = set()

    def taint(self, network: Network, key: str | None) -> None:
        """Note that *key* (None: every key) of *network* is removed from outside."""
        for client in self._clients:
            for hold in client.session.holds:
                if client.network is network and key in (None, hold.key):
                    self._tainted[id(hold)] = hold

    def tainted(self, hold: Hold) -> bool:
        """Return whether *hold* was ended from outside."""
        return id(hold) in self._tainted

    def told_all(self, network: Network, key: str) -> None:
        """Note that a forced release of *key* of *network* has told all clients."""
        self._told_all.add((network.where, key))

    def take_told_all(self, where: str, key: str) -> bool:
        """Return whether a forced release of *key* has told all since this was asked last."""
        found = (where, key) in self._told_all
        self._told_all.discard((where, key))
        return found

    def blur(self, network: Network, keys: Iterable[str]) -> None:
        """Compare no depths under *keys* until they are gone and nothing is under way for them."""
        self._blurred.update((network.where, key) for key in keys)

    def blurred(self, where: str, key: str) -> bool:
        """Return whether depths under *key* may differ."""
        return (where, key) in self._blurred

    def clear_up(self, dumps: Dumps) -> None:
        """Forget what is not in doubt any more."""
        if self._blurred:
            self._blurred = {
                (where, key)
                for where, key in self._blurred
                if key in dumps[where] or self.under_way(where, key)
            }

    def under_way(self, where: str, key: str) -> bool:
        """Return whether something may still run for *key* at the server *where*."""
        travelling = [
            call
            for network in self._networks
            if network.where == where
            for exchange in network.travelling
            for call in exchange.calls
        ]
        settling = [
            call
            for client in self._clients
            if client.network.where == where
            for call in client.cleanups.calls()
        ]
        return any(key in call.keys for call in travelling + settling)
