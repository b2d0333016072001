"""An operator on call: a fleet in two languages, and nothing but the shell."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.cli_process import ENVIRON
from tests.interop.agent import AgentError
from tests.support.servers import ClusterServers, RedisServer, SentinelServers, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.agent import Agent

SOON = 30.0
"""Seconds in which an operator finds out whose the stuck hold is."""
LEASE = 3.0
NAME = "orders:42"
LOCK: dict[str, Any] = {"kind": "lock", "name": NAME}


class Shell:
    """The shell of an operator."""

    def __init__(self, url: str) -> None:
        self._environ = {**ENVIRON, "INTERLOCK_URL": url}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        return subprocess.run(
            [sys.executable, "-m", "interlock", *arguments],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def holders(self, name: str) -> list[dict[str, Any]]:
        """Return what `interlock why --json` tells of the holders of *name*."""
        shown = json.loads(self.run("why", name, "--json").stdout)
        return shown["lock"]["holders"] if shown["lock"] else []

    def told(self, name: str) -> bool:
        """Return whether a card tells of the first holder of *name*."""
        return any(holder["held_for"] is not None for holder in self.holders(name)[:1])

    def release(self, name: str, holder: str) -> subprocess.CompletedProcess[str]:
        """Break a hold."""
        return self.run("break", name, "--holder", holder, "--reason", "stuck, OPS-311")


class Fleet:
    """Processes at one service, and the shell of its operator."""

    def __init__(self, shell: Shell, python: list[Agent], java: list[Agent]) -> None:
        self.shell = shell
        self.python = python
        self.java = java


def python_options() -> dict[str, Any]:
    """Return how clients are made."""
    return {"lease": LEASE}


@pytest.fixture(params=["single", "cluster", "sentinel"])
def fleet(
    request: pytest.FixtureRequest, need_java: None, start_agent: Callable[[str], Agent]
) -> Iterator[Fleet]:
    """Give eight processes in Python and two in Java; with several servers, two and one."""
    with contextlib.ExitStack() as stack:
        if request.param == "single":
            server = stack.enter_context(RedisServer())
            url, how = server.url(), {"addresses": [server.url()]}
        elif request.param == "cluster":
            nodes = stack.enter_context(ClusterServers())
            url = nodes.url()
            addresses = [f"redis://127.0.0.1:{node.port}" for node in nodes.nodes]
            how = {"mode": "cluster", "addresses": addresses}
        else:
            watched = stack.enter_context(SentinelServers())
            url = watched.url()
            addresses = [f"redis://127.0.0.1:{each.port}" for each in watched.sentinels]
            how = {"mode": "sentinel", "addresses": addresses, "service": watched.service}
        many = request.param == "single"
        faces = ["sync", "asyncio"] * (4 if many else 1)
        python = [stack.enter_context(start_agent(face)) for face in faces]
        java = [stack.enter_context(start_agent("java")) for _ in range(2 if many else 1)]
        for agent in python:
            agent.connect(url=url, options=python_options())
        for agent in java:
            agent.connect(**how)
        yield Fleet(Shell(url), python, java)


def test_an_operator_breaks_the_stuck_hold_from_the_shell(fleet: Fleet) -> None:
    """`list` and `why` name the host, process and thread of a hold; `break` ends just that."""
    shell, (stuck, *others) = fleet.shell, fleet.python
    for number, agent in enumerate(others):
        assert agent.ask("t1", "acquire", kind="lock", name=f"jobs:{number}")
    assert stuck.ask("t1", "acquire", **LOCK)
    former = shell.holders(NAME)[0]["holder"]
    wait_until(lambda: shell.told(NAME), 20, "a card tells of the hold")
    waiting = [agent.start("t2", "acquire", **LOCK) for agent in (others[0], fleet.java[0])]
    wait_until(lambda: bool(shell.run("list", "--waiting").stdout), 20, "they wait")

    began = time.monotonic()
    [_, line] = shell.run("list", "orders:*", "--waiting").stdout.splitlines()
    assert f"{socket.gethostname()} pid {stuck.pid} " in line
    [holder] = shell.holders(NAME)
    assert time.monotonic() - began < SOON
    assert holder["client"]["pid"] == stuck.pid
    assert holder["held_for"] > 0
    assert holder["thread"]
    assert holder["holder"] == former

    # The stuck thread goes on after all, and takes the lock again: that is another hold.
    stuck.ask("t1", "release", **LOCK)
    # The one that is woken first must give the lock back for the other.
    turns = dict(zip(waiting, (others[0], fleet.java[0]), strict=True))
    while turns:
        done, _ = wait(turns, 60, FIRST_COMPLETED)
        for future in done:
            assert future.result().value
            turns.pop(future).ask("t2", "release", **LOCK)
    assert stuck.ask("t1", "acquire", **LOCK)
    survived = shell.release(NAME, former)
    assert survived.returncode == 1, survived
    assert stuck.ask("t1", "query", **LOCK)["depth"] == 1

    stuck.ask("t1", "watch", **LOCK)
    wait_until(lambda: shell.told(NAME), 20, "a card tells of the new hold")
    present = shell.holders(NAME)[0]["holder"]
    assert present != former
    broken = shell.release(NAME, present)
    assert broken.returncode == 0
    assert f"held by {present}, was released by force by" in broken.stderr
    assert stuck.ask("t1", "lost", timeout=60, **LOCK)
    with pytest.raises(AgentError, match="HoldLostError"):
        stuck.ask("t1", "release", **LOCK)
    assert others[0].ask("t2", "acquire", timeout=0, **LOCK)

    assert fleet.java[-1].ask("t1", "acquire", kind="lock", name="java")
    theirs = shell.release("java", shell.holders("java")[0]["holder"])
    assert theirs.returncode == 0
    listed = shell.run("list").stdout
    assert "java" not in listed
    assert listed.count("jobs:") == len(others)
