"""Latches in the simulator: a count-down counts once and each waiter goes on, under any fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Schedule, drop_reply

from interlock._core.model.effects import NEVER
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock.errors import InterlockError, LatchDeletedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.simulator import Process

    from interlock._core.model.effects import Op

    Work = Generator[Op[Any], Any, object]


def _latch(me: Process) -> CountDownLatch:
    return CountDownLatch(me.client.session, "name")


def _setter(count: int) -> Callable[[Process], Work]:
    def program(me: Process) -> Work:
        return (yield _latch(me).try_set_count(count))

    return program


def _counter(me: Process) -> Work:
    """Count down; return whether it counts, as far as this process was told."""
    yield me.pass_time(0.05)
    try:
        yield _latch(me).count_down()
    except ServerUnavailableError as error:
        return error.sent or error.transient
    except (InterlockError, Interrupted):
        return True
    return True


def _waiter(me: Process) -> Work:
    return (yield _latch(me).wait(NEVER))


def _play(
    schedule: Schedule, count: int, programs: dict[str, Callable[[Process], Work]]
) -> tuple[Simulator, dict[str, Process]]:
    simulator = Simulator(1, schedule=schedule, invariants=())
    client = simulator.client(**OPTIONS)
    simulator.spawn(client, _setter(count), "setter")
    simulator.run_for(0.01)
    played = {
        name: simulator.spawn(client if name[0] == "w" else simulator.client(**OPTIONS), each, name)
        for name, each in programs.items()
    }
    return simulator, played


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect_of_a_count_down(fault: str) -> None:
    """Three of four count-downs leave 1 despite a fault of the first, unless that was refused."""
    programs = {"c0": _counter, "c1": _counter, "c2": _counter}
    simulator, played = _play(Schedule(), 4, programs)
    simulator.run_for(100)
    effects = len(played["c0"].effects)
    assert effects >= 2
    for place in range(1, effects):  # its first one is its sleep
        schedule = Schedule({("c0", place): FAULTS[fault]})
        simulator, played = _play(schedule, 4, programs)
        simulator.run_for(100)
        counted = sum(bool(each.result) for each in played.values())
        stored = simulator.network.dump()
        assert stored["name"].value == str(4 - counted).encode(), f"at effect {place}"
        assert stored.keys() == {"name"}, "every note has expired"


@pytest.mark.parametrize("fault", [each for each in FAULTS if each[:4] not in ("inte", "refu")])
def test_one_fault_at_every_effect_of_a_waiter(fault: str) -> None:
    """If a fault hits one of three waiters, all go on when the latch opens.

    The one with the fault may go on with an error.
    """
    programs = {"w0": _waiter, "w1": _waiter, "w2": _waiter, "c0": _counter}
    for place in range(20):
        simulator, played = _play(Schedule({("w0", place): FAULTS[fault]}), 1, programs)
        while simulator.running():
            simulator.run_for(1)
            assert simulator.now < 30, f"somebody waits for ever, after a fault at {place}"
        assert played["w1"].result is played["w2"].result is True
        assert played["w0"].result is True or isinstance(played["w0"].error, InterlockError)


@pytest.mark.parametrize("place", range(6))
def test_a_deletion_reaches_every_waiter(place: int) -> None:
    """A deletion is an error to all three waiters of a client, even if a reply to it is lost."""

    def remover(me: Process) -> Work:
        yield me.pass_time(0.05)
        return (yield _latch(me).delete())

    programs = {"w0": _waiter, "w1": _waiter, "w2": _waiter, "r0": remover}
    simulator, played = _play(Schedule({("r0", place): drop_reply()}), 1, programs)
    simulator.run_for(30)
    assert played["r0"].result is True
    assert {type(played[name].error) for name in ("w0", "w1", "w2")} == {LatchDeletedError}
