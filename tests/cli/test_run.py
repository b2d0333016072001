"""`interlock run` against a real server: whose turn it is, and who is told what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import LONG, Runs, ended, until_there
from tests.lock.lock_like import grows
from tests.support.patience import wait_until

import interlock

if TYPE_CHECKING:
    from pathlib import Path

    import redis


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
    with interlock.connect(runs.url) as client, client.lock("NAME") as hold:
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


def test_a_renewed_lease_outlasts_itself(
    runs: Runs, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """--lease bounds what a dead machine keeps, not how long a job may take."""
    gate = tmp_path / "gate"
    process = runs.started("--lease", "2", "NAME", "-c", f"echo up; {until_there(gate)}")
    wait_until(grows(redis_client, "NAME"), 10, "it is renewed")
    assert runs.run("-n", "NAME", "--", "true")[0] == 1
    gate.touch()
    assert ended(process) == (0, "", "")


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
