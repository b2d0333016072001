"""Every lock in the simulator, with each fault at every effect of each of two rivals."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.core.simulator import Simulator
from tests.core.simulator.process import Process
from tests.core.simulator.schedule import (
    Interrupted,
    Schedule,
    delay_reply,
    delay_request,
    drop_reply,
    drop_request,
    duplicate,
    fail,
    interrupt,
)

from interlock._core.locks.base import Lock
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.spin_lock import SpinLock
from interlock.backoff import ExponentialBackoff
from interlock.errors import HoldLostError, InterlockError
from interlock.options import Options

Make = Callable[..., Any]


NAME = "name"
OPTIONS = Options(command_timeout=1.0, outage_timeout=4.0, lease=6.0)
LATE = 1.5
"""Seconds: longer than a client waits for a reply, so that it has sent the next copy by then."""
TROUBLE = (InterlockError, Interrupted)
TRIES = 4
FAULTS = {
    "interrupted-before": interrupt("before"),
    "interrupted-after": interrupt("after"),
    "interrupted-late": interrupt("late", seconds=0.5),
    "request-lost": drop_request(),
    "reply-lost": drop_reply(),
    "reply-lost-slowly": drop_reply(LATE),
    "twice": duplicate(),
    "request-late": delay_request(LATE),
    "reply-late": delay_reply(LATE),
    "refused": fail(sent=False),
    "failed-after-sending": fail(sent=True),
}


@dataclass(frozen=True)
class Class:
    """A class under test.

    Attributes:
        make: makes the lock of the first rival, from its session, its name and its key.
        other: makes that of the second one, if it is another.
        reentrant: whether its owner may take it again.
    """

    make: Make
    other: Make | None = None
    reentrant: bool = True


CLASSES = {
    "lock": Class(Lock),
    "lock-once": Class(partial(Lock, reentrant=False), reentrant=False),
    "fair": Class(FairLock),
    "fenced": Class(FencedLock),
    "spin": Class(partial(SpinLock, backoff=ExponentialBackoff())),
    "write": Class(WriteLock),
    "read-write": Class(ReadLock, WriteLock),
    "group": Class(partial(GroupLock, values=["a", "b"]), partial(GroupLock, values=["b", "c"])),
}


class Game:
    """Two clients that want one lock; the judge of the simulator looks on.

    Attributes:
        played: the process of each.
        entered: how often somebody was inside.
    """

    def __init__(self, tested: Class, lease: float | None, schedule: Schedule) -> None:
        self._simulator = Simulator(1, schedule)
        self._tested, self._lease = tested, lease
        self.entered = 0
        self.played = [self._rival(0, 2.0), self._rival(1, 3.0)]
        self._simulator.run()

    def _rival(self, number: int, timeout: float) -> Process:
        """Start a process that acquires, acquires again, and releases."""
        make = (number and self._tested.other) or self._tested.make

        def program(me: Process) -> Generator[Any, Any, None]:
            lock = make(me.client.session, NAME, NAME)
            self._simulator.locks.setdefault(NAME, lock)
            try:
                if (yield from me.acquire(lock, timeout, self._lease)) is not None:
                    self.entered += 1
                    if self._tested.reentrant:
                        yield from me.acquire(lock, timeout, self._lease)
                    yield from me.sleep(0.05)
            except TROUBLE:
                pass
            for _ in range(TRIES):
                if not me.holds(lock):
                    return
                try:
                    yield from me.release(lock)
                except HoldLostError:
                    return
                except TROUBLE:
                    continue

        return self._simulator.client(OPTIONS).spawn(program)


@pytest.mark.promise("once")
@pytest.mark.parametrize("lease", [None, 5.0], ids=["renewed", "leased"])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect(name: str, fault: str, lease: float | None) -> None:
    """There are never two holders, and nothing is left on any server or in any table."""
    tested = CLASSES[name]
    recorded = Game(tested, lease, Schedule())
    assert recorded.entered == 2
    for process in recorded.played:
        assert process.effects > 1
        for place in range(process.effects):
            game = Game(tested, lease, Schedule({(process.name, place): FAULTS[fault]}))
            others = [each for each in game.played if each.name != process.name]
            assert game.entered >= len(others), "the other one was kept out"
