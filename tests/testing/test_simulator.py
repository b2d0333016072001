"""The simulator: the same run for a seed, every fault as described, no broken invariant missed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import (
    InvariantError,
    Process,
    Simulator,
)
from tests.support.simulator.workload import play

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.model.effects import Cleanup
from interlock._core.model.holds import HELD

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


def later(program: Callable[[Process], Run], seconds: float = 0.01) -> Callable[[Process], Run]:
    """Return *program*, begun a little later."""

    def delayed(me: Process) -> Run:
        yield me.pass_time(seconds)
        return (yield from program(me))

    return delayed


def test_seed_decides_everything() -> None:
    """The same seed gives the same run, event by event; another one gives another."""

    def events(seed: int) -> list[tuple[float, str]]:
        return [(event.at, event.who) for event in play(seed).timeline.trace]

    assert events(7) == events(7)
    assert events(7) != events(11)


def test_documented_example_runs() -> None:
    """The example in the documentation does what it shows."""
    page = Path(__file__).parents[2] / "docs" / "explanation" / "simulator.md"
    [example] = re.findall(
        r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    exec(example, {})


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
