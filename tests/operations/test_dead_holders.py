"""A dead holder is told from a silent one, and a card tells how a hold ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import GIVE_UP, wait_until

from interlock import Options, connect
from interlock._core.model.holds import GONE
from interlock._links.urls import open_url
from interlock.cli import main
from interlock.inspection import Reader, cards
from interlock.inspection.why import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.support.servers import RedisServer

    from interlock.inspection import LockInfo
    from interlock.inspection.cards import End

HOLDER = """
import sys, interlock
client = interlock.connect(sys.argv[1], lease=3)
client.lock("stuck", lease=535).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def described(url: str, name: str = "stuck") -> LockInfo:
    """Return what is known of a lock that somebody holds."""
    with Reader(*open_url(url, Options())) as reader:
        info = reader.describe(name)
    assert info is not None
    return info


def card_tells(url: str, name: str) -> bool:
    """Return whether a card tells of the hold of *name*."""
    return described(url, name).held_for is not None


def last_end(url: str, name: str) -> End | None:
    """Return how the last hold of *name* ended."""
    with Reader(*open_url(url, Options())) as reader:
        return reader.last_end(name)


def ended(url: str, name: str) -> bool:
    """Return whether a card tells how a hold of *name* ended."""
    return last_end(url, name) is not None


@pytest.fixture
def holder(redis_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that holds ``stuck`` for 535 s, as its card tells."""
    command = [sys.executable, "-c", HOLDER, redis_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"held\n"
            wait_until(lambda: described(redis_url).held_for is not None, GIVE_UP, "a card tells")
            yield process
        finally:
            process.kill()


def test_a_killed_holder_is_dead_whatever_its_lease(
    holder: subprocess.Popen[bytes], redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """List --dead and why tell that nobody is there, since when, and when the lease ends."""
    holder.kill()
    wait_until(lambda: described(redis_url).dead, GIVE_UP, "it is dead")
    assert main(["list", "--dead", "--url", redis_url]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.startswith("stuck")
    assert "DEAD" in row
    assert main(["list", "--dead", "--json", "--url", redis_url]) == 0
    [told] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (told["dead"], told["holders"][0]["client"]["state"]) == (True, "dead")
    assert main(["why", "stuck", "--url", redis_url]) == 0
    shown = capsys.readouterr().out
    assert "That process is dead: it has been silent since" in shown
    assert "ends in 8 min" in shown


WAITER = """
import sys, threading, interlock
client = interlock.connect(sys.argv[1], lease=4)
slots, stuck = client.semaphore("slots", 1), client.lock("stuck")
threading.Thread(target=slots.acquire, args=(2,)).start()
stuck.acquire()
"""


def test_a_killed_waiter_waits_no_more(redis_url: str) -> None:
    """Its card is there for a while, and no list takes it for one that waits."""

    def waiting() -> int:
        with Reader(*open_url(redis_url, Options())) as reader:
            found = [info for page in reader.pages("*") for info in page]
        return sum(len(info.waiters) for info in found)

    with connect(redis_url) as client, client.lock("stuck"):
        with subprocess.Popen([sys.executable, "-c", WAITER, redis_url]) as process:
            try:
                wait_until(lambda: waiting() == 2, GIVE_UP, "the lists tell of both threads")
                both = [described(redis_url, name).longest_wait for name in ("slots", "stuck")]
                assert None not in both
            finally:
                process.kill()
        wait_until(lambda: not described(redis_url).awaited, GIVE_UP, "nobody waits")
        wait_until(lambda: not waiting(), GIVE_UP, "nobody waits in a list")


def test_a_stopped_holder_is_silent_and_not_dead(
    holder: subprocess.Popen[bytes], redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that is frozen still has its connection, so it is silent; later it answers."""
    holder.send_signal(signal.SIGSTOP)
    wait_until(lambda: described(redis_url).silent, GIVE_UP, "it is silent")
    assert not described(redis_url).dead
    assert main(["list", "--url", redis_url]) == 0
    assert "silent since" in capsys.readouterr().out
    assert main(["list", "--dead", "--url", redis_url]) == 0
    out, err = capsys.readouterr()
    assert (out, "no lock is held or awaited that passes --dead" in err) == ("", True)
    holder.send_signal(signal.SIGCONT)
    wait_until(lambda: not described(redis_url).silent, GIVE_UP, "it answers")


def test_without_the_right_to_see_connections_only_long_silence_is_death(
    holder: subprocess.Popen[bytes], redis_url: str, redis_client: redis.Redis
) -> None:
    """If CLIENT LIST is refused, a client is silent first: it may just be slow."""
    redis_client.execute_command(
        *("ACL", "SETUSER", "narrow", "reset", "on", ">secret", "allchannels", "allkeys"),
        *("+@all", "-client|list"),
    )
    narrow = redis_url.replace("redis://", "redis://narrow:secret@")
    try:
        holder.kill()
        wait_until(lambda: described(redis_url).dead, GIVE_UP, "it is dead")
        info = described(narrow)
        assert (info.dead, info.silent, info.holders[0].client.connected) == (False, True, None)
    finally:
        redis_client.execute_command("ACL", "DELUSER", "narrow")


def test_a_card_tells_how_a_hold_ended(redis_url: str, redis_client: redis.Redis) -> None:
    """A hold was released, broken for a reason, or lost with its key."""
    with connect(redis_url, lease=3) as client:
        for name in ("kept", "broken", "taken"):
            assert client.lock(name).acquire()
            wait_until(partial(card_tells, redis_url, name), GIVE_UP, "a card tells")
        client.lock("kept").release()
        [broken] = described(redis_url, "broken").holders
        command = ["break", "broken", "--holder", broken.holder, "--reason", "expired"]
        assert main([*command, "--url", redis_url]) == 0
        _ = redis_client.delete("taken")
        found: dict[str, End] = {}
        for name in ("kept", "broken", "taken"):
            wait_until(partial(ended, redis_url, name), GIVE_UP, f"a card tells the end of {name}")
            end = last_end(redis_url, name)
            assert end is not None
            found[name] = end
        assert {end.client.client_id for end in found.values()} == {client.client_id}
        assert {name: (end.lost, end.why) for name, end in found.items()} == {
            "kept": (False, ""),
            "broken": (True, "force-released: expired"),
            "taken": (True, f"gone from the server ({GONE})"),
        }
    # A break remembers its answer for a while.
    assert all(key.startswith(b"interlock_request:") for key in redis_client.scan_iter())


def test_a_card_tells_how_a_term_ended(redis_url: str) -> None:
    """A leader has resigned: cards know the term by the key of the election's lock."""
    with connect(redis_url, lease=3) as client:
        with client.election("boss"):
            wait_until(partial(card_tells, redis_url, "boss"), GIVE_UP, "a card tells")
        wait_until(partial(ended, redis_url, "boss"), GIVE_UP, "a card tells the end")
        end = last_end(redis_url, "boss")
        assert end is not None
        assert (end.lost, end.why) == (False, "")


def test_who_has_no_connection_is_not_called_alive(redis_url: str) -> None:
    """Why tells at once that a killed holder has no connection, before its card is late."""
    command = [sys.executable, "-c", HOLDER.replace("lease=3", "lease=90"), redis_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            wait_until(partial(card_tells, redis_url, "stuck"), GIVE_UP, "a card tells")
            assert described(redis_url).holders[0].client.connected is not False
        finally:
            process.kill()

    def cut_off() -> bool:
        return described(redis_url).holders[0].client.connected is False

    wait_until(cut_off, GIVE_UP, "its connection has gone")
    assert described(redis_url).holders[0].client.answering
    with Reader(*open_url(redis_url, Options())) as reader:
        _, account = account_of(reader, "stuck")
    assert "That process has no connection, and answered" in account.text
    assert "is alive" not in account.text


def test_a_client_may_come_back_after_a_start_of_the_server(
    fresh_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that was silent before the server started is not called dead for a minute."""
    url, name = fresh_server.url(), "00000000-0000-0000-0000-00000000beef"
    about = {"format": 1, "number": 1, "period": 1.0, "named": True}
    entry = {"age": 400.0, "owner": 1, "lease": 5000.0, "renewed": False}
    written = int(time.time() * 1000) - 100_000
    card = ("client", json.dumps(about), "written", written, f"h {name}:1 stuck", json.dumps(entry))
    fresh_server.execute("HSET", f"interlock_client:{{{name}}}", *map(str, card))
    fresh_server.execute("HSET", "stuck", f"{name}:1", "1")
    client = described(url).holders[0].client
    assert (client.state, client.connected) == ("silent", None)
    monkeypatch.setattr(cards, "BACK_WITHIN", 0)
    client = described(url).holders[0].client
    assert (client.state, client.connected) == ("dead", False)
