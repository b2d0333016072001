"""Joining and starting: one server per name, private, fresh, and answering."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from interlock._embedded import EmbeddedServer, ensure, server
from interlock._embedded.place import place_of
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

READY = "ready to accept connections"
"""A server's last line once it has started; Redis 6 begins it with a small letter."""
ENSURE = "from interlock._embedded import ensure; print(ensure(), flush=True)"


def run_id(url: str) -> str:
    with Redis.from_url(url) as connection:
        return connection.info("server")["run_id"]


def stop() -> bool:
    return EmbeddedServer(place_of("default")).stop()


def pid(url: str) -> int:
    with Redis.from_url(url) as connection:
        return connection.info("server")["process_id"]


def test_server_is_private_and_keeps_nothing(runtime: Path) -> None:
    """The server's socket is for this user alone; it has no port and writes nothing to disk."""
    url = ensure()
    place = place_of("default")
    assert url == f"unix://{place}/redis.sock"
    assert place == runtime / f"interlock-{os.getuid()}" / "default"
    for directory in (place, place.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "redis.sock").stat().st_mode) == 0o700
    with Redis.from_url(url, decode_responses=True) as connection:
        assert connection.ping()
        assert connection.config_get("port") == {"port": "0"}
        assert connection.config_get("save") == {"save": ""}
        assert connection.config_get("appendonly") == {"appendonly": "no"}
        connection.set("key", "value")
    assert stop()
    assert sorted(path.name for path in place.iterdir()) == ["door", "log"]


def test_eight_processes_make_one_server(runtime: Path) -> None:
    """Eight processes that ask at the same moment all meet one server."""
    script = (
        "import sys, redis; from interlock._embedded import ensure; "
        "print(flush=True); sys.stdin.readline();"
        "print(redis.Redis.from_url(ensure()).info('server')['run_id'])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        runs = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [process.returncode for process in processes] == [0] * 8
    assert len(set(runs)) == 1
    # Each supervisor starts a new log, and each of its servers appends to it. So one server was
    # started, and its start succeeded.
    assert (place_of("default") / "log").read_text().lower().count(READY) == 1


def test_server_outlives_its_starters_session(runtime: Path) -> None:
    """The server outlives its starter, and a signal to the starter's whole process group."""
    script = f"{ENSURE}; import sys; sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        url = starter.stdout.readline().strip()
        run = run_id(url)
        os.killpg(starter.pid, signal.SIGINT)
        os.killpg(starter.pid, signal.SIGKILL)
    assert run_id(ensure()) == run


def test_killed_server_is_replaced(runtime: Path) -> None:
    """After a kill -9 of the server the next call starts another, despite the old socket."""
    url = ensure()
    run = run_id(url)
    os.kill(pid(url), signal.SIGKILL)
    assert ensure() == url
    assert run_id(url) != run


def test_hung_server_is_not_doubled(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second server starts beside one that does not answer; the call fails in bounded time."""
    monkeypatch.setattr(server, "_PATIENCE", 1.5)
    url = ensure()
    run, process = run_id(url), pid(url)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(ServerUnavailableError, match=rf"did not answer(.|\n)*(?i:{READY})"):
            ensure()
    finally:
        os.kill(process, signal.SIGCONT)
    monkeypatch.setattr(server, "_PATIENCE", 30.0)
    assert run_id(ensure()) == run


def test_failed_start_tells_the_reason(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server program that fails is reported at once, with what it said."""
    program = runtime / "broken-server"
    program.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setenv("INTERLOCK_REDIS_SERVER", str(program))
    monkeypatch.setattr(server, "_PATIENCE", 60.0)
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError, match=r"could not be started(.|\n)*no such luck"):
        ensure()
    assert time.monotonic() - began < 30
    assert not EmbeddedServer(place_of("default")).running()
