"""Agents: processes in Java and Python that use locks on command, behind one interface.

Each reads one JSON command per line and answers each with one JSON line. The agent in Python is
`peer`, the one in Java is in ``agent/``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

PATIENCE = 60.0
"""Seconds that a command without a time of its own may take on a busy machine."""

REFUSALS = ("IllegalMonitorStateException", "NotHeldError")
"""What either language raises when a release is none of the caller's business."""


class AgentError(Exception):
    """What an agent's command raised: its class in the agent's language."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class AgentDiedError(Exception):
    """The agent ended before it answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, with times of CLOCK_MONOTONIC and the second half of the owner's id."""

    value: Any
    started: float
    ended: float
    owner: int | str


class Agent:
    """One process with named threads (or tasks), each an owner of its own.

    Args:
        language: for reports: java, sync or asyncio.
        command: what to run.
        log: where its standard error goes; None for the standard error of this process.
    """

    def __init__(self, language: str, command: Sequence[str], log: Path | None) -> None:
        self.language = language
        self.client_ids: dict[str, str] = {}
        self._command = command
        self._log = log
        self._ended = f"{self} has ended"
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Answer]] = {}
        self._guard = threading.Lock()
        self._reads = True
        self._process: subprocess.Popen[str]
        self._reader: threading.Thread

    def __enter__(self) -> Self:
        with self._log.open("a") if self._log else contextlib.nullcontext() as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        self._reader = threading.Thread(target=self._read, name=f"{self.language} agent")
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: at once, whatever it holds."""
        self.kill()

    def __repr__(self) -> str:
        return f"<{self.language} agent>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, **how: Any) -> str:
        """Make a client; return the first half of its owners' ids."""
        answer = self.start("connect", "connect", **how).result(PATIENCE)
        self.client_ids[how.get("client", "main")] = answer.value
        return str(answer.value)

    def start(self, thread: str, do: str, **rest: Any) -> Future[Answer]:
        """Send a command to *thread* without waiting for it."""
        number = next(self._ids)
        future: Future[Answer] = Future()
        line = json.dumps({"id": number, "thread": thread, "do": do, **rest})
        with self._guard:
            self._pending[number] = future
            try:
                print(line, file=self._process.stdin, flush=True)
                if not self._reads:  # it is dead, though a process that just starts has its pipe
                    raise BrokenPipeError
            except (BrokenPipeError, ValueError):  # it is dead: `_read` has seen it, or will
                self._pending.pop(number, None)
                future.set_exception(AgentDiedError(self._ended))
        return future

    def ask(self, thread: str, do: str, **rest: Any) -> Any:
        """Send a command and return its value.

        Ask again while Redisson has not yet learnt the new shape of a cluster. It has sent nothing
        then.

        Raises:
            AgentError: what the command raised.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            asked = self.start(thread, do, **rest)
            try:
                return asked.result(PATIENCE + (rest.get("timeout") or 0)).value
            except AgentError as error:
                unknown = str(error).startswith("RedisNodeNotFoundException: entry for")
                if not unknown or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)  # until the client has heard of the server

    def owner(self, thread: str, client: str = "main") -> str:
        number = self.start(thread, "sleep", seconds=0).result(PATIENCE).owner
        return f"{self.client_ids[client]}:{number}"

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL; what was asked and not answered raises."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with self._guard:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # what was written last is read by nobody
                self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                try:
                    self._clean_up(json.loads(line))
                except (ValueError, LookupError, TypeError):
                    self._ended = f"{self} wrote {line[:200]!r}, which is no answer"
                    break
        with self._guard:
            self._reads = False
            orphans, self._pending = list(self._pending.values()), {}
        for future in orphans:
            future.set_exception(AgentDiedError(self._ended))

    def _clean_up(self, reply: dict[str, Any]) -> None:
        with self._guard:
            future = self._pending.pop(reply["id"])
        if "error" in reply:
            future.set_exception(AgentError(reply["error"], reply["message"]))
        else:
            future.set_result(
                Answer(
                    reply.get("value"),
                    reply.get("started", 0.0),
                    reply.get("ended", 0.0),
                    reply["owner"],
                )
            )
