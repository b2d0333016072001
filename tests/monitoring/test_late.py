"""A holder that stops renewing is told everywhere; so is what the user may not read."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import Options
from interlock._links.urls import open_url
from interlock.cli import main
from interlock.console.changes import Changes
from interlock.console.watch import Watch
from interlock.errors import ClosedError
from interlock.exporter import Fleet
from interlock.inspection import ClientInfo, HolderInfo, LockInfo
from interlock.inspection.cards import Card, End
from interlock.inspection.server_facts import ServerFacts, story_of
from interlock.inspection.words import trouble

if TYPE_CHECKING:
    import pytest
    import redis

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


def test_what_happened_between_two_readings_is_told() -> None:
    """A lease that ran out is a loss, a late renewal is told once, and no release is guessed."""

    def told(
        before: LockInfo | None, after: LockInfo | None, passed: float = 2.0, story: str = ""
    ) -> list[tuple[str, bool]]:
        found = Changes().between(
            [before] if before else [], [after] if after else [], lambda _: passed, story
        )
        return [(each.what, each.loss) for each in found]

    assert told(lock(), lock(left=8)) == []
    assert told(lock(), lock(left=3)) == [("the renewal by c:1 is late", False)]
    assert told(lock(left=3), lock(left=2)) == []
    assert told(lock(left=3), None) == [("lost by c:1: its lease ran out", True)]
    [(what, loss)] = told(lock(left=9), None)
    assert ("no card tells whether released" in what, loss) == (True, False)
    # The server could not be read for 20 s: the lease had time to run out.
    assert told(lock(alive=True), None, passed=20.0) == [("lost by c:1: its lease ran out", True)]
    # Without a card, a hold that is so short may have been released.
    [(what, loss)] = told(lock(), None, passed=20.0)
    assert ("released, or its lease ran out" in what, loss) == (True, False)
    assert told(lock(left=9), None, story="it was flushed") == [
        ("lost by c:1: it was flushed", True)
    ]
    assert told(None, lock()) == [("acquired by c:1", False)]


def test_a_later_card_tells_how_a_hold_ended_that_was_seen_without_one() -> None:
    """A hold that vanished before a card told of it is a loss as soon as a card says so."""
    for how, expected in (
        (End(1.0, lost=True, why="server lost it"), ("lost by c:1: it was gone", True)),
        (End(1.0, lost=False), ("released by c:1", False)),
    ):
        changes = Changes()
        [found] = changes.between([lock()], [], lambda _: 2.0, "")
        assert "no card tells" in found.what
        assert list(changes.settle({"c": Card(ClientInfo("c"))})) == []
        [(old, new)] = changes.settle({"c": Card(ClientInfo("c"), ends={("c:1", "a"): how})})
        assert old == found
        assert new.what.startswith(expected[0])
        assert new.loss is expected[1]
    # Without a card nobody will tell, and the hold is no loss.
    changes = Changes()
    [found] = changes.between([lock()], [], lambda _: 2.0, "")
    assert list(changes.settle({"c": None})) == []
    assert changes.clients() == set()


def test_a_restart_a_flush_and_evictions_explain_missing_keys() -> None:
    """What servers tell of themselves becomes the story of what went with it."""
    before = ServerFacts(frozenset({"one"}), flushes=1, evicted=0)
    assert story_of(before, before) == ""
    assert "restarted" in story_of(before, ServerFacts(frozenset({"two"})))
    assert "FLUSHDB" in story_of(before, ServerFacts(frozenset({"one"}), flushes=2))
    assert "evicted 3 keys" in story_of(
        before, ServerFacts(frozenset({"one"}), flushes=1, evicted=3)
    )


def test_losses_are_losses_and_releases_are_releases(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """A deleted key is a loss and a release is none, as the card of the client tells."""
    watch = Watch(open_url(redis_url), Options(), interval=0.2)

    def seen(name: str, word: str) -> bool:
        watch.looked_at()
        return any(each.name == name and word in each.what for each in watch.history.happenings)

    watch.start()
    try:
        # Nobody sees the acquire of a lock that is held at the first reading.
        wait_until(lambda: bool(watch.snapshot.at), GIVE_UP, "the first reading is done")
        with interlock.connect(redis_url, lease=3) as holder:
            for name in ("kept", "taken"):
                assert holder.lock(name).acquire()
            wait_until(lambda: seen("taken", "acquired"), GIVE_UP, "it is seen")
            wait_until(
                lambda: (
                    all(info.held_for is not None for info in watch.snapshot.locks)
                    and watch.looked_at() is None
                ),
                GIVE_UP,
                "cards tell",
            )
            holder.lock("kept").release()
            _ = redis_client.delete("taken")
            wait_until(lambda: seen("taken", "lost by"), GIVE_UP, "the loss is told")
            wait_until(lambda: seen("kept", "released by"), GIVE_UP, "the release is told")
        losses = [each.name for each in watch.history.happenings if each.loss]
        assert losses == ["taken"]
    finally:
        watch.close()


def test_locks_are_sorted_by_trouble() -> None:
    """Dead holders come first, then late ones, those that most await, and the longest holds."""
    gone = ClientInfo("d", answering=False, silent=60.0, connected=False)
    dead = LockInfo("dead", "lock", holders=(HolderInfo("d:1", gone, remaining=2900.0),))
    polled = LockInfo("polled", "lock", waiter_count=5)
    late, long, awaited = lock("late", left=1), lock("long", held=900), lock("awaited", waiting=3)
    found = sorted([lock("new"), long, awaited, polled, late, dead], key=trouble)
    assert [info.name for info in found] == ["dead", "late", "polled", "awaited", "long", "new"]


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


def test_the_console_counts_a_turn_when_the_waiter_has_taken_it() -> None:
    """A claim, which a waiter was given and has not taken, is no turn."""
    client = ClientInfo("a", host="web-3", pid=812, program="orders", answering=True)
    given = HolderInfo("a:0", client, remaining=0.2)
    info = LockInfo("orders", "lock", holders=(given,), holder_count=1, remaining=0.2)
    changes, taken = Changes(), replace(info, holders=(replace(given, holder="a:1"),))
    assert list(changes.between([], [info], lambda _: 1.0, "")) == []
    [turn] = changes.between([info], [taken], lambda _: 1.0, "")
    assert turn.turn


def test_the_console_names_who_is_dead_or_late_as_it_knows_now() -> None:
    """When a lock was looked at last, no card may have told yet whose hold it is."""
    client = ClientInfo("c", host="web-3", pid=812, program="orders", answering=True)
    dead = replace(client, answering=False, silent=700.0, connected=False)

    def told(client: ClientInfo) -> list[str]:
        before, after = lock(left=9.0), lock(left=1.0)
        [holder] = after.holders
        after = replace(after, holders=(replace(holder, client=client, renewed=True),))
        return [each.what for each in Changes().between([before], [after], lambda _: 1.0, "")]

    assert told(dead) == ["web-3 pid 812 orders is dead, and holds it still"]
    assert told(client) == ["the renewal by web-3 pid 812 orders is late"]
