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
from interlock.console.watch import changes, trouble
from interlock.errors import ClosedError
from interlock.exporter import Fleet
from interlock.inspection import ClientInfo, HolderInfo, LockInfo

if TYPE_CHECKING:
    import pytest
    import redis

    from interlock import Client

HOLDER = """
import sys, interlock
client = interlock.connect(sys.argv[1], lease=6)
client.lock("stuck").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def scrape(url: str) -> str:
    """Return what the exporter tells of the server at *url*."""
    registry = CollectorRegistry()
    registry.register(Fleet(open_url(url), Options(), max_age=0))
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
            wait_until(
                lambda: "stuck" in ask(console, "/?show=late").text, GIVE_UP, "the console knows"
            )
            page = ask(console, "/?show=late").text
            assert '<span class="tag bad">late</span>' in page
            assert "sound" not in page
        finally:
            holder.kill()


def lock(name: str = "a", *, left: float = 9.0, held: float = 1.0, waiting: int = 0) -> LockInfo:
    """Return a lock with one holder that renews it, of whose lease of 9 s so much is left."""
    holder = HolderInfo(
        "c:1", ClientInfo("c"), remaining=left, held_for=held, lease=9, renewed=True
    )
    return LockInfo(name, "lock", holders=(holder,), holder_count=1, waiting=waiting)


def test_what_happened_between_two_readings_is_told() -> None:
    """A lease that ran out is a loss, a late renewal is told once, and a release is a release."""

    def told(before: LockInfo | None, after: LockInfo | None) -> list[tuple[str, bool]]:
        found = changes([before] if before else [], [after] if after else [], 2.0)
        return [(each.what, each.loss) for each in found]

    assert told(lock(), lock(left=8)) == []
    assert told(lock(), lock(left=3)) == [("the renewal by c:1 is late", False)]
    assert told(lock(left=3), lock(left=2)) == []
    assert told(lock(left=3), None) == [("lost by c:1: its lease ran out", True)]
    assert told(lock(left=9), None) == [("released by c:1", False)]
    assert told(None, lock()) == [("acquired by c:1", False)]


def test_locks_are_sorted_by_trouble() -> None:
    """Late ones come first, then those that most await, then the longest holds."""
    polled = LockInfo("polled", "lock", waiter_count=5)
    late, long, awaited = lock("late", left=1), lock("long", held=900), lock("awaited", waiting=3)
    found = sorted([lock("new"), long, awaited, polled, late], key=trouble)
    assert [info.name for info in found] == ["late", "polled", "awaited", "long", "new"]


def test_the_exporter_and_the_console_tell_what_is_not_shown(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Both say how much the user may not read; the exporter is up none the less."""
    redis_client.hset("mine", "c:1", 1)
    redis_client.hset("theirs", "c:1", 1)
    redis_client.hset("interlock_client:{c}", "written", "1")
    user = ("narrow", "reset", "on", ">secret", "allchannels", "+@all", "-pubsub|numsub")
    keys = ("~mine", "~redisson_lock*", "~{mine*", "~interlock_clients")
    redis_client.execute_command("ACL", "SETUSER", *user, *keys)
    url = redis_url.replace("redis://", "redis://narrow:secret@")
    try:
        text = scrape(url)
        assert "interlock_exporter_up 1.0" in text
        for what, count in {"keys": 1, "cards": 1, "listeners": 1}.items():
            assert f'interlock_exporter_forbidden{{what="{what}"}} {count}.0' in text
        with served(url) as console:
            wait_until(lambda: "mine" in ask(console).text, GIVE_UP, "the locks are read")
            page = ask(console).text
        assert page.count("Not everything is shown") == 3
        assert '<td data-label="Waiting">?</td>' in page
    finally:
        redis_client.execute_command("ACL", "DELUSER", "narrow")


def test_clients_that_only_wait_are_counted(client: Client, redis_url: str) -> None:
    """A client that holds nothing and waits is a client, in the exporter and the console."""

    def wait(waiting: Client) -> None:
        with suppress(ClosedError):
            waiting.fair_lock("queue").acquire()

    with (
        served(redis_url) as console,
        interlock.connect(redis_url) as waiting,
        client.fair_lock("queue"),
    ):
        thread = threading.Thread(target=wait, args=[waiting])
        thread.start()
        wait_until(lambda: "interlock_clients 2.0" in scrape(redis_url), GIVE_UP, "it waits")
        assert 'interlock_locks_waiters{kind="fair_lock"} 1.0' in scrape(redis_url)
        wait_until(
            lambda: waiting.client_id in ask(console, "/clients").text, GIVE_UP, "the console knows"
        )
        waiting.close()
        thread.join(GIVE_UP)
