"""A peer that goes wrong, in whatever way, is shown as an error and never as a figure."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, NoReturn

import pytest
import redis
from benchmarks.compare import Contender
from benchmarks.measure import Case, Pace, Sample
from benchmarks.peer import AsyncPeer, SyncPeer
from benchmarks.peers import bare
from benchmarks.report import as_json
from benchmarks.tables import as_table
from benchmarks.work import conduct
from benchmarks.works import uncontended

from benchmarks import measure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from benchmarks.peer import Peer
    from benchmarks.report import Report
    from benchmarks.work import Bed


REFUSED = "RefusedError: acquire did not get a free lock"
BOTH = (True, True)  # the first pairs of the two workers


@dataclass
class Session:
    """A session whose locks are itself, and do *acquire*."""

    acquire: Callable[[], bool]

    def lock(self, name: str) -> Session:
        """Return the one lock there is."""
        return self

    def release(self) -> None:
        """Claim to have released."""


class AsyncSession:
    """The same for tasks."""

    def __init__(self, acquire: Callable[[], bool]) -> None:
        self._acquire = acquire

    def lock(self, name: str) -> AsyncSession:
        """Return the one lock there is."""
        return self

    async def acquire(self) -> bool:
        """Do what was given."""
        return self._acquire()

    async def release(self) -> None:
        """Claim to have released."""


def threads(acquire: Callable[[], bool]) -> Peer:
    """Return a peer for threads whose locks do *acquire*."""

    @contextmanager
    def session(url: str, workers: int) -> Generator[Session]:
        yield Session(acquire)

    return SyncPeer("faulty", (), open=session)


def tasks(acquire: Callable[[], bool]) -> Peer:
    """Return a peer for tasks whose locks do *acquire*."""

    @asynccontextmanager
    async def session(url: str, workers: int) -> AsyncGenerator[AsyncSession]:
        yield AsyncSession(acquire)

    return AsyncPeer("faulty", (), open=session)


def broken() -> bool:
    """Fail as a broken client does."""
    raise ValueError("no such luck")


def absent(url: str, workers: int) -> NoReturn:
    """Fail as a library does that is not installed."""
    raise ModuleNotFoundError("No module named 'faulty'")


def answers(*first: bool, then: bool) -> Callable[[], bool]:
    """Give the answers *first*, then always the same."""
    script = chain(first, repeat(then))
    return lambda: next(script)


@contextmanager
def litter(url: str, workers: int) -> Generator[Session]:
    """Set the same key again and again, and leave it."""
    with redis.Redis.from_url(url) as client:
        yield Session(lambda: bool(client.set("left", 1)))


def run(peer: Peer, rounds: int = 1) -> Report:
    """Report on *peer* beside the bare limit."""
    case = Case(peer.kind, 2)
    limit = bare.SYNC if peer.kind == "threads" else bare.ASYNC
    contenders = (Contender(case, limit), Contender(case, peer))
    work = replace(uncontended.WORK, contenders=contenders)
    return conduct(work, pace=Pace(0.0, 0.05), rounds=rounds, seed=1)


@pytest.mark.parametrize(
    ("peer", "error"),
    [
        pytest.param(threads(broken), "ValueError: no such luck", id="thread raises"),
        pytest.param(tasks(broken), "ValueError: no such luck", id="task raises"),
        pytest.param(threads(answers(False, then=True)), REFUSED, id="thread is refused at first"),
        pytest.param(threads(answers(*BOTH, then=False)), REFUSED, id="thread is refused later"),
        pytest.param(tasks(answers(False, then=True)), REFUSED, id="task is refused at first"),
        pytest.param(tasks(answers(*BOTH, then=False)), REFUSED, id="task is refused later"),
        pytest.param(threads(lambda: True), "counted 0 evalsha", id="thread asks no server"),
        pytest.param(tasks(lambda: True), "counted 0 evalsha", id="task asks no server"),
        pytest.param(SyncPeer("faulty", (), open=absent), "No module named", id="not installed"),
        pytest.param(
            SyncPeer("faulty", (), {"set": 1}, open=litter), "1 keys were left", id="leaves keys"
        ),
    ],
)
def test_a_faulty_peer_is_shown_as_an_error(peer: Peer, error: str) -> None:
    """An error takes the place of all figures and ratios, and the other peers keep theirs."""
    report = run(peer)
    limit, faulty = as_json(report)["results"]
    assert error in faulty["error"]
    assert (faulty["figures"], faulty["ratios"]) == (None, {})
    assert limit["error"] is None
    assert limit["figures"]["rate"]["median"] > 0
    assert report.failed
    assert f"faulty  error: {faulty['error']}" in as_table(report)


def test_a_peer_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that do not come back in time end neither the benchmark nor as a figure."""
    monkeypatch.setattr(measure, "GRACE", 0.2)
    hung = threading.Event()
    try:
        report = run(threads(hung.wait))
    finally:
        hung.set()
    assert as_json(report)["results"][1]["error"] == "StuckError: 2 of 2 threads are stuck"


def test_a_task_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that do not come back in time are cancelled, and reported as stuck."""
    monkeypatch.setattr(measure, "GRACE", 0.2)

    class Hanging(AsyncSession):
        async def acquire(self) -> bool:
            return await asyncio.Event().wait()

    @asynccontextmanager
    async def session(url: str, workers: int) -> AsyncGenerator[AsyncSession]:
        yield Hanging(broken)

    report = run(AsyncPeer("faulty", (), open=session))
    assert as_json(report)["results"][1]["error"] == "StuckError: the tasks are stuck"


@pytest.mark.parametrize("enough", [0.5, 60.0])
def test_a_window_that_was_too_short_is_followed_by_a_longer_one(enough: float) -> None:
    """Nothing counted is no figure, and an error only where seconds are not enough."""
    windows: list[float] = []

    def patient(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
        windows.append(pace.seconds)
        return {"rate": Sample.of(float(pace.seconds > enough), total=2).rate}

    work = replace(
        uncontended.WORK, contenders=(Contender(Case("threads", 2), bare.SYNC),), measure=patient
    )
    (result,) = conduct(work, pace=Pace(0.0, 0.05), rounds=1, seed=1).results
    if enough < 1:
        assert (result.error, result.figures("rate")) == (None, [1.0])
    else:
        error = "NothingCountedError: none of 2 pairs was completed while it was counted"
        assert (result.error, result.figures("rate")) == (error, [])
    assert windows == pytest.approx([0.05, 0.2, 0.8, 3.2, 12.8][: 3 if enough < 1 else 5])
