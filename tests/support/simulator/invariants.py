"""The invariants of a simulation; their numbers are those of the simulator's documentation."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Protocol

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD
from interlock._core.queue.policy import COURTESY
from tests.support.simulator.minding import EverythingMinded
from tests.support.simulator.queue import BoundedOvertaking
from tests.support.simulator.rules import Dumps, rules_of

if TYPE_CHECKING:
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.holds import Hold
    from tests.support.simulator.client import SimulatedClient
    from tests.support.simulator.network import Network
    from tests.support.simulator.world import World


class Invariant(Protocol):
    """Something that must always be true."""

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Call ``simulator.fail`` if it is not true now."""
        ...

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Call ``simulator.fail`` if it is not true after the end of all processes and leases."""
        ...


class ServerExclusion:
    """I-01: the server never stores a lock that two owners hold."""

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every lock."""
        if not simulator.changed:
            return
        for lock in simulator.locks.values():
            dump = dumps[lock.session.where]
            if wrong := rules_of(lock).wrong(lock, dump):
                simulator.fail(f"I-01: {lock.key!r}: {wrong}: {dump.get(lock.key)}")

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""


class ValidHolds:
    """I-02, I-03, I-08: the server agrees with a client, and no valid holds exclude each other.

    Left out are holds that the outside ended: a restart, an operator. While it is in doubt whether
    a hold was given away, the server may have it under the ticket's name. A hold's depth is
    compared while nothing is under way for its key and nothing has arrived there after its sender
    gave up.
    """

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every hold that its client believes in."""
        valid: dict[tuple[str, str], list[Hold]] = {}
        tainted = simulator.doubts.tainted
        for client in simulator.clients:
            holds = client.session.holds.table
            if not holds or client.crashed:
                continue
            now, where = client.clock(), client.network.where
            dump = dumps[where]
            for hold in holds.values():
                if hold.valid(now) and not tainted(hold):
                    depth = rules_of(hold.core).depth(hold, dump)
                    if depth == 0 and hold.cut_at != NEVER:
                        simulator.fail(f"I-03: the server does not have {hold!r}")
                    if depth != hold.depth and _settled(simulator, client, hold):
                        simulator.fail(f"I-08: the server has depth {depth} of {hold!r}")
                    valid.setdefault((where, hold.key), []).append(hold)
        for several in valid.values():
            for one, other in combinations(several, 2):
                if rules_of(one.core).exclude(one, other):
                    simulator.fail(f"I-02: both are valid: {one!r} and {other!r}")

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""


def _settled(simulator: World, client: SimulatedClient, hold: Hold) -> bool:
    """Return whether nothing is under way that could change the depth of *hold* on the server."""
    where = client.network.where
    return not (
        hold.abandoned()
        or hold.cut_at == NEVER
        or client.paused
        or simulator.doubts.blurred(where, hold.key)
        or any(process.acting for process in client.processes)
        or simulator.doubts.under_way(where, hold.key)
    )


class GrowingTokens:
    """I-04: fencing tokens grow from hold to hold, and stay the same within one.

    A hold that was given away and adopted is one hold.

    Left out are holds that the outside ended, as in `ValidHolds`.
    """

    def __init__(self) -> None:
        self._largest: dict[tuple[str, str, int], int] = {}
        self._seen: dict[int, tuple[Hold, int]] = {}

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every hold with a token."""
        del dumps
        for client in simulator.clients:
            for hold in client.session.holds.table.values():
                if hold.token is None or hold.state is not HELD:
                    continue
                if not simulator.doubts.tainted(hold):
                    self._look_at(simulator, client, hold, hold.token)

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _look_at(self, simulator: World, client: SimulatedClient, hold: Hold, token: int) -> None:
        if id(hold) in self._seen:
            if token != self._seen[id(hold)][1]:
                simulator.fail(f"I-04: the token of {hold!r} became {token}")
            return
        self._seen[id(hold)] = (hold, token)
        # A server that lost its data counts from the beginning again.
        place = (client.network.where, hold.key, client.network.generation)
        largest = self._largest.get(place, 0)
        adopted = hold.token_source is None  # it has the token of the hold that was given away
        if token < largest + (not adopted):
            simulator.fail(f"I-04: {hold!r} has token {token} after {largest}")
        self._largest[place] = token


class NoLostWakeUp:
    """I-05: nobody waits past a free lock for longer than the poll cap and what the network takes.

    The bound is shorter where nothing goes wrong and the lock was released, not expired. Then it is
    some round trips, and the time that others get now and then to take the lock first.
    """

    def __init__(self) -> None:
        self._freed: dict[tuple[str, str, str], tuple[float, bool]] = {}
        self._ends: dict[tuple[str, str, str], float] = {}
        self._held: set[tuple[str, str, str]] = set()

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every lock that is waited for."""
        now, changed, held = simulator.timeline.now, simulator.changed, self._held
        for place, lock in simulator.locks.items():
            if not changed and place in held:
                continue
            free = rules_of(lock).free
            if free is None:
                held.add(place)  # it is not asked for again before something changes
                continue
            dump = dumps[place[0]]
            held.discard(place)
            if not free(lock, dump):
                held.add(place)
                if changed:
                    network = _network(simulator, place[0])
                    self._ends[place] = network.viewed_at + (dump[lock.key].ttl or 0) / 1000
                self._freed.pop(place, None)
                continue
            network = _network(simulator, place[0])
            if network.unreachable or not _waited_for(simulator, lock):
                self._freed[place] = (now, False)
            else:
                released = now < self._ends.get(place, 0.0)
                since, released = self._freed.setdefault(place, (now, released))
                bound = self._bound(simulator, released=released)
                if now - max(since, simulator.disturbed_at) > bound:
                    simulator.fail(f"I-05: {lock.key!r} is waited for and free since {since:.4f}")

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _bound(self, simulator: World, *, released: bool) -> float:
        options = simulator.clients[0].session.options
        round_trips = 20 * simulator.latency[1]
        if not simulator.schedule.benign:
            return options.poll_cap + options.command_timeout + 1 + round_trips
        return (COURTESY if released else options.poll_cap) + round_trips


def _network(simulator: World, where: str) -> Network:
    [network] = [network for network in simulator.networks if network.where == where]
    return network


def _waited_for(simulator: World, lock: LockBase) -> bool:
    return any(
        client.session.waiters.has_waiters(lock.channel)
        for client in simulator.clients
        if client.network.where == lock.session.where
        if not client.crashed and not client.paused
    )


class EveryKeyEnds:
    """I-12: every key has a TTL, but those that are documented to survive."""

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every key."""
        if not simulator.changed:
            return
        survivors = simulator.survivors()
        for dump in dumps.values():
            for key, stored in dump.items():
                if stored.ttl is None and key not in survivors:
                    simulator.fail(f"I-12: {key!r} has no TTL: {stored}")

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""


class NothingLeft:
    """I-11: nothing is left at rest: no key, subscription, hold or waiter, nothing to settle."""

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing before the end."""

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Look at everything."""
        for network in simulator.networks:
            if left := dumps[network.where].keys() - simulator.survivors():
                simulator.fail(f"I-11: {network.where} still has {sorted(left)}")
            if channels := network.channels():
                simulator.fail(f"I-11: somebody still subscribes to {channels}")
        for client in simulator.clients:
            if client.crashed:
                continue
            session = client.session
            if session.holds:
                simulator.fail(f"I-11: {client.name} still has {session.holds.snapshot()}")
            if channels := session.waiters.channels():
                simulator.fail(f"I-11: {client.name} still waits for {channels}")
            if client.cleanups:
                simulator.fail(f"I-11: {client.name} still settles {client.cleanups.calls()}")


def defaults() -> tuple[Invariant, ...]:
    """Return what is checked unless something else is asked for."""
    return (
        ServerExclusion(),
        ValidHolds(),
        GrowingTokens(),
        NoLostWakeUp(),
        EveryKeyEnds(),
        NothingLeft(),
        EverythingMinded(),
        BoundedOvertaking(),
    )
