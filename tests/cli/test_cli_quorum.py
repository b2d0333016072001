"""`interlock run` with several --url: the lock is held on a majority of independent servers."""

from __future__ import annotations

import functools
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import Runs, ended, until_there
from tests.objects.awaited import grows
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

import interlock

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def three() -> Iterator[list[RedisServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(RedisServer()) for _ in range(3)]


@pytest.fixture
def runs(three: list[RedisServer]) -> Iterator[Runs]:
    runs = Runs(" ".join(server.url() for server in three))
    yield runs
    runs.close()


def holders(servers: list[RedisServer]) -> list[object]:
    return [server.execute("HKEYS", "NAME") for server in servers]


def on_all(
    servers: list[RedisServer], start: Callable[[], subprocess.Popen[str]]
) -> tuple[subprocess.Popen[str], str]:
    """Return a process with its lock on all *servers*, and the first line of its job.

    A server that answers 10 ms after the others is left out. Then another process starts.
    """
    while True:
        process = start()
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line
        if all(holders(servers)):
            return process, line
        process.terminate()
        _ = ended(process)


def test_the_lock_is_held_on_every_server(
    runs: Runs, three: list[RedisServer], tmp_path: Path
) -> None:
    """While the job runs, each server has its plain lock, which excludes others there too.

    Afterwards no server has it.
    """
    gate = tmp_path / "gate"
    text = f'echo "$INTERLOCK_HOLDER ${{INTERLOCK_TOKEN-none}}"; {until_there(gate)}'
    start = functools.partial(runs.start, "NAME", "-c", text, INTERLOCK_TOKEN="17")
    process, line = on_all(three, start)
    holder, token = line.split()
    assert token == "none"
    assert re.fullmatch(r"[0-9a-f-]{36}:\d+", holder)
    assert [holder.encode()] in holders(three)
    assert runs.run("-n", "NAME", "--", "true")[0] == 1
    with interlock.connect(three[1].url()) as client:
        assert not client.lock("NAME").acquire(timeout=0)
    gate.touch()
    assert ended(process) == (0, "", "")
    assert [server.execute("KEYS", "*") for server in three] == [[], [], []]


def test_a_minority_may_be_down(runs: Runs, three: list[RedisServer], tmp_path: Path) -> None:
    """One of three servers may be down for the acquire, and one may die while the job runs."""
    three[0].kill()
    assert runs.run("-n", "NAME", "--", "true") == (0, "", "")
    three[0].start()
    gate, lease = tmp_path / "gate", 3
    job = f"echo up; {until_there(gate)}"
    start = functools.partial(runs.start, f"--lease={lease}", "NAME", "-c", job)
    process, _ = on_all(three, start)
    three[2].kill()
    with three[0].client() as seen:
        wait_until(grows(seen, "NAME"), 20, "a majority renews it")
    assert runs.run("-n", "NAME", "--", "true")[0] == 1
    gate.touch()
    status, _, err = ended(process)
    assert status == 0
    assert "was lost" not in err


def test_without_a_majority_nothing_runs(runs: Runs, three: list[RedisServer]) -> None:
    """With two of three servers down, the status is 69, in one line; the third keeps nothing."""
    three[0].kill()
    three[1].kill()
    status, out, err = runs.run("-n", "NAME", "--", "echo", "ran")
    assert (status, out) == (69, "")
    assert err.startswith("interlock: ")
    assert err.count("\n") == 1
    assert three[2].execute("KEYS", "*") == []


def test_one_server_twice_is_64(three: list[RedisServer]) -> None:
    """A server that is named twice would count twice."""
    runs = Runs(f"{three[0].url()} {three[1].url()} {three[0].url()}")
    status, out, err = runs.run("NAME", "--", "echo", "ran")
    runs.close()
    assert (status, out) == (64, "")
    assert err.startswith("interlock: the same --url twice")
    assert err.count("\n") == 1
