"""The faults of a simulation that come at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.support.simulator.pubsub import LATEST

if TYPE_CHECKING:
    from tests.support.simulator.schedule import Fault
    from tests.support.simulator.world import World


def plan(simulator: World) -> None:
    """Put the faults that have a time, and the first that is drawn, on the agenda."""
    for when, fault in simulator.schedule.times:
        simulator.timeline.at(when, partial(strike, simulator, fault))
    _plan_next(simulator)


def _plan_next(simulator: World) -> None:
    drawn = simulator.schedule.next_timed(simulator.random)
    if drawn is None:
        return
    seconds, fault = drawn

    def happen() -> None:
        if not simulator.healed:
            strike(simulator, fault)
            _plan_next(simulator)

    simulator.timeline.after(seconds, happen)


def strike(simulator: World, fault: Fault) -> None:
    """Cause *fault* now; one whose target is gone does nothing."""
    random = simulator.random
    alive = [c for c in simulator.clients if not c.crashed and fault.target in ("", c.name)]
    network = random.choice(simulator.networks)
    simulator.disturbed()
    match fault.kind:
        case "crash" if alive:
            random.choice(alive).crash()
        case "pause" if alive:
            random.choice(alive).pause(fault.seconds)
        case "deafen" if alive:
            random.choice(alive).deafen(fault.seconds)
        case "outage":
            network.go_down(fault.seconds)
        case "lose messages":
            network.lossy_until = simulator.now + fault.seconds
        case "delay messages":
            network.dilatory_until = simulator.now + fault.seconds
            simulator.timeline.after(fault.seconds + LATEST, simulator.disturbed)
        case "restart":
            simulator.doubts.taint(network, None)
            network.restart()
        case "force release":
            keys = [
                lock.key for lock in simulator.locks.values() if lock.session.where == network.where
            ]
            if key := fault.target or (random.choice(keys) if keys else None):
                simulator.doubts.taint(network, key)
                network.remove(key)
        case _:
            return
    simulator.timeline.after(fault.seconds, simulator.disturbed)
