"""A holder that stops renewing is told everywhere; so is what the user may not read."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import Options
from interlock._links.urls import open_url
from interlock.cli import main
from interlock.errors import ClosedError
from interlock.exporter import Fleet
from interlock.inspection import ClientInfo, HolderInfo, LockInfo
from interlock.inspection.words import trouble

if TYPE_CHECKING:
    import pytest

    from interlock import Client

HOLDER = """
import sys, interlock
client = interlock.connect(sys.argv[1], lease=12)
client.lock("stuck").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def scrape(url: str) -> str:
    """Return what the exporter tells of the server at *url*."""
    registry = CollectorRegistry()
    registry.register(Fleet(*open_url(url, Options()), max_age=0))
    return generate_latest(registry).decode()


def test_a_stopped_holder_is_late(
    client: Client, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stopped process is late: in Python, the list, the exporter and the console."""

    def described() -> LockInfo:
        info = client.describe("stuck")
        assert info is not None
        return info

    command = [sys.executable, "-c", HOLDER, redis_url]
    with (
        served(redis_url) as console,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
        interlock.connect(redis_url) as other,
        other.lock("sound"),
    ):
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            wait_until(lambda: described().held_for is not None, GIVE_UP, "a card tells")
            assert not described().late
            holder.send_signal(signal.SIGSTOP)
            wait_until(lambda: described().late, GIVE_UP, "it is late")
            assert main(["list", "--late", "--url", redis_url]) == 0
            _, row = capsys.readouterr().out.splitlines()
            assert row.startswith("stuck")
            assert "LATE " in row
            assert "ends in " in row
            assert "interlock_locks_late 1.0" in scrape(redis_url)
            late = '<span class="tag">late</span>'
            wait_until(lambda: late in ask(console, "/?q=stuck").text, GIVE_UP, "it is shown")
            assert late not in ask(console, "/?q=sound").text
        finally:
            holder.kill()


def lock(
    name: str = "a",
    *,
    left: float = 9.0,
    held: float = 1.0,
    waiting: int = 0,
    alive: bool | None = None,
) -> LockInfo:
    """Return a lock with one holder that renews it, of whose lease of 9 s so much is left."""
    holder = HolderInfo(
        "c:1",
        ClientInfo("c", answering=alive),
        remaining=left,
        held_for=held,
        lease=9,
        renewed=True,
    )
    return LockInfo(name, "lock", holders=(holder,), holder_count=1, waiting=waiting)


def test_locks_are_sorted_by_trouble() -> None:
    """Dead holders come first, then late ones, those that most await, and the longest holds."""
    gone = ClientInfo("d", answering=False, silent=60.0, connected=False)
    dead = LockInfo("dead", "lock", holders=(HolderInfo("d:1", gone, remaining=2900.0),))
    polled = LockInfo("polled", "lock", waiter_count=5)
    late, long, awaited = lock("late", left=1), lock("long", held=900), lock("awaited", waiting=3)
    found = sorted([lock("new"), long, awaited, polled, late, dead], key=trouble)
    assert [info.name for info in found] == ["dead", "late", "polled", "awaited", "long", "new"]


def test_clients_that_only_wait_are_counted(client: Client, redis_url: str) -> None:
    """A client that holds nothing and waits is a client."""

    def wait(waiting: Client) -> None:
        with suppress(ClosedError):
            waiting.fair_lock("queue").acquire()

    with interlock.connect(redis_url) as waiting, client.fair_lock("queue"):
        thread = threading.Thread(target=wait, args=[waiting])
        thread.start()
        wait_until(lambda: "interlock_clients 2.0" in scrape(redis_url), GIVE_UP, "it waits")
        assert 'interlock_locks_waiters{kind="fair_lock"} 1.0' in scrape(redis_url)
        waiting.close()
        thread.join(GIVE_UP)
