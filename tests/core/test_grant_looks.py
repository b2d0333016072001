"""A client looks once whether the one that it gave a lock to has taken it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import Process, Schedule, Simulator, schedule

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.read_write_lock import WriteLock
from interlock._core.model.effects import NEVER, Enqueue, Eval, Wait
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.semaphore import Semaphore
from interlock._core.queue.grant_looks import LOOK_AFTER, GrantLooks
from interlock.errors import ClosedError, ServerUnavailableError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.core.bench import Bench, Play

OPTIONS = Options(lease=60.0, poll_cap=50.0)


@pytest.mark.parametrize("kind", [Lock, FencedLock, WriteLock])
@pytest.mark.parametrize("fault", [schedule.pause(20.0, "b"), schedule.crash("b")], ids=repr)
def test_the_next_client_follows_one_that_cannot_take_the_lock(
    kind: type[Lock], fault: schedule.Fault
) -> None:
    """It has the lock long before it would look by itself."""
    simulator = Simulator(1, schedule=Schedule(times=[(1.9995, fault)]))
    clients = [simulator.client(OPTIONS) for _ in range(3)]
    began: dict[str, float] = {}

    def program(me: Process) -> Generator[Any, Any, None]:
        lock = kind(me.client.session, "x")
        yield me.pass_time(0.1 * clients.index(me.client))
        if (yield me.acquire(lock)) is not None:
            began[me.client.name] = simulator.now
            yield me.pass_time(2.0 - simulator.now)
            yield me.release(lock)

    for client in clients:
        _ = simulator.spawn(client, program)
    simulator.run_for(4.0)
    assert began["c"] < 2.0 + 3 * LOOK_AFTER


def test_a_look_is_put_off_by_the_next_release(bench: Bench) -> None:
    """A client that releases often looks only after its last release, and is woken once."""
    woken: list[None] = []
    looks = GrantLooks(lambda: woken.append(None))
    looks.given(bench.lock, 10.0)
    assert looks.next_due() == 10.0 + LOOK_AFTER
    looks.given(bench.lock, 10.2)
    assert len(woken) == 1
    assert looks.take_due(10.0 + LOOK_AFTER) == []
    assert looks.next_due() == 10.2 + LOOK_AFTER
    assert looks.take_due(10.2 + LOOK_AFTER) == [bench.lock]
    assert looks.next_due() == NEVER


def test_both_kinds_of_a_name_are_looked_at(bench: Bench) -> None:
    """A plain and a leased semaphore of one name: only a leased one's look finds ended leases."""
    looks = GrantLooks(lambda: None)
    kinds = Semaphore, LeasedSemaphore
    queues: list[Any] = [kind(bench.session, "name").queue for kind in kinds]
    for queue in queues:
        looks.given(queue, 10.0)
    assert looks.take_due(11.0) == queues


class Noted(dict[Any, Any]):
    """The looks to come; another thread notes one more just when they were copied."""

    def __init__(self, looks: GrantLooks, lock: Lock, at: float) -> None:
        super().__init__()
        self._looks, self._lock, self._at = looks, lock, at

    def copy(self) -> dict[Any, Any]:
        """Return a copy without it."""
        copied = dict(self)
        self._looks.given(self._lock, self._at)
        return copied


def test_a_look_that_is_noted_while_the_next_one_is_sought(bench: Bench) -> None:
    """It may be missed there, so it wakes the thread."""
    woken: list[None] = []
    looks = GrantLooks(lambda: woken.append(None))
    looks.given(bench.lock, 10.0)
    assert looks.next_due() == 10.0 + LOOK_AFTER
    assert looks.take_due(11.0) == [bench.lock]

    looks._due = Noted(looks, bench.lock, 11.0)
    _ = looks.next_due()
    assert len(woken) == 2


def test_a_look_that_is_put_off_while_it_is_taken(bench: Bench) -> None:
    """The claim that it is for has just begun: it comes when that is over."""
    looks = GrantLooks(lambda: None)
    looks._due = Noted(looks, bench.lock, 11.0)
    looks.given(bench.lock, 10.0)
    assert looks.take_due(11.0) == []
    assert looks.next_due() == 11.0 + LOOK_AFTER


@pytest.mark.parametrize("error", [ClosedError("closed"), ServerUnavailableError("no answer")])
def test_a_look_without_an_answer_comes_once_more(
    bench: Bench, play: type[Play], error: Exception
) -> None:
    """The connection may have been idle for too long; and what closes, sends it at its end."""
    looks = GrantLooks(lambda: None)
    for left in (1, 0, 1):
        assert play(looks.look([bench.lock], lambda: 20.0)).answer([error]).over
        assert len(looks.calls()) == left
        _ = looks.take_due(30.0)


def test_a_look_follows_a_look_that_gave_the_lock_away(bench: Bench, play: type[Play]) -> None:
    """The next client may be frozen too."""
    looks = GrantLooks(lambda: None)
    looking = play(looks.look([bench.lock], lambda: 20.0))
    [call] = looking.effect.evals
    assert call.args[-1] == "-"
    looking.answer([3])
    assert looks.next_due() == 20.0 + LOOK_AFTER
    looks.forget()
    assert play(looks.look([bench.lock], lambda: 20.0)).answer([None]).over
    assert looks.next_due() == NEVER


def test_a_client_that_polls_in_vain_looks(bench: Bench, play: type[Play]) -> None:
    """Its first refusals are none: the queue may be new, and its subscription too."""
    bench.waiters.hearing = True
    waiting = play(bench.lock.acquire(bench.owner, bench.now + 1000, None)).answer([30_000, b"1"])
    assert isinstance(waiting.effect, Enqueue)
    waiter = bench.waiters.join(waiting.effect.line, lambda: None)
    waiting.answer(waiter)
    for looks in (False, True):
        assert isinstance(waiting.effect, Wait)
        bench.now = waiting.effect.until
        asked = waiting.answer(None).effect
        assert isinstance(asked, Eval)
        waiting.answer([20_000, b"2"])
        assert (bench.session.looks.next_due() < NEVER) == looks
    [call] = bench.session.looks.calls()
    assert call.args[-1] == "-"


def test_a_release_that_gave_the_lock_away_is_followed_by_a_look(
    bench: Bench, play: type[Play]
) -> None:
    """One that freed it for all is not."""
    for answer, due in ((1, NEVER), (2, NEVER), (3, bench.now + LOOK_AFTER)):
        _ = bench.held()
        assert play(bench.lock.release(bench.owner)).answer(answer).over
        assert bench.session.looks.next_due() == due
