"""A failure tells its seed, its schedule, its servers' logs and the command that repeats it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.needs import ROOT
from tests.support.again import again, logs
from tests.support.simulator import InvariantError, Schedule, Simulator, schedule

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RedisServer


def test_a_command_is_told() -> None:
    """Options without a value, with several and with none stand as the command takes them."""
    told = again("faultlab run", seed=0, fault=["kill -9", "reset"], java=True, arena=None)
    assert told == (
        "to run it again: python -m faultlab run --seed 0 --fault 'kill -9' --fault reset --java"
    )


def test_servers_of_a_group_are_found(server: RedisServer) -> None:
    """The log of each server is told once, also of those that a fixture only has."""
    group = SimpleNamespace(nodes=[server], primary=server)
    [(place, log)] = logs({"bed": group, "server": server, "number": 5})
    assert place == "bed.nodes[0]"
    assert "Server initialized" in log


def test_a_broken_simulation_tells_its_schedule() -> None:
    """An invariant that is broken names the seed and all faults that were planned."""
    simulator = Simulator(5, schedule=Schedule(times=[(2.0, schedule.outage(3.0))]))
    with pytest.raises(InvariantError, match=r"seed 5, Schedule\(.*'outage'.*seconds=3\.0"):
        simulator.fail("it went wrong")


FAILING = """
from tests.lock.children import Child
from tests.support.servers import RedisServer

def test_it(server):
    for seed in range(5):
        with RedisServer() as own, Child("raise SystemExit('the end')", own.url()) as child:
            child.end()
            assert seed < 3
"""


def test_a_failing_test_shows_all_of_it(tmp_path: Path) -> None:
    """A failed test tells its seed, the logs of its servers, and the command.

    A server may be that of a fixture, or one that the test has started.
    """
    (tmp_path / "test_it.py").write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "tests.conftest", "-q", "-rN",
         "-n", "0", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "log of the fixture server" in done.stdout
    assert done.stdout.count("Server initialized") == 2
    assert "test_it: seed = 3" in done.stdout
    assert "python -m pytest -m '' test_it.py::test_it" in done.stdout


def test_what_a_process_wrote_is_told(redis_url: str) -> None:
    """An error beside a process of a test has what that process wrote to standard error."""
    code = """
        print("the reason", file=sys.stderr, flush=True)
        say("written")
        threading.Event().wait()
    """
    with pytest.raises(LookupError) as caught, Child(code, redis_url) as child:
        assert child.hear() == "written"
        raise LookupError
    [note] = caught.value.__notes__
    assert note.endswith("wrote:\nthe reason\n")
