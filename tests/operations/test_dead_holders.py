"""A dead holder is told from a silent one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import GIVE_UP, wait_until

from interlock import Options
from interlock._links.urls import open_url
from interlock.cli import main
from interlock.inspection import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from interlock.inspection import LockInfo

HOLDER = """
import sys, interlock
client = interlock.connect(sys.argv[1], lease=3)
client.lock("stuck", lease=535).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def described(url: str, name: str = "stuck") -> LockInfo:
    with Reader(*open_url(url, Options())) as reader:
        info = reader.describe(name)
    assert info is not None
    return info


def card_tells(url: str, name: str) -> bool:
    return described(url, name).held_for is not None


@pytest.fixture
def holder(redis_url: str) -> Iterator[subprocess.Popen[bytes]]:
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
