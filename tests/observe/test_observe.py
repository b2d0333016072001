"""Observers are told everything, on both faces, and no observer harms its client."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.observe.conftest import logged
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock import HoldLostError, observe
from interlock._drivers.background import event_delivery as observers

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.observe.conftest import Recorder
    from tests.support.proxy import FaultProxy

    from interlock import Client


def names(recorder: Recorder) -> list[str]:
    """Return the kinds of the events in order, without those that time brings."""
    timed = {"Renewed", "SlowHold", "SlowAcquire"}
    found = [type(event).__name__ for event in recorder.events]
    return [name for name in found if name not in timed]


def test_each_use_of_a_lock_is_told(client: Client, recorder: Recorder) -> None:
    """An acquire and a release are told in order, with durations, and a re-entry is not."""
    client.observe(recorder)
    before = time.time()
    with client.fenced_lock("orders") as hold, client.fenced_lock("orders"):
        time.sleep(0.05)  # the hold lasts
    wait_until(lambda: bool(recorder.of(observe.Released)), 5, "both are told")

    assert names(recorder) == ["Acquired", "Released"]
    (acquired,), (released,) = recorder.of(observe.Acquired), recorder.of(observe.Released)
    assert isinstance(acquired, observe.Acquired)
    assert isinstance(released, observe.Released)
    assert (acquired.name, acquired.kind, acquired.token) == ("orders", "fenced lock", hold.token)
    assert acquired.holder == hold.holder
    assert acquired.client_id == client.client_id
    assert "MainThread" in acquired.owner
    assert not acquired.waited
    assert acquired.seconds > 0
    assert released.seconds >= 0.05
    assert before - 0.1 < acquired.time < released.time + 0.001 < time.time() + 0.1


async def test_tasks_are_told_of_too(redis_url: str, recorder: Recorder) -> None:
    """The asyncio face tells the same events, a hand-over to a waiting task included."""
    async with interlock.asyncio.connect(redis_url) as client:
        client.observe(recorder)

        async def work() -> None:
            async with client.lock("orders"):
                await asyncio.sleep(0.01)  # the others wait meanwhile

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(work(), name=f"worker {number}")

    assert sorted(names(recorder)) == ["Acquired"] * 3 + ["Released"] * 3 + ["Waiting"] * 2
    waited = [event for event in recorder.events if isinstance(event, observe.Acquired)]
    assert sorted(event.waited for event in waited) == [False, True, True]
    assert max(event.seconds for event in waited) >= 0.02
    assert all("worker" in event.owner for event in recorder.of(observe.Released))


@pytest.mark.parametrize("factory", ["lock", "spin_lock"])
def test_waits_that_end_without_the_lock_are_told(
    factory: str, client: Client, recorder: Recorder
) -> None:
    """A wait that times out is told with its length, and leaves no waiter in the table."""
    client.observe(recorder)
    lock = getattr(client, factory)("orders")
    wait_until(lambda: bool(recorder.clients), 5, "the observer has its client")
    (view,) = recorder.clients
    with lock as hold:
        done = in_thread(lambda: lock.acquire(timeout=1.5))
        wait_until(lambda: view.waiters() == {lock._core.kind: 1}, 5, "it waits")
        done.join()
        assert view.waiters() == {}
        assert view.holds() == {lock._core.kind: 1}
        assert 0 < (view.validity() or 0) <= 30
    wait_until(lambda: bool(recorder.of(observe.Released)), 5, "all is told")
    assert names(recorder) == ["Acquired", "Waiting", "GaveUp", "Released"]
    (gave_up,) = recorder.of(observe.GaveUp)
    assert isinstance(gave_up, observe.GaveUp)
    assert gave_up.seconds >= 1.5
    assert gave_up.error is None
    (slow,) = recorder.of(observe.SlowAcquire)
    assert isinstance(slow, observe.SlowAcquire)
    assert slow.held_by == (hold.holder,)
    (long,) = recorder.of(observe.SlowHold)
    assert isinstance(long, observe.SlowHold)
    assert long.holder == hold.holder


async def test_a_cancelled_wait_is_told(redis_url: str, recorder: Recorder) -> None:
    """It tells what has ended the wait."""
    async with interlock.asyncio.connect(redis_url) as client:
        client.observe(recorder)
        lock = client.lock("orders")

        async def wait() -> None:
            async with lock:
                pytest.fail("it is held")

        async with lock:
            task = asyncio.create_task(wait())
            await asyncio.to_thread(wait_until, lambda: "Waiting" in names(recorder), 5, "it waits")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    (gave_up,) = recorder.of(observe.GaveUp)
    assert isinstance(gave_up, observe.GaveUp)
    assert gave_up.error == "CancelledError"
    assert names(recorder) == ["Acquired", "Waiting", "GaveUp", "Released"]


def test_losses_are_told(client: Client, recorder: Recorder) -> None:
    """A lock that is broken is told as broken by its breaker, and as lost by its holder."""
    client.observe(recorder)
    lock = client.lock("orders")
    with pytest.raises(HoldLostError), lock:
        lock.force_release()
        wait_until(lambda: bool(recorder.of(observe.Lost)), 5, "it is told")
        lock.release()
        pytest.fail("it is lost")
    (lost,) = recorder.of(observe.Lost)
    assert isinstance(lost, observe.Lost)
    assert lost.reason == "force-released"
    wait_until(lambda: bool(recorder.of(observe.ForceReleased)), 5, "it is told")
    assert not recorder.of(observe.Released)


@pytest.mark.parametrize("ended", [False, True], ids=["", "thread-ended"])
def test_a_lease_that_its_owner_chose_may_end(
    client: Client, recorder: Recorder, *, ended: bool
) -> None:
    """A rate limit, whose lease ends outside of any block, counts as released and not as lost."""
    client.observe(recorder)
    lock, taken = client.lock("limit"), list[bool]()

    def take() -> None:
        taken.append(lock.acquire(lease=1))

    if ended:
        in_thread(take).join()
    else:
        take()
    assert taken == [True]
    wait_until(lambda: names(recorder) == ["Acquired", "Released"], 5, "both are told")


def test_abandoned_holds_are_told(client: Client, recorder: Recorder) -> None:
    """A hold whose thread has ended is told as abandoned, and not as released."""
    client.observe(recorder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_thread(client.lock("orders").acquire).join()
        wait_until(lambda: bool(caught and recorder.of(observe.Abandoned)), 20, "it is told")
    assert names(recorder) == ["Acquired", "Abandoned"]


def test_another_primary_is_told(
    client: Client, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """What the Sentinel monitor calls when there is another primary tells the observers."""
    client.observe(recorder)
    client._driver._upkeep.move()
    wait_until(lambda: bool(recorder.of(observe.ServerChanged)), 5, "it is told")
    assert logged(caplog, "server.changed").levelno == logging.WARNING


def test_an_outage_is_told_once(
    proxy: FaultProxy, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Renewal that fails is told once for an outage, with the validity left, and then its end."""
    caplog.set_level(logging.INFO)
    with interlock.connect(proxy.url(), lease=6, command_timeout=0.2) as client:
        client.observe(recorder)
        with client.lock("orders"):
            proxy.stop_accepting()
            proxy.disconnect()
            wait_until(lambda: bool(recorder.of(observe.RenewalFailed)), 5, "it fails")
            rounds = len(recorder.of(observe.Renewed))
            wait_until(lambda: len(recorder.of(observe.Renewed)) > rounds + 1, 5, "it fails again")
            proxy.start_accepting()
            wait_until(lambda: bool(recorder.of(observe.Recovered)), 5, "it recovers")
    (failed,) = recorder.of(observe.RenewalFailed)
    assert isinstance(failed, observe.RenewalFailed)
    assert 0 < failed.validity < 6
    assert failed.error == "ServerUnavailableError"
    assert failed.count == 1
    failing, recovered = logged(caplog, "renewal.failing"), logged(caplog, "renewal.recovered")
    assert (failing.levelno, recovered.levelno) == (logging.WARNING, logging.INFO)
    assert 0 < vars(failing)["validity"] < 6


def test_nothing_more_is_sent(
    redis_url: str, redis_client: redis.Redis, recorder: Recorder
) -> None:
    """With everything on, and with an observer, pairs send not one byte more."""

    def moved() -> int:
        received: int = redis_client.info("stats")["total_net_input_bytes"]
        return received

    def sent(client: Client) -> int:
        lock = client.lock("orders")
        for _ in range(3):  # the connection is made, and the scripts are known
            assert lock.acquire()
            lock.release()
        before = moved()
        for _ in range(50):
            assert lock.acquire()
            lock.release()
        return moved() - before

    # Nothing is renewed meanwhile, however slow the machine is.
    with interlock.connect(redis_url, lease=590, card=False) as client:
        bare = sent(client)
    with interlock.connect(redis_url, lease=590) as client:
        assert sent(client) == bare
    with interlock.connect(redis_url, lease=590, slow_hold=1) as client:
        client.observe(recorder)
        assert sent(client) == bare


class Bad(observe.Observer):
    """Harms its thread."""

    def __init__(self, harm: Callable[[], object]) -> None:
        self.harm = harm
        self.missed = 0

    def acquired(self, event: observe.Acquired) -> None:
        del event
        self.harm()

    def overflowed(self, event: observe.Overflowed) -> None:
        self.missed += event.count


def _raise() -> None:
    raise LookupError("as it does")


@pytest.mark.parametrize("harm", [_raise, sys.exit, KeyboardInterrupt])
def test_an_observer_that_raises_is_reported_once(
    client: Client, recorder: Recorder, harm: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in an observer is reported; it stops no lock, no event and no other observer."""
    reported: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))

    def strike() -> None:
        thrown = harm()
        if isinstance(thrown, BaseException):
            raise thrown

    client.observe(Bad(strike))
    client.observe(recorder)
    for _ in range(20):
        with client.lock("orders"):
            pass
    wait_until(lambda: len(names(recorder)) == 40 and bool(reported), 5, "all is told")
    assert len(reported) == 1
    assert reported[0].__notes__ == ["in interlock: acquired() of the observer Bad"]


class _Unready(observe.Observer):
    """Its methods cannot even be looked up, or are none."""

    lost = None  # type: ignore[assignment]

    @property
    def acquired(self) -> Any:
        raise LookupError("it is not set up yet")


def test_an_observer_whose_methods_cannot_be_had_stops_no_other(
    client: Client, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of the look-up of a method is one of the observer."""
    reported: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))
    client.observe(_Unready())
    client.observe(recorder)
    for _ in range(2):
        with client.lock("orders"):
            pass
    wait_until(lambda: len(names(recorder)) == 4, 5, "all is told")
    assert [str(each) for each in reported] == ["it is not set up yet"]


def test_an_observer_that_hangs_misses_events(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An observer that hangs delays no lock and no renewal, and learns how much it missed."""
    monkeypatch.setattr(observers, "LIMIT", 10)
    free = threading.Event()
    bad = Bad(free.wait)
    with renews_soon(interlock.connect(redis_url)) as client:
        client.observe(bad)
        with client.lock("held") as held:
            for _ in range(40):
                with client.lock("orders"):
                    pass
            for _ in range(3):
                ends = held.remaining + time.monotonic()
                wait_until(
                    lambda ends=ends: held.remaining + time.monotonic() > ends + 0.05,
                    5,
                    "it is renewed",
                )
            assert held.valid
        free.set()
        wait_until(lambda: bad.missed > 0, 5, "it is told what it missed")


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread
