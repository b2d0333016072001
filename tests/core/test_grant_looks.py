"""A client looks once whether the one that it gave a lock to has taken it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import Process, Schedule, Simulator, schedule

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.read_write_lock import WriteLock
from interlock._core.model.effects import NEVER, Enqueue, Eval, Wait
from interlock._core.objects.election import Election
from interlock._core.queue.grant_looks import LOOK_AFTER, GrantLooks
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


def test_the_end_of_a_term_is_followed_by_no_look(bench: Bench, play: type[Play]) -> None:
    """The queue of an election's name is that of the lock of this name."""
    election = Election(bench.session, "x", None, lambda: ("host", 1))
    assert play(election.acquire(bench.owner, NEVER, None)).answer([1, 7, b"clock"]).answer(1).over
    assert play(election.release(bench.owner)).answer(3).over
    assert bench.session.looks.next_due() == NEVER
