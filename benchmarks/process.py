"""Agents: processes that hold a peer's workers, and are always ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import programs

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

ROOT = Path(__file__).parents[1]
"""The checkout of this version of interlock."""
PATIENCE = 60.0
"""Seconds until an agent counts as stuck."""


class AgentError(Exception):
    """An agent could not do what it was asked for; the message is its own."""


class Agent:
    """One process; `close` it, whatever happened."""

    def __init__(self, peer: str, code: Path) -> None:
        """Start a process of *peer*; interlock is imported from the checkout *code*."""
        command = programs.command(peer) or [sys.executable, "-m", "benchmarks.agent"]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(code / "src"), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.pid = self._process.pid
        self._rest = b""

    def send(self, **order: object) -> None:
        """Give an order; its answer is to be received."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
        except BrokenPipeError as broken:
            raise AgentError(f"the agent has ended: {self._process.wait()}") from broken

    def receive(self, until: float = 0.0) -> dict[str, Any]:
        """Wait for the answer to the oldest order, which begins to be due at *until*.

        Raises:
            AgentError: The agent says what went wrong, or nothing for `PATIENCE`.
        """
        assert self._process.stdout is not None
        deadline = max(until, time.monotonic()) + PATIENCE
        chunks = [self._rest]
        while b"\n" not in chunks[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AgentError(f"the agent did not answer in {PATIENCE:.0f} s")
            chunk = os.read(self._process.stdout.fileno(), 1 << 20)
            if not chunk:
                raise AgentError(f"the agent has ended: {self._process.wait()}")
            chunks.append(chunk)
        line, _, self._rest = b"".join(chunks).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer

    def ask(self, **order: object) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.send(**order)
        return self.receive()

    def close(self) -> None:
        """End the process; kill it if it does not end soon."""
        with contextlib.suppress(AgentError):
            self.send(do="close")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def fleet(
    peer: str, code: Path, processes: int, opening: dict[str, object]
) -> Generator[Sequence[Agent]]:
    """Start so many processes of *peer* and have their workers ready."""
    with contextlib.ExitStack() as stack:
        agents: list[Agent] = []
        for _ in range(processes):
            agents.append(Agent(peer, code))
            stack.callback(agents[-1].close)
        for agent in agents:
            agent.send(do="open", peer=peer, **opening)
        for agent in agents:
            agent.receive()
        yield agents


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that the process *pid* has used, with its threads."""
    # What clock_getcpuclockid returns in C: Python has no name for it.
    return time.clock_gettime((~pid << 3) | 2)
