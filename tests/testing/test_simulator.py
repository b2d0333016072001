"""The simulator: the same run for a seed, every fault as described, no broken invariant missed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model.redis_model import ModelError
from tests.support.simulator import (
    Interrupted,
    InvariantError,
    Process,
    Simulator,
    StepBudgetError,
    schedule,
)
from tests.support.simulator.schedule import Schedule
from tests.support.simulator.workload import play

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.model.effects import Cleanup
from interlock._core.model.holds import HELD, LOST
from interlock.errors import ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock._core.model.effects import Op

    Run = Generator[Op[Any], Any, Any]

LEASE = 3.0


def visit(seconds: float = 1.0, **options: Any) -> Callable[[Process], Run]:
    """Return a program that holds a lock for a while and returns when it got it."""

    def program(me: Process) -> Run:
        lock = me.lock("x")
        if (yield me.acquire(lock, **options)) is None:
            return None
        got_at = me.client.now
        yield me.pass_time(seconds)
        yield me.release(lock)
        return got_at

    return program


def two(
    first: Callable[[Process], Run], second: Callable[[Process], Run], **faults: Any
) -> tuple[Simulator, Process, Process]:
    """Return a simulation of two processes in clients of their own; their names are p and q."""
    simulator = Simulator(1, schedule=Schedule(**faults))
    clients = [simulator.client(lease=LEASE, outage_timeout=1.0) for _ in range(2)]
    return (
        simulator,
        simulator.spawn(clients[0], first, "p"),
        simulator.spawn(clients[1], second, "q"),
    )


def later(program: Callable[[Process], Run], seconds: float = 0.01) -> Callable[[Process], Run]:
    """Return *program*, begun a little later."""

    def delayed(me: Process) -> Run:
        yield me.pass_time(seconds)
        return (yield from program(me))

    return delayed


class TestRun:
    """What a run is."""

    def test_lock_passes_from_one_to_the_next(self) -> None:
        """Processes that want one lock get it one after the other, in virtual time."""
        simulator, first, second = two(visit(), later(visit()))
        simulator.run()

        assert first.result < 0.1
        assert second.result == pytest.approx(1.0, abs=0.1)

    def test_seed_decides_everything(self) -> None:
        """The same seed gives the same run, event by event; another one gives another."""

        def events(seed: int) -> list[tuple[float, str]]:
            return [(event.at, event.who) for event in play(seed).timeline.trace]

        assert events(7) == events(7)
        assert events(7) != events(11)

    def test_endless_run_is_ended(self) -> None:
        """A run that does not come to its end is an error that names the seed."""

        def program(me: Process) -> Run:
            while True:
                yield me.pass_time(0.1)

        simulator = Simulator(42, steps=1000)
        simulator.spawn(simulator.client(), program)
        with pytest.raises(StepBudgetError, match="seed 42"):
            simulator.run()

    def test_error_of_a_program_is_raised_with_the_story(self) -> None:
        """An error in a program fails the run, with the seed and what happened before."""

        def program(me: Process) -> Run:
            yield me.acquire(me.lock("x"))
            raise AssertionError("as it should not be")

        simulator = Simulator(5)
        simulator.spawn(simulator.client(), program)
        with pytest.raises(AssertionError, match="as it should not be") as raised:
            simulator.run()

        [story] = raised.value.__notes__
        assert "seed 5" in story
        assert "acquire" in story

    def test_error_of_the_library_is_kept(self) -> None:
        """A program may end by an error of the library as any thread may."""

        def program(me: Process) -> Run:
            yield me.release(me.lock("x"))

        simulator = Simulator(1)
        process = simulator.spawn(simulator.client(), program)
        simulator.run()

        assert "is not held" in str(process.error)
        assert repr(process) == "<Process a.1 ended>"

    def test_some_time_can_be_run(self) -> None:
        """A test may look at the world in the midst of a run."""
        simulator, first, second = two(visit(), later(visit()))
        simulator.run_for(0.5)
        assert simulator.now == pytest.approx(0.5)
        assert simulator.running() == [first, second]
        assert set(simulator.network.dump()) == {"x", "interlock_queue:{x}"}
        simulator.run()

        assert simulator.running() == []

    def test_clients_have_names_and_options(self) -> None:
        """Clients are called a, b, c and so on, and may differ in their options."""
        simulator = Simulator(1)
        clients = [simulator.client(lease=float(n)) for n in range(1, 29)]

        assert [client.name for client in clients[:3] + clients[25:]] == [
            "a",
            "b",
            "c",
            "z",
            "a1",
            "b1",
        ]
        assert clients[4].session.options.lease == 5.0
        assert repr(clients[0]) == "<SimulatedClient a>"

    def test_servers_are_independent(self) -> None:
        """A lock of one server says nothing about that of another."""
        simulator = Simulator(1)
        there = simulator.client(server=simulator.server())
        processes = [simulator.spawn(c, visit(timeout=0)) for c in (simulator.client(), there)]
        simulator.run()

        assert all(process.result is not None for process in processes)

    def test_listeners_are_told_and_may_fail(self) -> None:
        """What an on_lost callback raises is kept with the client, and stops nothing."""

        def program(me: Process) -> Run:
            hold = yield me.acquire(me.lock("x"), lease=0.5)
            hold.listen(lambda: 1 / 0)
            yield me.pass_time(1.0)

        simulator = Simulator(1)
        client = simulator.client()
        simulator.spawn(client, program)
        simulator.run()

        assert [type(error) for error in client.reported] == [ZeroDivisionError]

    def test_key_of_another_type_is_an_error(self) -> None:
        """A server's errors are what they are for a real client."""
        simulator, first, _ = two(visit(), visit())
        simulator.network.server.execute("SET", "x", "something", "PX", 10_000)
        simulator.run()

        assert isinstance(first.error, WrongTypeError)

    def test_unknown_error_of_the_server_is_unavailability(self) -> None:
        """A script that fails is reported with the server's code."""
        simulator, first, _ = two(visit(), visit())
        simulator.network.server.eval = _failing  # type: ignore[method-assign]
        simulator.run()

        assert isinstance(first.error, ServerUnavailableError)
        assert first.error.code == "OOM"


def _failing(*_: object) -> Any:
    raise ModelError("OOM command not allowed when used memory > 'maxmemory'.")


def test_documented_example_runs() -> None:
    """The example in the documentation does what it shows."""
    page = Path(__file__).parents[2] / "docs" / "explanation" / "simulator.md"
    [example] = re.findall(
        r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    exec(example, {})


class TestEffectFaults:
    """What can befall one effect."""

    @pytest.mark.parametrize(
        ("fault", "runs"),
        [
            (schedule.drop_request(0.2), 1),
            (schedule.drop_reply(0.2), 2),
            (schedule.duplicate(), 2),
            (schedule.delay_request(4.0), 2),
            (schedule.delay_reply(4.0), 2),
        ],
        ids=lambda value: getattr(value, "kind", None),
    )
    def test_message_is_lost_repeated_or_late(self, fault: schedule.Fault, runs: int) -> None:
        """The client tries again when it must; the script runs as often as the fault allows."""
        simulator = Simulator(1, schedule=Schedule(effects={("p", 0): fault}))
        process = simulator.spawn(simulator.client(), visit(5.0), "p")
        simulator.run()

        assert process.result is not None
        ran = [
            e
            for e in simulator.timeline.trace
            if e.who == "server" and "lock_acquire" in str(e.what)
        ]
        assert len(ran) == runs

    @pytest.mark.parametrize(("when", "runs"), [("before", 0), ("after", 1), ("late", 1)])
    def test_operation_is_interrupted(self, when: schedule.When, runs: int) -> None:
        """An interruption comes before or after the server acts.

        It may also come long before the request arrives.
        """
        fault = schedule.interrupt(when, seconds=0.5)
        simulator, process, _ = two(visit(), later(visit(), 1.0), effects={("p", 0): fault})
        simulator.run_for(0.9)

        assert isinstance(process.error, Interrupted)
        ran = [e for e in simulator.timeline.trace if "lock_acquire" in str(e.what)]
        assert len(ran) == runs
        simulator.run()

    @pytest.mark.parametrize("sent", [False, True])
    def test_server_fails(self, sent: bool) -> None:
        """An operation can be told of an unavailable server, whether or not its script ran."""
        simulator, process, _ = two(
            visit(), later(visit()), effects={("p", 0): schedule.fail(sent=sent)}
        )
        simulator.run()

        assert isinstance(process.error, ServerUnavailableError)
        assert process.error.sent is sent

    def test_server_does_not_fail_where_it_is_not_asked(self) -> None:
        """A wait cannot end by an error of the server."""
        simulator, _, process = two(
            visit(), later(visit()), effects={("q", n): schedule.fail(sent=True) for n in (0, 2)}
        )
        simulator.run()

        assert process.result is not None

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_process_is_abandoned(self, when: schedule.When) -> None:
        """An abandoned process ends without a word; its lock ends with its lease."""
        simulator, process, successor = two(
            visit(), later(visit()), effects={("p", 1): schedule.abandon(when)}
        )
        simulator.run()

        assert (process.ended, process.error, process.result) == (True, None, None)
        assert successor.result == pytest.approx(LEASE, abs=0.2)

    def test_finally_of_an_abandoned_program_is_not_performed(self) -> None:
        """A program that is killed gets nothing of what its finally still asks for."""

        def program(me: Process) -> Run:
            lock = me.lock("x")
            try:
                yield me.acquire(lock)
                yield me.pass_time(1.0)
            finally:
                yield me.release(lock)

        simulator, process, successor = two(
            program, later(visit()), effects={("p", 1): schedule.abandon()}
        )
        simulator.run()

        assert process.ended
        assert successor.result == pytest.approx(LEASE, abs=0.2)

    def test_process_is_interrupted_from_outside(self) -> None:
        """A test can interrupt a process wherever it is, with whatever it likes."""
        simulator, first, second = two(visit(60.0), later(visit()))
        simulator.run_for(0.5)
        second.interrupt()
        first.interrupt(ServerUnavailableError("no more"))
        simulator.run()
        second.interrupt()

        assert isinstance(second.error, Interrupted)
        assert isinstance(first.error, ServerUnavailableError)


class TestTimedFaults:
    """What can happen at a time."""

    def test_crash_ends_a_hold_with_its_lease(self) -> None:
        """The lock of a crashed client is not renewed, and is free when its lease ends."""
        simulator, _, successor = two(
            visit(60.0), later(visit()), times=[(0.5, schedule.crash("a"))]
        )
        simulator.run()

        assert successor.result == pytest.approx(LEASE, abs=0.2)
        assert simulator.clients[0].crashed

    def test_pause_loses_what_it_outlasts(self) -> None:
        """A client that is paused beyond its lease finds its hold lost when it goes on."""
        lost: list[bool] = []

        def program(me: Process) -> Run:
            hold = yield me.acquire(me.lock("x"))
            yield me.pass_time(1.0)
            lost.append(hold.lost(me.client.clock()))

        simulator, _, successor = two(
            program, later(visit()), times=[(0.5, schedule.pause(5.0, "a"))]
        )
        simulator.run()

        assert lost == [True]
        assert successor.result == pytest.approx(LEASE, abs=0.2)

    def test_outage_is_sat_out(self) -> None:
        """A renewed hold outlives an outage that is shorter than its lease."""
        simulator, holder, successor = two(
            visit(8.0), later(visit()), times=[(n, schedule.outage(0.8)) for n in (1.0, 4.0)]
        )
        simulator.run()

        assert holder.error is None
        assert successor.result >= 8.0

    def test_restart_empties_the_server(self) -> None:
        """A server that lost its keys gives the lock to the next owner.

        Its former holder hears of that at its next renewal.
        """
        states: list[str] = []

        def program(me: Process) -> Run:
            hold = yield me.acquire(me.lock("x"))
            yield me.pass_time(1.5)
            states.append(hold.state)

        simulator, _, successor = two(program, later(visit()), times=[(0.5, schedule.restart())])
        simulator.run()

        assert states == [LOST]
        assert successor.result < 2.5

    def test_operator_removes_a_key(self) -> None:
        """Removing a key frees the lock without a message; the next owner finds it by looking."""
        simulator, _, successor = two(
            visit(60.0), later(visit()), times=[(0.5, schedule.force_release("x"))]
        )
        simulator.run_for(5.0)

        assert successor.result == pytest.approx(1.5, abs=1.1)

    def test_lost_messages_are_made_up_for_by_looking(self) -> None:
        """With every message lost the next owner has the lock within a poll cap."""
        simulator, _, successor = two(
            visit(0.5), later(visit()), times=[(0.0, schedule.lose_messages(9.0))]
        )
        simulator.run()

        assert 0.5 < successor.result <= 2.6

    def test_deaf_client_looks_often(self) -> None:
        """A client without a subscriber connection polls, and hears again when it has a new one."""
        simulator, _, successor = two(
            visit(2.0), later(visit()), times=[(0.2, schedule.deafen(1.0, "b"))]
        )
        simulator.run_for(0.5)
        assert not simulator.clients[1].session.waiters.hearing
        simulator.run_for(1.0)
        assert simulator.clients[1].session.waiters.hearing
        simulator.run()

        assert successor.result == pytest.approx(2.0, abs=0.1)

    def test_fault_without_a_victim_does_nothing(self) -> None:
        """A fault for a client that is gone, or a key that nobody uses, changes nothing."""
        simulator, *_ = two(visit(), later(visit()))
        for fault in (schedule.crash("nobody"), schedule.force_release()):
            simulator.strike(fault)
        simulator.run()

        assert all(process.result is not None for c in simulator.clients for process in c.processes)

    def test_faults_end_before_the_world_comes_to_rest(self) -> None:
        """When all processes have ended nothing further goes wrong, and what does ends."""
        simulator, *_ = two(
            visit(), visit(), times=[(1.5, schedule.outage(1e6)), (1e6, schedule.restart())]
        )
        simulator.run()

        assert not simulator.network.unreachable
        assert simulator.network.dump() == {}


class TestInvariants:
    """The invariants report what is wrong in a broken world."""

    def broken(
        self, harm: Callable[[Simulator], object], *programs: Callable[[Process], Run]
    ) -> str:
        """Return what is said when *harm* is done to a run half a second after its start."""
        simulator = Simulator(9)
        for program in programs or (visit(2.0),):
            simulator.spawn(simulator.client(lease=LEASE), program)
        simulator.timeline.at(0.5, lambda: harm(simulator))
        with pytest.raises(InvariantError) as raised:
            simulator.run()
        assert "seed 9" in str(raised.value)
        return str(raised.value).split(":")[0]

    @pytest.mark.parametrize(
        ("words", "number"),
        [
            (("HSET", "x", "somebody:1", 1), "I-01"),
            (("DEL", "x"), "I-03"),
            (("SET", "x", "something", "PX", 9000), "I-03"),
            (("HINCRBY", "x", "00000001:1", 1), "I-08"),
            (("PERSIST", "x"), "I-12"),
            (("SET", "y", "something", "PX", 10**6), "I-11"),
        ],
    )
    def test_wrong_server_is_found(self, words: tuple[Any, ...], number: str) -> None:
        """A server that stores what it must not is found in the very step."""

        def harm(simulator: Simulator) -> None:
            [hold] = simulator.clients[0].session.holds
            exact = [hold.holder if word == "00000001:1" else word for word in words]
            simulator.network.server.execute(*exact)

        assert self.broken(harm) == number

    def test_two_valid_holds_are_found(self) -> None:
        """Two owners who both believe that they hold a lock are found, whatever the server says."""

        def harm(simulator: Simulator) -> None:
            holds = [hold for client in simulator.clients for hold in client.session.holds]
            for hold in holds:
                hold.holder, hold.state, hold.depth = "one:1", HELD, 1
                hold.valid_until = 1e9
            simulator.network.server.execute("DEL", "x")
            simulator.network.server.execute("HSET", "x", "one:1", 1)
            simulator.network.server.execute("PEXPIRE", "x", 9000)

        assert self.broken(harm, visit(2.0), visit(2.0)) == "I-02"

    @pytest.mark.parametrize("change", ["within a hold", "from one to the next"])
    def test_wrong_token_is_found(self, change: str) -> None:
        """A token that changes within a hold, or does not grow from one to the next, is found."""

        def program(me: Process) -> Run:
            lock = FencedLock(me.client.session, "x")
            yield me.acquire(lock)
            yield me.pass_time(1.0)
            yield me.release(lock)

        def later(me: Process) -> Run:
            yield me.pass_time(2.0)  # a waiter would get a token above the holder's by the release
            yield from program(me)

        def harm(simulator: Simulator) -> None:
            if change == "within a hold":
                [hold] = [
                    h for client in simulator.clients for h in client.session.holds if h.token
                ]
                hold.token = 99
            else:
                simulator.network.server.execute("SET", "redisson_lock_token:{x}", 0)

        assert self.broken(harm, program, later) == "I-04"

    def test_lost_wake_up_is_found(self) -> None:
        """Somebody who waits on past a free lock is found."""

        def harm(simulator: Simulator) -> None:
            for client in simulator.clients:
                client.session.waiters.notify = lambda *_: None  # type: ignore[method-assign]

        assert self.broken(harm, visit(2.0), later(visit())) == "I-05"

    def test_answer_that_comes_too_late_is_found(self) -> None:
        """An operation that outlasts its time-out is found."""

        def program(me: Process) -> Run:
            me._expect_end(me.client.clock() + 0.1)
            yield me.lock("x").acquire(me.owner, me.client.clock() + 5.0, None)

        assert self.broken(lambda _: None, visit(6.0), later(program)) == "I-10"

    @pytest.mark.parametrize("what", ["hold", "waiter", "cleanup", "subscription"])
    def test_what_is_left_is_found(self, what: str) -> None:
        """A hold, waiter, unanswered script or subscription that stays is found at rest."""

        def harm(simulator: Simulator) -> None:
            [client, *_] = simulator.clients
            if what == "hold":
                client.session.holds.end = lambda hold: None  # type: ignore[method-assign]
                client.session.holds.released = lambda hold: None  # type: ignore[method-assign]
            elif what == "waiter":
                client.session.waiters.join("c", lambda: None)
            elif what == "cleanup":
                client.cleanups.take_due = lambda now: []  # type: ignore[method-assign]
                client.cleanups.next_due = lambda: 1e9  # type: ignore[method-assign]
                [hold] = client.session.holds
                client.clean_up(Cleanup(hold.core.release_script(hold, 0), 1e9))
            else:
                simulator.network.subscribe("c", client._subscriber)

        assert self.broken(harm) == "I-11"

    def test_forgotten_hold_is_found(self) -> None:
        """A hold that its client dropped but the server still has is found in the same step."""

        def harm(simulator: Simulator) -> None:
            [hold] = simulator.clients[0].session.holds
            simulator.clients[0].session.holds.end(hold)

        assert self.broken(harm) == "I-19"

    def test_unknown_kind_is_refused(self) -> None:
        """A lock that the invariants know nothing of cannot be used in a simulation by mistake."""

        def program(me: Process) -> Run:
            lock = me.lock("x")
            lock.kind = "strange lock"
            yield me.acquire(lock)

        simulator = Simulator(1)
        simulator.spawn(simulator.client(), program)
        with pytest.raises(KeyError, match="strange lock"):
            simulator.run()


class TestSchedule:
    """Which faults happen where."""

    def test_nothing_is_planned_by_itself(self) -> None:
        """A schedule without anything in it is benign."""
        assert Schedule().benign
        assert not Schedule(times=[(1.0, schedule.restart())]).benign

    def test_rates_are_kept(self) -> None:
        """Drawn faults come about as often as asked for, and take no longer than allowed."""
        simulator = Simulator(1)
        plan = Schedule(rates={"raise": 0.3, "pause": 2.0, "crash": 0.0}, longest=2.0)
        drawn = [plan.at_effect("p", n, simulator.random) for n in range(2000)]
        faults = [fault for fault in drawn if fault is not None]
        timed = [plan.next_timed(simulator.random) for _ in range(2000)]

        assert 450 < len(faults) < 750
        assert {fault.kind for fault in faults} == {"raise"}
        assert all(fault.seconds <= 2.0 for fault in faults)
        assert {fault.kind for _, fault in filter(None, timed)} == {"pause"}
        assert 0.4 < sum(seconds for seconds, _ in filter(None, timed)) / 2000 < 0.6

    def test_planned_fault_comes_before_drawn_ones(self) -> None:
        """What is planned for a place happens there, whatever the rates."""
        planned = schedule.duplicate()
        plan = Schedule(effects={("p", 1): planned}, rates={"raise": 1.0})

        assert plan.at_effect("p", 1, Simulator(1).random) is planned
