"""Agents: processes that are told what to do with a peer, and are always ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import processor_time
from benchmarks.peer import LEASE_VARIABLE, ProgramPeer

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from typing import Self

    from benchmarks.compare import Contender
    from benchmarks.peer import Peer

_ROOT = Path(__file__).parents[1]
_ANSWER = 60.0  # seconds until an agent counts as stuck


class AgentError(Exception):
    """An agent could not do what it was told; the message is its own."""


class Agent:
    """One process with one session; `close` it, whatever happened."""

    def __init__(self, peer: Peer, url: str, workers: int, lease: float | None = None) -> None:
        chosen = {} if lease is None else {LEASE_VARIABLE: str(lease)}
        self._process = subprocess.Popen(
            peer.program,
            cwd=_ROOT,
            env={**os.environ, **chosen, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._rest = b""
        self.send(do="open", peer=peer.name, kind=peer.kind, url=url, workers=workers)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def processor_time(self) -> float:
        """Return the seconds of processor time that the process has used; Linux tells it."""
        return processor_time(self.pid)

    def send(self, **order: object) -> None:
        """Give an order; its answer is to be received."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
        except BrokenPipeError as broken:
            raise AgentError(f"the agent has ended: {self._process.wait()}") from broken

    def receive(self, timeout: float = _ANSWER) -> dict[str, Any]:
        """Wait for the answer to the oldest order.

        Raises:
            AgentError: It says what went wrong; or nothing within *timeout* seconds.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        chunks = [self._rest]
        while b"\n" not in chunks[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AgentError(f"the agent did not answer in {timeout:.0f} s")
            chunk = os.read(self._process.stdout.fileno(), 1 << 20)
            if not chunk:
                raise AgentError(f"the agent has ended: {self._process.wait()}")
            chunks.append(chunk)
        line, _, self._rest = b"".join(chunks).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer

    def ask(self, timeout: float = _ANSWER, **order: object) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.send(**order)
        return self.receive(timeout)

    def kill(self) -> None:
        """End the process at once, with whatever it holds, even if it is frozen."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """Tell the agent to close its session; kill it if it does not end soon."""
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
def fleet(peer: Peer, url: str, *, agents: int, workers: int) -> Generator[Sequence[Agent]]:
    """Open *agents* processes with a session of *peer* each, for *workers* workers."""
    if isinstance(peer, ProgramPeer):
        peer.build()
    with contextlib.ExitStack() as stack:
        opened: list[Agent] = []
        for _ in range(agents):
            opened.append(Agent(peer, url, workers))
            stack.callback(opened[-1].close)
        for agent in opened:
            agent.receive()
        yield opened


class Fleets:
    """The fleets of one case, all alive at once; a context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._case: object = None
        self._opened: dict[str, Sequence[Agent]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def of(self, contender: Contender, url: str) -> Sequence[Agent]:
        """Return the fleet of *contender*; end those of another case."""
        case, peer = contender.case, contender.peer
        if case != self._case:
            self._stack.close()
            self._opened.clear()
            self._case = case
        if peer.name not in self._opened:
            opened = fleet(peer, url, agents=case.processes, workers=case.workers)
            self._opened[peer.name] = self._stack.enter_context(opened)
        return self._opened[peer.name]


def every(
    agents: Sequence[Agent], order: Mapping[str, object], timeout: float = _ANSWER
) -> list[dict[str, Any]]:
    """Give all agents the same order at once, and wait for all."""
    for agent in agents:
        agent.send(**order)
    return [agent.receive(timeout) for agent in agents]
