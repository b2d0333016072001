"""Two agents that meet at one object."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.patience import GIVE_UP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from .agent import Agent, Answer

SETTLE = 0.6
"""Seconds after which a waiter on a busy machine has subscribed and looked again."""

PROMPT = 12.0
"""Seconds within which a woken waiter acquires on a busy machine.

In tests of messages, poll caps and leases are far longer.
"""


SHORT = 2.0
"""Seconds: the lease of the client ``short``, renewed by its watchdog."""


def settle() -> None:
    """Give processes of both languages the time to wait, or to be woken and go on."""
    time.sleep(SETTLE)  # Java tells nobody whether it waits


@dataclass(frozen=True, slots=True)
class Party:
    """One thread or task of an agent at one object, of which its commands speak."""

    agent: Agent
    thread: str
    target: dict[str, Any]

    def start(self, do: str, **rest: Any) -> Future[Answer]:
        return self.agent.start(self.thread, do, **self.target, **rest)

    def ask(self, do: str, **rest: Any) -> Any:
        return self.agent.ask(self.thread, do, **self.target, **rest)

    def wait(self, do: str = "acquire", **rest: Any) -> Future[Answer]:
        """Begin a command that has to wait, and see that it does.

        Raises:
            AssertionError: it did not wait.
        """
        waiting = self.start(do, **rest)
        settle()
        assert not waiting.done(), waiting
        return waiting

    @property
    def owner(self) -> str:
        return self.agent.owner(self.thread, self.target.get("client", "main"))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents of two languages, and a name of their own; the first one holds, as a rule."""

    first: Agent
    second: Agent
    name: str

    def of_first(self, kind: str, thread: str = "t1", **target: Any) -> Party:
        """Return the first one at the object of *kind*."""
        return self.at(kind, thread, **target)[0]

    def of_second(self, kind: str, thread: str = "t1", **target: Any) -> Party:
        """Return the second one at the object of *kind*."""
        return self.at(kind, thread, **target)[1]

    def at(self, kind: str, thread: str = "t1", **target: Any) -> tuple[Party, Party]:
        """Return both at the object of *kind*."""
        if kind == "group":
            target = {"values": ["a", "b"], **target}
        of = {"kind": kind, "name": f"{self.name}:{kind.replace('read', 'write')}", **target}
        return Party(self.first, thread, of), Party(self.second, thread, of)


def counts_wake(pair: Pair, **target: Any) -> None:
    """Check that permits and a count of one language wake a waiter of the other."""
    giver, taker = pair.at("semaphore", **target)
    assert giver.ask("try_set_permits", n=1)
    assert giver.ask("acquire", timeout=0)
    waiting = taker.wait(timeout=30)
    giver.ask("release")
    assert waiting.result(PROMPT).value is True
    giver, taker = pair.at("leased_semaphore", **target)
    assert giver.ask("try_set_permits", n=1)
    ids = giver.ask("acquire", timeout=0, lease=60)
    waiting = taker.wait(timeout=30, lease=60)
    giver.ask("release", ids=ids)
    assert len(waiting.result(PROMPT).value) == 1
    giver, taker = pair.at("latch", **target)
    assert giver.ask("try_set_count", n=1)
    waiting = taker.wait("wait", timeout=30)
    giver.ask("count_down")
    assert waiting.result(PROMPT).value is True


def take_turns(parties: Sequence[Party], turns: int, **options: Any) -> None:
    """Let all *parties* acquire and release until each had its *turns*; none may wait for long."""
    waits: list[list[float]] = [[] for _ in parties]

    def work(party: Party, mine: list[float]) -> None:
        until = time.monotonic() + GIVE_UP
        while min(map(len, waits)) < turns and (began := time.monotonic()) < until:
            assert party.ask("acquire", **options)
            mine.append(time.monotonic() - began)
            party.ask("release")

    with ThreadPoolExecutor(len(parties)) as pool:
        list(pool.map(work, parties, waits))
    for mine in waits:
        assert len(mine) >= turns
        assert max(mine) < PROMPT
