"""`interlock run` with -s, -x, --fair and --limit on a real server: concurrency and order."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import LONG, Runs, ended, until_there
from tests.support.cards import is_card
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from pathlib import Path

    import redis

SLEEP = ("--", "/bin/sh", "-c", f"echo up; exec sleep {LONG:.0f}")
EACH = [[], ["-s"], ["-x"], ["--fair"]]


@pytest.mark.parametrize("held", EACH, ids=lambda options: "".join(options) or "plain")
def test_who_excludes_whom(runs: Runs, held: list[str]) -> None:
    """Under one name only readers run together; any other pair of locks excludes each other."""
    runs.started(*held, "NAME", *SLEEP)
    got = {"".join(wanted): runs.run(*wanted, "-n", "NAME", "--", "true")[0] for wanted in EACH}
    together = 0 if held == ["-s"] else 1
    assert got == {"": 1, "-s": together, "-x": 1, "--fair": 1}


def test_shared_and_exclusive_are_the_read_write_lock(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """-s and -x are the sides of `client.read_write_lock(NAME)`, and of Redisson's."""
    with interlock.connect(runs.url) as client:
        lock = client.read_write_lock("NAME")
        with lock.read:
            assert runs.run("-s", "-n", "NAME", "--", "true") == (0, "", "")
            assert runs.run("-x", "-n", "NAME", "--", "true")[0] == 1
        with lock.write:
            assert runs.run("-s", "-n", "NAME", "--", "true")[0] == 1
    for option, mode in (("-s", b"read"), ("-x", b"write")):
        gate = tmp_path / option
        process = runs.started(option, "NAME", "-c", f"echo up; {until_there(gate)}")
        assert redis_client.hget("NAME", "mode") == mode
        gate.touch()
        assert ended(process) == (0, "", "")
    assert redis_client.keys() == []


def test_a_limit_is_how_many_run(runs: Runs, redis_client: redis.Redis) -> None:
    """With --limit 2 two jobs run at a time; the third is refused or waits for one of them."""
    jobs = [runs.started("--limit", "2", "NAME", *SLEEP) for _ in range(2)]
    status, out, err = runs.run("-n", "--limit", "2", "NAME", "--", "echo", "ran")
    assert (status, out) == (1, "")
    assert re.fullmatch(r"interlock: lock 'NAME' not got .*: held by 2 others;.*\n", err)
    third = runs.start("--verbose", "--limit", "2", "NAME", "--", "true")
    assert third.stderr is not None
    assert third.stderr.readline() == "interlock: waiting for lock 'NAME', held by 2 others\n"
    jobs[0].send_signal(signal.SIGTERM)
    assert ended(third)[0] == 0
    jobs[1].send_signal(signal.SIGTERM)
    assert [ended(job)[0] for job in jobs] == [128 + signal.SIGTERM] * 2
    with interlock.connect(runs.url) as client:
        semaphore = client.leased_semaphore("NAME")
        assert (semaphore.permits(), semaphore.acquired_permits()) == (2, 0)


def test_a_limited_job_learns_its_permit(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """INTERLOCK_HOLDER is the server's id of the permit, which is renewed; there is no token."""
    gate = tmp_path / "gate"
    text = f'echo "$INTERLOCK_HOLDER ${{INTERLOCK_TOKEN-none}}"; {until_there(gate)}'
    process = runs.start("--lease=2", "--limit=3", "NAME", "-c", text, INTERLOCK_TOKEN="17")
    assert process.stdout is not None
    permit, token = process.stdout.readline().split()
    assert (len(permit), token) == (32, "none")
    leases, ours = "{NAME}:timeout", bytes.fromhex(permit)
    first = redis_client.zscore(leases, ours)
    wait_until(lambda: redis_client.zscore(leases, ours) > first, 10, "it is renewed")
    assert redis_client.zrange(leases, 0, -1) == [ours]
    gate.touch()
    assert ended(process)[0] == 0


def test_another_limit_is_an_error(runs: Runs) -> None:
    """A job with another limit than the others is told theirs; nothing runs, no permit is lost."""
    assert runs.run("--limit", "3", "NAME", "--", "true") == (0, "", "")
    status, out, err = runs.run("--limit", "2", "NAME", "--", "echo", "ran")
    assert (status, out) == (64, "")
    assert "wanted --limit 2, found 3 for 'NAME'" in err
    assert err.count("\n") == 1
    with interlock.connect(runs.url) as client:
        semaphore = client.leased_semaphore("NAME")
        assert semaphore.available_permits() == 3
        semaphore.set_permits(2)
    assert runs.run("--limit", "2", "NAME", "--", "true") == (0, "", "")


@pytest.mark.parametrize("options", [["-s"], ["-x"], ["--fair"], ["--limit", "2"]], ids="".join)
def test_a_signal_while_waiting_leaves_nothing_behind(
    runs: Runs, redis_client: redis.Redis, options: list[str]
) -> None:
    """A run that a signal ends while it waits leaves no place and no hold, and harms no other."""
    others = [runs.started(*options, "NAME", *SLEEP)] if options != ["-s"] else []
    if options[0] == "--limit":
        others.append(runs.started(*options, "NAME", *SLEEP))
    if options == ["-s"]:
        others.append(runs.started("-x", "NAME", *SLEEP))
    before = _stored(redis_client)
    process = runs.start("--verbose", *options, "NAME", "--", "echo", "ran")
    assert process.stderr is not None
    assert "waiting" in process.stderr.readline()
    time.sleep(0.2)  # until it stands in its place
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (128 + signal.SIGTERM, "", "")
    assert _stored(redis_client) == before
    for other in others:
        other.send_signal(signal.SIGTERM)
        ended(other)
    assert runs.run(*options, "-w", "5", "NAME", "--", "true")[0] == 0


def _stored(server: redis.Redis) -> dict[bytes, bytes]:
    """Return the keys and their types.

    Left out are the cards of clients that hold or wait, and the notes of calls, which expire.
    """
    notes = {*server.scan_iter("interlock_request:*")}
    assert all(server.ttl(note) > 0 for note in notes)
    keys = [key for key in server.scan_iter() if not is_card(key) and key not in notes]
    return {key: server.type(key) for key in keys}
