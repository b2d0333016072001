"""Deadlocks of real threads and processes: found on demand, by the command and in Python."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.operations.ring import Ring
from tests.support.patience import GIVE_UP, wait_until

from interlock import connect
from interlock._core.insight.card import CARD
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from interlock import Client, Lock

SOON = 20.0
"""Seconds after which a deadlock is found at the latest."""

WORKER = """
import interlock, sys
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
            with second:
                pass

    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    return threads


def test_two_processes_in_a_ring_are_found(
    redis_url: str,
    command: Callable[..., subprocess.CompletedProcess[str]],
    narrow: Callable[..., str],
) -> None:
    """The command finds A,B and B,A in two processes within 20 s, long before a card's next round."""
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
        while (told := command("list", "--deadlocks")).returncode == 0:
            time.sleep(0.2)  # cards are written in real time
        assert time.monotonic() - began < SOON
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 2:")
        for worker in workers:
            assert f"pid {worker.pid}" in told.stdout
        # The search may not read the locks: it does not say that there is none.
        unseen = command("list", "--deadlocks", url=narrow("~interlock_client*"))
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
        told = command("list", "--deadlocks", url=url)
        assert (told.returncode, told.stdout) == (69, "")
        assert told.stderr.count("\n") == 1
        assert "no right to read 1 cards and 0 locks" in told.stderr
        with connect(url, card=False) as client:
            with pytest.raises(ServerUnavailableError, match="no right to read 1 cards") as refused:
                client.deadlocks()
            assert refused.value.code == "NOPERM"
        # Without the index, a scan finds the cards.
        assert (
            command("list", "--deadlocks", url=narrow("~a", "~interlock_client:*")).returncode == 0
        )


def test_a_ring_of_five_is_found(
    redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The command finds a ring over threads, tasks and a process, with a reader."""
    with Ring(redis_url) as ring:
        while (told := command("list", "--deadlocks")).returncode == 0:
            time.sleep(0.2)  # cards are written in real time
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 5:")
        assert told.stdout.count("has waited") == 5
        for part in (f"pid {ring.pid} ", "thread 'first'", "thread 'second'", "task 'Task-"):
            assert part in told.stdout
    # The one whose lock was broken hears of that; nobody hears of the deadlock.
    assert sorted(ring.ended) == ["HoldLostError", *["done"] * 4]
    assert command("list", "--deadlocks").returncode == 0


def test_a_reader_in_a_ring_is_found(redis_url: str) -> None:
    """A writer waits for a reader, and the reader for what the writer holds: that is a deadlock."""
    with connect(redis_url) as one, connect(redis_url) as two:
        reading, writing = one.read_write_lock("shared").read, two.read_write_lock("shared").write
        threads = held_by_each([(reading, one.lock("plain")), (two.lock("plain"), writing)])
        while not (found := one.deadlocks()):
            time.sleep(0.2)  # cards are written in real time
        assert {step.waits_for for step in found[0].steps} == {"shared", "plain"}
        assert two.lock("plain").force_release()
        for thread in threads:
            thread.join(GIVE_UP)


def test_a_long_wait_is_no_deadlock(client: Client, redis_url: str) -> None:
    """A waiter behind a busy holder is in no deadlock, though it holds a lock itself."""
    with connect(redis_url) as other, client.lock("busy"):

        def wait() -> None:
            with other.lock("own"):
                _ = other.lock("busy").acquire(timeout=8)

        waiter = threading.Thread(target=wait)
        waiter.start()
        while waiter.is_alive():
            assert client.deadlocks() == []
            waiter.join(0.5)
