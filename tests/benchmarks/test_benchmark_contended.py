"""The works with processes of their own, with windows as short as they can be."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from benchmarks.compare import Contender
from benchmarks.contend import Tasks, Threads, as_rows, clock, from_rows
from benchmarks.fleet import AgentError, fleet
from benchmarks.measure import Case, Pace
from benchmarks.peer import SyncPeer
from benchmarks.peers import bare_lock, interlock
from benchmarks.report import as_json
from benchmarks.turns import OverlapError, check_exclusive
from benchmarks.work import conduct
from benchmarks.works import contended, handoff

if TYPE_CHECKING:
    from benchmarks.peer import Peer
    from benchmarks.work import Work

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

PEERS: tuple[Peer, ...] = (bare_lock.SYNC, bare_lock.ASYNC, interlock.SYNC, interlock.ASYNC)


@pytest.mark.parametrize(
    ("work", "cases"),
    [
        (contended.WORK, [Case("threads", 3, work=0.001), Case("tasks", 3)]),
        (contended.WORK, [Case("threads", 2, processes=2)]),
        (handoff.WORK, handoff.CASES),
    ],
    ids=["one process", "two processes", "handoff"],
)
def test_a_work_gives_every_figure_of_its_columns(work: Work, cases: list[Case]) -> None:
    """Agents of both kinds work together, and every column and every goal's figure is there."""
    contenders = [Contender(case, peer) for case in cases for peer in PEERS]
    contenders = [one for one in contenders if one.peer.kind == one.case.kind]
    work = replace(work, contenders=tuple(contenders))
    report = conduct(work, pace=Pace(0.05, 0.3), rounds=1, seed=1)
    for result in as_json(report)["results"]:
        assert result["error"] is None
        assert set(result["figures"]) >= {column.name for column in work.columns}
        assert result["figures"][work.columns[0].name]["median"] > 0


class _NoLock:
    """A lock that lets everybody in."""

    def lock(self, name: str) -> _NoLock:
        return self

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Claim to have released."""


class _LockForAll(_NoLock):
    """It even has everybody wait for the others, to be in together."""

    def __init__(self, workers: int) -> None:
        self._all = threading.Barrier(workers)

    def lock(self, name: str) -> _NoLock:
        return self if name == "name" else _NoLock()

    def acquire(self) -> bool:
        with contextlib.suppress(threading.BrokenBarrierError):  # one of them has gone home
            self._all.wait(1)
        return True


class _FailingLock(_NoLock):
    def acquire(self) -> bool:
        raise ValueError("no such luck")


class _MutexLock:
    """A lock of this process, for as many sessions as there are."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()

    def lock(self, name: str) -> _MutexLock:
        return self if name == "name" else _MutexLock()

    def acquire(self) -> bool:
        return self._mutex.acquire()

    def release(self) -> None:
        self._mutex.release()


def test_turns_survive_their_way_through_json() -> None:
    """A mutex's turns are exclusive as they are measured and as they are read back."""
    threads = Threads(_MutexLock(), "name", 3, 0.001)
    threads.prepare()
    turns = threads.contend(clock(), clock() + 1)
    assert len(turns) == 3
    assert sum(map(len, turns)) > 3
    check_exclusive(turns)
    assert from_rows(as_rows(turns)) == turns


def test_a_thread_that_fails_ends_the_contest() -> None:
    """A worker's error is raised, while getting ready and later."""
    with pytest.raises(ValueError, match="no such luck"):
        Threads(_FailingLock(), "name", 2, 0.0).prepare()


async def test_a_task_that_fails_ends_the_contest() -> None:
    """The same for tasks."""

    class Failing:
        def lock(self, name: str) -> Failing:
            return self

        async def acquire(self) -> bool:
            raise ValueError("no such luck")

        async def release(self) -> None:
            """Claim to have released."""

    tasks = Tasks(Failing(), "name", 2, 0.0)
    with pytest.raises(ValueError, match="no such luck"):
        await tasks.prepare()
    with pytest.raises(ValueError, match="no such luck"):
        await tasks.contend(clock(), clock() + 1)


def test_a_lock_that_lets_two_in_is_an_error() -> None:
    """Exclusion is checked from what the workers measured, not believed."""
    threads = Threads(_LockForAll(4), "name", 4, 0.01)
    threads.prepare()
    turns = threads.contend(clock(), clock() + 1)
    with pytest.raises(OverlapError, match="workers held the lock"):
        check_exclusive(turns)


def test_an_agent_tells_what_went_wrong(redis_url: str) -> None:
    """A failure inside an agent is raised outside, with its own words."""
    with fleet(bare_lock.SYNC, redis_url, agents=1, workers=1) as (agent,):
        with pytest.raises(AgentError, match="cannot release now"):
            agent.ask(do="release")
        assert agent.ask(do="acquire", name="name")["at"] <= time.monotonic()
    unknown = SyncPeer("nobody", (), open=bare_lock.SYNC.open)
    with (
        pytest.raises(AgentError, match="no peer nobody"),
        fleet(unknown, redis_url, agents=1, workers=1),
    ):
        pass


def test_an_agent_that_hangs_is_ended(redis_url: str) -> None:
    """No answer in time is an error, and no process is left behind."""
    with fleet(bare_lock.SYNC, redis_url, agents=2, workers=1) as (holder, waiter):
        holder.ask(do="acquire", name="name")
        with pytest.raises(AgentError, match="did not answer in 0 s"):
            waiter.ask(0.3, do="acquire", name="name")
        pids = [holder.pid, waiter.pid]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
