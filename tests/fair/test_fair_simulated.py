"""The fair lock in the simulator: order, deadlines and liveness, under any fault of any effect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import Simulator, World
from tests.support.simulator.invariants import defaults
from tests.support.simulator.schedule import Interrupted, Schedule

from interlock._core.locks.fair_lock import FairLock
from interlock._core.model import names
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.simulator import Process
    from tests.support.simulator.invariants import Dumps

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold

WAIT = 1.0
OPTIONS: dict[str, Any] = {
    "fair_wait": WAIT,
    "lease": 2.0,
    "command_timeout": 0.3,
    "outage_timeout": 2.0,
}
TROUBLE = (HoldLostError, ServerUnavailableError, Interrupted)
EFFECT_FAULTS = {
    "drop request": 0.02,
    "drop reply": 0.03,
    "duplicate": 0.03,
    "delay reply": 0.02,
    "raise": 0.03,
    "abandon": 0.005,
}
TIMED_FAULTS = {"crash": 0.1, "deafen": 0.2, "lose messages": 0.2, "force release": 0.1}
SCHEDULES = {
    "calm": Schedule(),
    "effects": Schedule(rates=EFFECT_FAULTS),
    "times": Schedule(rates=TIMED_FAULTS),
    "both": Schedule(rates={**EFFECT_FAULTS, **TIMED_FAULTS}),
}


class Book:
    """The history of the one lock's queue, as the server saw it; an invariant of the simulation.

    Attributes:
        asked: when each holder's last script for a place ran, by the server's time.
        left: who sent a release.
        enqueued: holders in the order in which they came to the queue.
        served: holders in the order in which they got the lock from the queue.
    """

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        self.left: set[str] = set()
        self.enqueued: list[str] = []
        self.served: list[str] = []
        self._queue: list[str] = []
        self._deadlines: dict[str, float] = {}
        self._holder: str | None = None
        self._free_since: float | None = None

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Compare the queue with what it was one step ago."""
        dump, now = dumps[simulator.network.where], simulator.now
        stored = {key: dump[key].value for key in dump}
        queue = [member.decode() for member in stored.get(names.fair_queue("x"), ())]
        deadlines = {k.decode(): v for k, v in stored.get(names.fair_timeouts("x"), {}).items()}
        holder = next((member.decode() for member in stored.get("x", {})), None)
        if queue != self._queue or deadlines != self._deadlines or holder != self._holder:
            self._look(simulator, queue, deadlines, holder)
        for place, waiter in enumerate(queue):
            left = deadlines[waiter] / 1000 - _server_time(simulator)
            if left > (place + 1) * WAIT + 0.002:
                simulator.fail(f"{waiter} at place {place} has {left} s")
        alive = any(now - self.asked[waiter] < WAIT for waiter in queue)
        if holder is not None or not alive:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        elif now - max(self._free_since, simulator.disturbed_at) > 2 * WAIT:
            simulator.fail(f"free since {self._free_since}, and {queue} wait")
        self._queue, self._deadlines, self._holder = queue, deadlines, holder

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _look(
        self,
        simulator: World,
        queue: list[str],
        deadlines: dict[str, float],
        holder: str | None,
    ) -> None:
        now = simulator.now
        for waiter in queue:
            if waiter not in self._queue:
                self.enqueued.append(waiter)
            if deadlines[waiter] > self._deadlines.get(waiter, 0.0):
                self.asked[waiter] = now
        new = holder if holder != self._holder else None
        if new in self._queue:
            self.served.append(new)
        expected = [waiter for waiter in self._queue if waiter in queue]
        if queue[: len(expected)] != expected:
            simulator.fail(f"I-07: the order changed from {self._queue} to {queue}")
        for waiter in self._queue:
            gone = waiter not in queue and waiter != new and waiter not in self.left
            if gone and now - self.asked[waiter] < WAIT - 0.002:
                simulator.fail(f"I-07: {waiter} was alive and lost its place to {new}")


def _server_time(simulator: World) -> float:
    seconds, micros = simulator.network.server.execute("TIME")
    return int(seconds) + int(micros) / 1e6


class Watched(FairLock):
    """A fair lock whose releases are written down."""

    def __init__(self, me: Process, book: Book) -> None:
        super().__init__(me.client.session, "x")
        self._book = book

    def release_script(self, hold: Hold, depth: int) -> Eval[bool]:
        """Note that *hold* may be out of the queue from now on."""
        self._book.left.add(hold.holder)
        return super().release_script(hold, depth)


def _play(seed: int, schedule: Schedule) -> Book:
    """Have some clients with some processes each use the lock, until all is at rest."""
    book = Book()
    simulator = Simulator(seed, schedule=schedule, invariants=[*defaults(), book])
    random = simulator.random

    def program(me: Process) -> Generator[Op[Any], Any, None]:
        lock = Watched(me, book)
        for _ in range(5):
            yield me.pass_time(random.random() ** 3)
            try:
                timeout = random.choice((None, None, None, 0.0, 0.05, 0.8))
                if (yield me.acquire(lock, timeout)) is None:
                    continue
                yield me.pass_time(random.random() ** 4 * 3)
                yield me.release(lock)
            except TROUBLE:
                while me.holds(lock):
                    try:
                        yield me.release(lock)
                    except TROUBLE:
                        continue

    for _ in range(3):
        client = simulator.client(**OPTIONS)
        for _ in range(2):
            simulator.spawn(client, program)
    simulator.run()
    return book


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(15))
def test_order_and_deadlines_under_faults(schedule: str, seed: int) -> None:
    """No live waiter is overtaken or loses its place.

    No deadline is too far away, and a free lock with live waiters is taken.
    """
    book = _play(seed, SCHEDULES[schedule])
    assert book.enqueued


@pytest.mark.parametrize("seed", range(30))
def test_it_is_first_come_first_served(seed: int) -> None:
    """Without faults the waiters get the lock in the order in which they joined the queue."""
    book = _play(seed, Schedule())
    # An owner that gave up comes back with another holder id. So only the last place of an id can
    # have been in vain.
    due = Counter(book.served)
    expected = [waiter for waiter in book.enqueued if _draw(due, waiter)]
    assert book.served == expected
    assert len(expected) > 2


def _draw(due: Counter[str], waiter: str) -> bool:
    due[waiter] -= 1
    return due[waiter] >= 0
