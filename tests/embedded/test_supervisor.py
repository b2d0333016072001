"""Ending: after the last client, never under one, and never one process without the other."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.patience import wait_until

from interlock._embedded import EmbeddedServer, ensure
from interlock._embedded.place import place_of

if TYPE_CHECKING:
    pass

STATE, PARENT = 0, 1


def gone() -> bool:
    """Tell whether neither server nor supervisor is left."""
    return not EmbeddedServer(place_of("default")).running()


def status(pid: int) -> list[str]:
    """Return what /proc tells of a process, without its name: see `STATE`, `PARENT`."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def processes(url: str) -> tuple[int, int]:
    with Redis.from_url(url) as connection:
        server = connection.info("server")["process_id"]
    return server, int(status(server)[PARENT])


def alive(pid: int) -> bool:
    """Tell whether a process runs (a zombie does not)."""
    try:
        return status(pid)[STATE] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def join(name: str, linger: float) -> Redis:
    """Return a connection to the server *name*, which ends no earlier than *linger* later."""
    while True:
        began = time.monotonic()
        connection = Redis.from_url(ensure(name, linger=linger))
        try:
            connection.ping()
        except RedisConnectionError:
            connection.close()
            if time.monotonic() - began < linger:
                raise
        else:
            return connection


def test_ends_after_its_last_client(runtime: Path) -> None:
    """The server stays while a client is connected, even an idle one, and then ends by itself."""
    with join("default", 0.7) as connection:
        connection.set("key", "value")
        time.sleep(1.2)  # longer than the linger
        assert not gone()
        assert connection.get("key") == b"value"
        left = time.monotonic()
    wait_until(gone, 30, "it comes")
    assert time.monotonic() - left >= 0.7


def test_join_is_safe_against_the_end(runtime: Path) -> None:
    """A join at the very moment of the end gives a server that stays for the linger, old or new."""
    linger = 0.4

    def come_and_go(name: str, phase: float) -> None:
        for turn in range(4):
            join(name, linger).close()
            # The server ends between linger and 1.4 linger after this. The turns return at
            # different moments of that time.
            time.sleep(linger * (1.0 + phase + turn * 0.1))  # the moments of a server's end

    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(come_and_go, f"n{n}", n * 0.01) for n in range(4)]:
            each.result()


def test_killed_supervisor_takes_the_server_along(runtime: Path) -> None:
    """After a kill -9 of the supervisor its server is gone too; the next call starts another."""
    url = ensure()
    server, supervisor = processes(url)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not alive(server), 30, "it comes")
    wait_until(gone, 30, "it comes")
    assert processes(ensure())[0] != server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_supervisor_that_is_told_to_end_ends_the_server(
    runtime: Path, number: signal.Signals
) -> None:
    """A supervisor that is asked to end takes the server along, in good order."""
    server, supervisor = processes(ensure())
    os.kill(supervisor, number)
    wait_until(gone, 30, "it comes")
    wait_until(lambda: not alive(server), 30, "it comes")
    assert not (place_of("default") / "redis.sock").exists()
