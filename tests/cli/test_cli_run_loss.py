"""`interlock run` against a real server: locks that are lost, and servers that are away."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import LONG, Runs, ended

import interlock

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from tests.support.servers import RedisServer


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
    process = own_runs.started("--lease", "6", "NAME", "-c", f"echo up; read -r _ <{gate}")
    fresh_server.pause()
    time.sleep(3)  # a renewal, due after 2 s, goes without its reply
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
