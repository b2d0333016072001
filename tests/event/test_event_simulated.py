"""Events in the simulator: under every fault no waiter is left behind, and a call counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Schedule, delay_reply

from interlock._core.model.effects import NEVER
from interlock._core.objects.event import Event
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.simulator import Process

    from interlock._core.model.effects import Op

    Work = Generator[Op[Any], Any, object]


def _event(me: Process) -> Event:
    return Event(me.client.session, "name")


def _setter(me: Process) -> Work:
    """Set it; return whether it is set, as far as this process was told."""
    yield me.pass_time(0.05)
    try:
        yield _event(me).set()
    except ServerUnavailableError as error:
        return error.sent or error.transient
    except (InterlockError, Interrupted):
        return True
    return True


def _late_setter(me: Process) -> Work:
    """Set it when all who wait have come, whatever befell them."""
    yield me.pass_time(5)
    return (yield from _setter(me))


def _clearer(me: Process) -> Work:
    """Clear it as soon as it is set."""
    while not (yield _event(me).is_set()):
        yield me.pass_time(0.01)
    yield _event(me).clear()
    return True


def _waiter(me: Process) -> Work:
    return (yield _event(me).wait(NEVER))


def _play(
    schedule: Schedule, programs: dict[str, Callable[[Process], Work]]
) -> tuple[Simulator, dict[str, Process]]:
    simulator = Simulator(1, schedule=schedule, invariants=())
    client = simulator.client(**OPTIONS)
    played = {
        name: simulator.spawn(client if name[0] == "w" else simulator.client(**OPTIONS), each, name)
        for name, each in programs.items()
    }
    return simulator, played


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect_of_a_setting(fault: str) -> None:
    """A setting wakes both waiters, whichever fault befalls it, unless it was refused."""
    programs = {"s": _setter, "w0": _waiter, "w1": _waiter}
    simulator, played = _play(Schedule(), programs)
    simulator.run_for(30)
    effects = len(played["s"].effects)
    assert effects >= 2
    for place in range(1, effects):  # its first one is its sleep
        simulator, played = _play(Schedule({("s", place): FAULTS[fault]}), programs)
        simulator.run_for(30)
        told = bool(played["s"].result)
        assert [played[name].result for name in ("w0", "w1")] == [told or None] * 2
        stored = simulator.network.dump()
        assert ("interlock_event:{name}" in stored) is told


@pytest.mark.parametrize("fault", [each for each in FAULTS if each[:4] not in ("inte", "refu")])
def test_one_fault_at_every_effect_of_a_waiter(fault: str) -> None:
    """All waiters go on when it is set and cleared at once, whatever befalls one."""
    programs = {"w0": _waiter, "w1": _waiter, "w2": _waiter, "s": _late_setter, "c": _clearer}
    for place in range(12):
        simulator, played = _play(Schedule({("w0", place): FAULTS[fault]}), programs)
        while simulator.running():
            simulator.run_for(1)
            assert simulator.now < 30, f"somebody waits for ever, after a fault at {place}"
        assert played["w1"].result is played["w2"].result is True
        assert played["w0"].result is True or isinstance(played["w0"].error, InterlockError)
        assert b"clear" in simulator.network.dump().get("interlock_event:{name}", b"clear").value


@pytest.mark.parametrize("moment", range(20))
def test_an_interrupted_waiter_leaves_the_others(moment: int) -> None:
    """When the waiter in front is interrupted anywhere, the others go on all the same."""
    programs = {"w0": _waiter, "w1": _waiter, "w2": _waiter, "s": _setter}
    schedule = Schedule({("w0", moment): FAULTS["interrupted-before"]})
    simulator, played = _play(schedule, programs)
    simulator.run_for(10)
    assert played["w1"].result is played["w2"].result is True


def test_a_later_waiter_stands_in_nobodys_way() -> None:
    """A waiter goes on though one that came after the setting is before it in the queue."""

    def latecomer(me: Process) -> Work:
        yield me.pass_time(0.3)
        return (yield _event(me).wait(NEVER))

    programs = {"w0": _waiter, "w1": latecomer, "s": _setter, "c": _clearer}
    simulator, played = _play(Schedule({("w0", 0): delay_reply(0.8)}), programs)
    simulator.run_for(5)
    assert played["w0"].result is True
    assert not played["w1"].ended
