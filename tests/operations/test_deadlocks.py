"""Deadlocks of real threads and processes: logged, listed, and resolved on request."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import take_turn
from tests.operations.ring import Ring
from tests.support.patience import GIVE_UP, wait_until

from interlock import DeadlockError, connect
from interlock._core.insight.card import CARD, FORMAT
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from interlock import Client, Lock

SOON = 15.0
"""Seconds after which a deadlock is told at the latest."""

WORKER = """
import interlock, sys, logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
with interlock.connect(sys.argv[1]) as client:
    with client.lock(sys.argv[2]):
        print("holds", flush=True)
        sys.stdin.readline()
        with client.lock(sys.argv[3], timeout=60):
            pass
"""


def held_by_each(pairs: list[tuple[Lock, Lock]]) -> list[threading.Thread]:
    """Start a thread for each pair that holds the first and then waits for the second."""
    barrier = threading.Barrier(len(pairs))

    def run(first: Lock, second: Lock) -> None:
        with contextlib.suppress(HoldLostError), first:
            barrier.wait()
            try:
                with second:
                    pass
            except DeadlockError as error:
                caught.append(error)

    caught: list[DeadlockError] = []
    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    return threads


def searched() -> bool:
    """Return whether a client looks for deadlocks just now."""
    return any(thread.name == "interlock-deadlocks" for thread in threading.enumerate())


def test_two_processes_in_a_ring_are_told(
    redis_url: str,
    command: Callable[..., subprocess.CompletedProcess[str]],
    narrow: Callable[..., str],
) -> None:
    """A,B and B,A in two processes appear in the log of both and in the command within 15 s."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, redis_url, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for names in (("a", "b"), ("b", "a"))
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "holds\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        began = time.monotonic()
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline().startswith("deadlock of 2:")
        assert time.monotonic() - began < SOON
        told = command("deadlocks")
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 2:")
        for worker in workers:
            assert f"pid {worker.pid}" in told.stdout
        # The search may not read the locks: it does not say that there is none.
        unseen = command("deadlocks", url=narrow("~interlock_client*"))
        assert (unseen.returncode, unseen.stdout) == (69, "")
        assert "no right to read 0 cards and 2 locks" in unseen.stderr
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def test_a_search_without_rights_is_no_answer(
    redis_url: str,
    redis_client: redis.Redis,
    command: Callable[..., subprocess.CompletedProcess[str]],
    narrow: Callable[..., str],
) -> None:
    """A user without the right to read cards is told so, by the command and in Python."""
    with connect(redis_url, lease=3) as holding, holding.lock("a"):
        card = CARD.format(holding.client_id)
        wait_until(lambda: redis_client.exists(card), GIVE_UP, "the card is written")
        url = narrow("~a")
        told = command("deadlocks", url=url)
        assert (told.returncode, told.stdout) == (69, "")
        assert told.stderr.count("\n") == 1
        assert "no right to read 1 cards and 0 locks" in told.stderr
        with connect(url, card=False) as client:
            with pytest.raises(ServerUnavailableError, match="no right to read 1 cards") as refused:
                client.deadlocks()
            assert refused.value.code == "NOPERM"
        # Without the index, a scan finds the cards.
        assert command("deadlocks", url=narrow("~a", "~interlock_client:*")).returncode == 0


def test_a_ring_of_five_is_told(
    redis_url: str,
    command: Callable[..., subprocess.CompletedProcess[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A ring over threads, tasks and a process, with a reader, is in the log and the command."""
    with Ring(redis_url, "log") as ring:
        wait_until(lambda: "deadlock of 5: " in caplog.text, GIVE_UP, "it is logged")
        told = command("deadlocks")
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 5:")
        assert told.stdout.count("has waited") == 5
        for part in (f"pid {ring.pid} ", "thread 'first'", "thread 'second'", "task 'Task-"):
            assert part in told.stdout
        # Each of the five waits is marked, though each client proves the ring only once.
        wait_until(
            lambda: command("list").stdout.count("DEADLOCK") == 5,
            GIVE_UP,
            "each lock of the ring is marked in the list",
        )
    # The one whose lock was broken hears of that; nobody hears of the deadlock.
    assert sorted(ring.ended) == ["HoldLostError", *["done"] * 4]
    assert command("deadlocks").returncode == 0


def test_raise_resolves_the_ring(redis_url: str) -> None:
    """With deadlock="raise" one of the ring gets DeadlockError, and all others go on."""
    with Ring(redis_url, "raise") as ring:
        ring.join()
    assert sorted(ring.ended) == ["DeadlockError", *["done"] * 4]


@pytest.mark.parametrize("ending", ["lease", "owner"])
def test_a_ring_that_may_end_by_itself_raises_nothing(
    redis_url: str, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told of, but nobody gets DeadlockError: a lease ends, or another thread releases."""
    with connect(redis_url, deadlock="raise") as one, connect(redis_url, deadlock="raise") as two:
        own = {"lease": 300.0} if ending == "lease" else {"owner": "job"}
        held: Any = one.lock("a", **own)
        pairs = [(held, one.lock("b", owner=own.get("owner"))), (two.lock("b"), two.lock("a"))]
        threads = held_by_each(pairs)
        wait_until(lambda: "deadlock of 2" in caplog.text, GIVE_UP, "the ring is told")
        watches = [client._driver._renewer._deadlocks for client in (one, two)]
        wait_until(lambda: all(watch._reported for watch in watches), GIVE_UP, "both know it")
        assert not one._driver.session.deadlocked
        assert not two._driver.session.deadlocked
        assert all(thread.is_alive() for thread in threads)
        assert held.force_release()
        for thread in threads:
            thread.join(GIVE_UP)


def test_a_deadlock_is_remembered_while_it_lasts(redis_url: str) -> None:
    """A search forgets what it has told of when that wait is over, though another one lasts."""
    with connect(redis_url, deadlock="raise") as client, connect(redis_url) as other:
        busy = other.lock("busy")
        busy.acquire()
        watch = client._driver._renewer._deadlocks
        pairs = [(client.lock(name), client.lock(after)) for name, after in ("ab", "ba")]
        threads = held_by_each(pairs)
        patient = threading.Thread(target=take_turn, args=(client.lock("busy"), GIVE_UP))
        patient.start()
        wait_until(lambda: bool(watch._reported), GIVE_UP, "the deadlock is told")
        for thread in threads:
            thread.join(GIVE_UP)
        wait_until(lambda: not watch._reported, GIVE_UP, "it is forgotten")
        assert client._driver.session.events.waiters() == {"lock": 1}
        busy.release()
        patient.join()


def test_a_reader_in_a_ring_is_told(redis_url: str) -> None:
    """A writer waits for a reader, and the reader for what the writer holds: that is a deadlock."""
    with connect(redis_url, deadlock="raise") as one, connect(redis_url, deadlock="raise") as two:
        reading, writing = one.read_write_lock("shared").read, two.read_write_lock("shared").write
        threads = held_by_each([(reading, one.lock("plain")), (two.lock("plain"), writing)])
        for thread in threads:
            thread.join(SOON)
        assert not any(thread.is_alive() for thread in threads)


def test_a_long_wait_is_no_deadlock(
    client: Client, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A waiter behind a busy holder, which holds a lock itself, is never told of a deadlock."""
    with connect(redis_url, deadlock="raise") as other, client.lock("busy"):

        def wait() -> None:
            with other.lock("own"):
                _ = other.lock("busy").acquire(timeout=8)

        waiter = threading.Thread(target=wait)
        waiter.start()
        wait_until(searched, 8, "it is searched")
        waiter.join()
        assert client.deadlocks() == []
    assert "deadlock" not in caplog.text


def test_who_holds_nothing_is_not_searched(redis_url: str) -> None:
    """A crowd that wants one lock makes no search, and needs no connection for one."""
    with connect(redis_url) as other, connect(redis_url) as client, other.lock("busy"):
        waiter = threading.Thread(target=lambda: client.lock("busy").acquire(timeout=8))
        waiter.start()
        with client.lock("held by another thread"):
            while waiter.is_alive():
                assert not searched()
                waiter.join(0.1)


def test_no_thread_for_the_search_costs_no_renewal(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can be started, nobody searches, and what is held is renewed as before."""
    start = threading.Thread.start
    refused = threading.Event()

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "interlock-deadlocks":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    with connect(redis_url) as other, connect(redis_url, lease=3) as client:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with other.lock("busy"), client.lock("precious") as hold:

            def wait() -> None:
                with client.lock("own"):
                    _ = client.lock("busy").acquire(timeout=8)

            waiter = threading.Thread(target=wait)
            waiter.start()
            assert refused.wait(10)
            end = time.monotonic() + hold.remaining
            wait_until(lambda: time.monotonic() + hold.remaining > end + 0.3, 10, "it is renewed")
            assert hold.valid
            waiter.join()


def test_a_forged_card_ends_no_wait(
    redis_url: str,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A ring that only a forged card closes is logged, and with deadlock="raise" nobody gets it."""
    monkeypatch.setattr("interlock._drivers.background.deadlocks.PATIENCE", 0.2)
    monkeypatch.setattr("interlock._drivers.background.deadlocks.FIRST_SEARCH_PAUSE", 0.2)
    forger = "00000000-0000-0000-0000-00000000f00d"
    redis_client.hset("theirs", f"{forger}:1", 1)  # Redisson or a client without cards
    redis_client.pexpire("theirs", int(GIVE_UP * 1000))
    caught: list[str] = []

    def victim() -> None:
        with client.lock("mine"):
            try:
                client.lock("theirs").acquire()
                caught.append("acquired")
            except DeadlockError:
                caught.append("DeadlockError")

    def forge(number: int) -> None:
        """Write the next card of a client that seems to wait for what the victim holds."""
        about = {"format": FORMAT, "number": number, "period": 10.0, "holds": 1, "waits": 1}
        told = {"age": 60.0 + number, "owner": 5, "kind": "lock"}
        card: dict[Any, Any] = {
            "client": json.dumps(about),
            "written": time.time() * 1000,
            "number": number,
            f"h {forger}:1 theirs": json.dumps(told),
            f"w {forger}:2 mine": json.dumps(told),
        }
        redis_client.hset(CARD.format(forger), mapping=card)

    with connect(redis_url, deadlock="raise") as client:
        thread = threading.Thread(target=victim)
        thread.start()
        for number in itertools.count(1, 2):
            forge(number)
            if caught or "only a card tells that" in caplog.text:
                break
            time.sleep(0.1)  # the forger goes on
        assert "deadlock of 2: " in caplog.text
        for record in map(vars, caplog.records):
            if record.get("event") == "lock.deadlock":
                assert record["client_id"] == client.client_id
                assert record["server"] in redis_url
                assert sorted(step.split(" waits for ")[1][:6] for step in record["cycle"]) == [
                    "'mine'",
                    "'their",
                ]
        watch = client._driver._renewer._deadlocks
        assert watch._session.deadlocked == {}
        redis_client.delete("theirs")
        thread.join(GIVE_UP)
    assert caught == ["acquired"]
