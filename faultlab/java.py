"""Redisson plays too: its lanes are driven through the agent of ``tests/interop``.

Java's holds have no notion of validity. But ``unlock`` succeeds only for the present holder. So a
hold that was released without an error was held to the beginning of its release.
"""

from __future__ import annotations

import importlib
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from .history import Recorder
from .objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

_KINDS = ("plain", "fair", "fenced", "read", "write")
_LANES = 3
_PATIENCE = 30.0
_LEASE = 4.0


class JavaPlayers:
    """One process in Java, with lanes; a context manager."""

    def __init__(self, addresses: Sequence[str], home: Path, seed: int, until: float) -> None:
        java: Any = importlib.import_module("tests.interop.java")
        self._errors: Any = importlib.import_module("tests.interop.agent")
        self._addresses = list(addresses)
        self._until = until
        self._seed = seed
        self._note = Recorder(home / "java.jsonl", "java.1")
        self._agent: Any = java.java_agent(java.NEW, home / "java.log")
        self._threads = [threading.Thread(target=self._lane, args=(n,)) for n in range(_LANES)]

    def __enter__(self) -> Self:
        """Start the process and its lanes."""
        self._agent.__enter__()
        try:
            self._agent.connect(addresses=self._addresses, lease=_LEASE, fair_wait=3.0)
        except BaseException:
            self._agent.kill()
            raise
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, whatever it does."""
        self._agent.kill()
        for thread in self._threads:
            thread.join()

    def finish(self) -> None:
        """Wait for the end of the lanes."""
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _lane(self, number: int) -> None:
        chance, lane = random.Random(f"{self._seed} java {number}"), f"lane{number}"
        while time.monotonic() < self._until - 2:
            name = chance.choice(_KINDS)
            timeout = chance.choice((0, 1.0, 3.0))
            lease = chance.choice((None, 2.0))
            try:
                self._use(lane, name, timeout, lease, chance.choice((0, 0.05, 0.5)))
            except self._errors.AgentDiedError:
                return

    def _use(
        self, lane: str, name: str, timeout: float, lease: float | None, seconds: float
    ) -> None:
        target = {"kind": OBJECTS[name].kind, "name": OBJECTS[name].name}
        how = {"timeout": timeout, **({"lease": lease} if lease else {})}
        number = self._note.call(lane, "acquire", o=name, timeout=timeout, lease=lease, java=True)
        got = self._ask(lane, number, "acquire", **target, **how)
        if not got:
            return
        ident = f"java.1/{lane}/{number}"
        self._note.note("held", h=ident, o=name, w=lane, token=None, lease=lease)
        time.sleep(seconds)
        number = self._note.call(lane, "release", o=name, h=ident, java=True)
        asked = time.monotonic()
        if self._ask(lane, number, "release", **target) is not None:
            self._note.note("belief", t=asked, h=ident)

    def _ask(self, lane: str, number: int, do: str, **rest: Any) -> Any:
        """Return the value, True for none, and None for an error."""
        try:
            answer = self._agent.start(lane, do, **rest).result(_PATIENCE)
        except self._errors.AgentError as error:
            self._note.ret(number, error=error.kind, text=str(error)[:300])
            return None
        self._note.ret(number, value=answer.value)
        return True if answer.value is None else answer.value
