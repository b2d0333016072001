"""Where a scheme fails: small stories with real processes, each of which a lock should survive."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.compare import Contender
from benchmarks.fleet import Agent, AgentError
from benchmarks.measure import Case
from benchmarks.peers.rivals import LEASED, RIVALS
from benchmarks.report import Column, Goal
from benchmarks.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_LEASE = 2.0  # seconds
# Seconds until an acquire counts as blocked for ever: some leases, or a ZooKeeper session's end.
_BLOCKED = 2.5 * _LEASE
_SOON = 0.025  # seconds: a quarter of the time between two polls
_HANDOFFS = 7


def _gets_it(agent: Agent, name: str, timeout: float = _BLOCKED) -> bool:
    """Tell *agent* to acquire; return whether it gets the lock within *timeout* seconds."""
    agent.send(do="acquire", name=name)
    try:
        agent.receive(timeout)
    except AgentError as failure:
        if "did not answer" in str(failure):
            return False
        raise
    return True


def _survives_a_dead_holder(one: Agent, two: Agent, _three: Agent, name: str) -> bool:
    """A holder that is killed does not keep the lock for ever."""
    one.ask(do="acquire", name=name)
    os.kill(one.pid, signal.SIGKILL)
    return _gets_it(two, name)


def _survives_a_frozen_holder(one: Agent, two: Agent, _three: Agent, name: str) -> bool:
    """A holder that is frozen, with its connections open, does not keep the lock for ever."""
    one.ask(do="acquire", name=name)
    os.kill(one.pid, signal.SIGSTOP)
    return _gets_it(two, name)


def _is_kept_beyond_the_lease(one: Agent, two: Agent, _three: Agent, name: str) -> bool:
    """A holder that works for longer than the lease keeps the lock."""
    one.ask(do="acquire", name=name)
    return not _gets_it(two, name, 2 * _LEASE)


def _can_be_taken_again(one: Agent, _two: Agent, _three: Agent, name: str) -> bool:
    """A holder that takes the lock again does not wait for itself."""
    one.ask(do="acquire", name=name)
    return _gets_it(one, name, _LEASE / 2)


def _outlives_a_late_release(one: Agent, two: Agent, three: Agent, name: str) -> bool:
    """A holder that has lost the lock does not release the next one's."""
    one.ask(do="acquire", name=name)
    os.kill(one.pid, signal.SIGSTOP)
    if not _gets_it(two, name):
        return True  # it is never lost, which is the frozen holder's story
    ends = time.monotonic() + _LEASE * 0.75
    os.kill(one.pid, signal.SIGCONT)
    one.send(do="release")  # an error is a right answer, too
    time.sleep(_LEASE / 4)
    return not _gets_it(three, name, ends - time.monotonic())


def _wakes_who_waits(one: Agent, two: Agent, _three: Agent, name: str) -> bool:
    """A waiter has the lock well before it would have asked again."""
    delays: list[float] = []
    holder, waiter = one, two
    holder.ask(do="acquire", name=name)
    for number in range(_HANDOFFS):
        waiter.send(do="acquire", name=name)
        time.sleep(0.05 + 0.013 * number)  # here and there between two polls
        released = holder.ask(do="release")["at"]
        delays.append(waiter.receive()["at"] - released)
        holder, waiter = waiter, holder
    return median(delays) < _SOON


SCENARIOS: dict[str, Callable[[Agent, Agent, Agent, str], bool]] = {
    "survives a dead holder": _survives_a_dead_holder,
    "survives a frozen holder": _survives_a_frozen_holder,
    "is kept beyond the lease": _is_kept_beyond_the_lease,
    "can be taken again": _can_be_taken_again,
    "outlives a late release": _outlives_a_late_release,
    "wakes who waits": _wakes_who_waits,
}
CASES = tuple(Case("threads", 1, processes=3, label=label) for label in SCENARIOS)


def _measure(contender: Contender, bed: Bed, _pace: Pace) -> dict[str, float]:
    peer, scenario = contender.peer, SCENARIOS[str(contender.case)]
    # A new name each time: what a scheme without leases leaves behind is there for good.
    url, name = bed.url_of(peer), f"scenario:{time.monotonic_ns()}"
    with contextlib.ExitStack() as stack:
        agents: list[Agent] = []
        for _ in range(3):
            agents.append(Agent(peer, url, 1, lease=_LEASE))
            stack.callback(agents[-1].kill)
        for agent in agents:
            agent.receive()
            # Connected, with its scripts loaded, under a name of its own.
            agent.ask(do="acquire", name=f"warm:{agent.pid}")
            agent.ask(do="release")
        return {"passes": float(scenario(agents[0], agents[1], agents[2], name))}


WORK = Work(
    name="scenarios",
    question="What happens to a lock when things go wrong?",
    columns=(Column("passes", "1: it does; 0: it does not"),),
    contenders=tuple(Contender(case, peer) for case in CASES for peer in (LEASED, *RIVALS)),
    brief=tuple(Contender(case, LEASED) for case in (CASES[3], CASES[5])),
    measure=_measure,
    references=(),
    goals=tuple(Goal(str(case), "passes", least=1, peer=LEASED.name) for case in CASES),
    rounds=1,
    notes=(f"leases, where there are any, of {_LEASE:g} s; blocked: for {_BLOCKED:g} s",),
)
