"""`interlock run` against a real server: the job, whose turn it is, losses, and who is told what."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli import cli_process
from tests.cli.cli_process import ENVIRON, LONG, Runs, ended, until_there
from tests.support.program import run

import interlock

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer


def test_two_at_once_run_one_after_the_other(runs: Runs, tmp_path: Path) -> None:
    """Jobs under one name never overlap, and each gets its turn."""
    log = tmp_path / "log"
    text = f"echo begin >>{log}; sleep 0.3; echo end >>{log}"
    processes = [runs.start("NAME", "-c", text) for _ in range(3)]
    assert [ended(process) for process in processes] == [(0, "", "")] * 3
    assert log.read_text().split() == ["begin", "end"] * 3


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["-n"], 1),
        (["-w", "0"], 1),
        (["-w", "0.3"], 1),
        (["-n", "-E", "75"], 75),
        (["-w", "0.3", "--conflict-exit-code", "9"], 9),
    ],
)
def test_a_taken_lock_is_a_conflict(runs: Runs, options: list[str], status: int) -> None:
    """A run that may not wait, or not longer, names the holder and exits with 1 or -E's code."""
    with interlock.connect(runs.url, card=False) as client, client.lock("NAME") as hold:
        got, out, err = runs.run(*options, "NAME", "--", "echo", "ran")
    assert (got, out) == (status, "")
    assert err.startswith("interlock: lock 'NAME' not got ")
    assert hold.holder in err
    assert err.count("\n") == 1


def test_verbose_tells_how_long_and_for_whom(runs: Runs) -> None:
    """--verbose names the holder that is waited for, and the time it took."""
    with interlock.connect(runs.url, card=False) as client:
        with client.lock("NAME") as hold:
            process = runs.start("--verbose", "NAME", "--", "true")
            assert process.stderr is not None
            assert process.stderr.readline() == (
                f"interlock: waiting for lock 'NAME', held by {hold.holder}\n"
            )
        status, _, err = ended(process)
    assert status == 0
    assert re.fullmatch(r"interlock: got lock 'NAME' after \d+\.\d s\n", err)


def test_min_hold_keeps_others_out_after_a_short_job(runs: Runs) -> None:
    """With --min-hold, a second machine with a late clock does not repeat a short job."""
    process = runs.started("--min-hold", "5", "NAME", "--", "echo", "done")
    assert runs.run("-n", "NAME", "--", "true")[0] == 1
    assert ended(process)[0] == 0
    assert runs.run("-n", "NAME", "--", "true")[0] == 0


def test_max_hold_stops_the_job_and_frees_the_lock(runs: Runs, redis_client: redis.Redis) -> None:
    """With --max-hold a job that hangs does not keep the lock."""
    status, _, err = runs.run("--max-hold", "0.5", "NAME", "--", "sleep", str(LONG))
    assert status == 124
    assert "--max-hold" in err
    assert not redis_client.exists("NAME")


def test_the_job_runs_under_the_lock_and_its_status_is_passed_on(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The lock is there while the job runs, and gone when interlock has ended."""
    gate = tmp_path / "gate"
    process = runs.started("NAME", "--", "/bin/sh", "-c", f"echo up; {until_there(gate)}; exit 7")
    assert redis_client.exists("NAME")
    gate.touch()
    assert ended(process) == (7, "", "")
    assert not redis_client.exists("NAME")


def test_the_job_learns_name_holder_and_token(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The job's environment has its own hold's name, holder and token, not an outer interlock's."""
    told = 'echo "$INTERLOCK_NAME $INTERLOCK_HOLDER ${INTERLOCK_TOKEN-none}"'
    for number in (1, 2):
        gate = tmp_path / str(number)
        text = f"{told}; {until_there(gate)}"
        process = runs.start("a name", "-c", text, INTERLOCK_TOKEN="17")
        assert process.stdout is not None
        name, holder, token = process.stdout.readline().rsplit(None, 2)
        assert redis_client.hkeys("a name") == [holder.encode()]
        assert re.fullmatch(r"[0-9a-f-]{36}:\d+", holder)
        assert (name, token) == ("a name", str(number))
        gate.touch()
        assert ended(process)[0] == 0
    assert redis_client.get("redisson_lock_token:{a name}") == b"2"


def test_shell_text_runs_in_the_users_shell(runs: Runs, tmp_path: Path) -> None:
    """-c uses $SHELL, and /bin/sh without it."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "mine: $*"\n')
    shell.chmod(0o755)
    assert runs.run("-c", "echo a b", "NAME", SHELL=str(shell)) == (0, "mine: -c echo a b\n", "")
    assert runs.run("NAME", "-c", "echo a | cat", SHELL="") == (0, "a\n", "")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_job_and_then_the_hold(
    runs: Runs, redis_client: redis.Redis, signum: signal.Signals
) -> None:
    """A signal reaches the job; interlock reports its end and releases the lock."""
    process = runs.started("NAME", "--", "/bin/sh", "-c", f"echo up; exec sleep {LONG:.0f}")
    process.send_signal(signum)
    assert ended(process) == (128 + signum, "", "")
    assert not redis_client.exists("NAME")


@pytest.mark.parametrize("url", ["bogus://here", "redis://h:notaport"])
def test_a_url_that_cannot_work_is_64(runs: Runs, url: str) -> None:
    """A wrong URL is a usage error in one line."""
    status, out, err = runs.run("--url", url, "NAME", "--", "echo", "ran")
    assert (status, out) == (64, "")
    assert err.startswith("interlock: ")
    assert err.count("\n") == 1


def test_a_name_in_use_by_something_else_is_64(runs: Runs, redis_client: redis.Redis) -> None:
    """A key that is no lock is not touched."""
    redis_client.set("NAME", "precious")
    status, out, err = runs.run("NAME", "--", "echo", "ran")
    assert (status, out) == (64, "")
    assert err.startswith("interlock: ")
    assert redis_client.get("NAME") == b"precious"


def test_the_version_is_shown() -> None:
    """`interlock --version` says which one this is."""
    assert cli_process.interlock("--version").stdout == f"interlock {interlock.__version__}\n"


def test_the_script_is_installed(runs: Runs) -> None:
    """The package brings the command `interlock`."""
    script = Path(sys.executable).with_name("interlock")
    done = run(script, "run", "--url", runs.url, "NAME", "--", "echo", "ran", env=ENVIRON)
    assert done.stdout == "ran\n"


@pytest.mark.parametrize("how", ["deleted", "force-released", "explained"])
def test_a_lock_taken_away_stops_the_job(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path, how: str
) -> None:
    """A job whose lock is gone gets TERM, the status is 70, and the message has the reason."""
    told = (
        " (gone from the server (deleted, evicted, or the server lost its data or stepped its "
        "clock))"
    )
    seen = tmp_path / "seen"
    text = f"trap 'echo term >{seen}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    process = runs.started("--lease", "3", "NAME", "--", "/bin/sh", "-c", text)
    if how == "deleted":
        redis_client.delete("NAME")
    elif how == "force-released":
        with interlock.connect(runs.url) as client:
            assert client.lock("NAME").force_release()
        told = " (force-released)"
    else:
        with interlock.connect(runs.url) as client:
            [holder] = redis_client.hkeys("NAME")
            why = "stuck since 10:40 \x1b[2J"
            assert client.force_release("NAME", holder=holder.decode(), reason=why)
        told = " (force-released: stuck since 10:40 \\x1b[2J)"
    status, _, err = ended(process)
    assert status == 70
    assert seen.read_text() == "term\n"
    assert err == f"interlock: lock 'NAME' was lost while the command runs{told}: stopping it\n"


def test_an_unreachable_server_is_69_at_once() -> None:
    """Without a server nothing is waited for, and one line says where it was sought."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    runs = Runs(f"redis://127.0.0.1:{port}")
    began = time.monotonic()
    status, out, err = runs.run("NAME", "--", "echo", "ran")
    runs.close()
    assert time.monotonic() - began < 10
    assert (status, out) == (69, "")
    assert err.startswith("interlock: ")
    assert str(port) in err
    assert err.count("\n") == 1


def test_a_short_outage_is_sat_out(
    own_runs: Runs, fresh_server: RedisServer, tmp_path: Path
) -> None:
    """A server that is back before the lease has ended disturbs no job."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = own_runs.started("--lease", "15", "NAME", "-c", f"echo up; read -r _ <{gate}")
    fresh_server.pause()
    time.sleep(6)  # a renewal, due after 5 s, goes without its reply
    fresh_server.resume()
    gate.write_text("go\n")
    assert ended(process) == (0, "", "")


def test_a_long_outage_is_a_loss(own_runs: Runs, fresh_server: RedisServer) -> None:
    """The job is stopped when the local validity has ended, whether the server answers or not."""
    process = own_runs.started("--lease", "1", "NAME", "-c", f"echo up; exec sleep {LONG:.0f}")
    fresh_server.pause()
    try:
        status, _, err = ended(process)
    finally:
        fresh_server.resume()
    assert status == 70
    told = "lock 'NAME' was lost while the command runs (unreachable past validity"
    assert err.startswith(f"interlock: {told}")
    assert "): stopping it\n" in err
