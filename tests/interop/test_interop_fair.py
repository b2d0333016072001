"""One fair queue of Java's waiters and Python's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.agent import AgentError
from tests.interop.conftest import connect
from tests.interop.pair import PROMPT, Party
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from tests.interop.agent import Agent, Answer
    from tests.support.servers import RedisServer

EQUAL, APART = 5.0, 60.0
"""Seconds that Java's waiters have in the queue: as Python's, and something else."""


class Queue:
    """A fair lock that is held, and who stands before it."""

    def __init__(self, server: RedisServer, holder: Party) -> None:
        self.holder = holder
        self._key = f"redisson_lock_queue:{{{holder.target['name']}}}"
        self._server = server
        self.waiting: list[tuple[Party, Future[Answer]]] = []
        assert holder.ask("acquire")

    def __len__(self) -> int:
        length = self._server.execute("LLEN", self._key)
        assert isinstance(length, int)
        return length

    def join(self, party: Party, timeout: float = 60) -> None:
        before = len(self)
        self.waiting.append((party, party.start("acquire", timeout=timeout)))
        wait_until(lambda: len(self) == before + 1, PROMPT, f"{party} stands in the queue")

    def serve(self, patience: float = PROMPT) -> list[float]:
        """Release, and let each in turn acquire and release; return when each acquired."""
        self.holder.ask("release")
        acquired: list[float] = []
        for party, entering in self.waiting:
            answer = entering.result(patience)
            assert answer.value is True
            acquired.append(answer.ended)
            party.ask("release")
        return acquired


@pytest.fixture(scope="module")
def java(need_java: None, shared_agents: Callable[[str], Agent], server: RedisServer) -> Agent:
    """Give the agent in Java, with clients whose waiters have other times in the queue."""
    agent = shared_agents("java")
    connect(agent, server, "equal", fair_wait=EQUAL)
    connect(agent, server, "apart", fair_wait=APART)
    return agent


@pytest.fixture(params=["sync", "asyncio"])
def python(request: pytest.FixtureRequest, shared_agents: Callable[[str], Agent]) -> Agent:
    """Give the agent in Python with each face in turn."""
    return shared_agents(request.param)


def _queue(server: RedisServer, name: str, mixed: Sequence[tuple[Agent, str]]) -> Queue:
    """Return a queue of waiters that were started one after the other.

    The holder is in the first waiter's language.
    """
    target = {"kind": "fair", "name": name}
    queue = Queue(server, Party(mixed[0][0], "holder", target))
    for number, (agent, client) in enumerate(mixed):
        queue.join(Party(agent, f"w{number}", target | {"client": client}))
    return queue


@pytest.mark.parametrize("client", ["main", "equal", "apart"])
def test_a_mixed_queue_is_served_in_order(
    server: RedisServer, java: Agent, python: Agent, client: str
) -> None:
    """Waiters are served in the order in which they asked, whatever their languages.

    It makes no difference how long Java's waiters keep their places.
    """
    mixed = [(java, client), (python, "main"), (java, client), (python, "main"), (java, client)]
    queue = _queue(server, f"mixed:{client}:{python.language}", mixed)
    acquired = queue.serve()
    assert acquired == sorted(acquired)
    assert len(queue) == 0


@pytest.mark.parametrize("first", ["java", "python"])
def test_who_gives_up_holds_nobody_up(
    server: RedisServer, java: Agent, python: Agent, first: str
) -> None:
    """A waiter of either language leaves the queue when its time is up.

    The one behind it is served at once.
    """
    quitter, patient = (java, python) if first == "java" else (python, java)
    target = {"kind": "fair", "name": f"quit:{first}:{python.language}"}
    queue = Queue(server, Party(patient, "holder", target))
    leaving = Party(quitter, "w0", target).start("acquire", timeout=3, lease=20)
    wait_until(lambda: len(queue) == 1, PROMPT, "it stands in the queue")
    queue.join(Party(patient, "w1", target))
    assert leaving.result(3 + PROMPT).value is False
    wait_until(lambda: len(queue) == 1, PROMPT, "it has left the queue")
    queue.serve()


def test_an_interrupted_java_waiter_delays_the_next_by_its_deadline_only(
    server: RedisServer, java: Agent, python: Agent
) -> None:
    """Java leaves an interrupted waiter in the queue.

    A Python waiter behind it is served when that place ends.
    """
    target = {"kind": "fair", "name": f"interrupted:{python.language}"}
    queue = Queue(server, Party(java, "holder", target))
    leaving = Party(java, "w0", target | {"client": "equal"}).start("acquire")
    wait_until(lambda: len(queue) == 1, PROMPT, "it stands in the queue")
    java.ask("w0", "interrupt")
    with pytest.raises(AgentError, match="Interrupted"):
        leaving.result(PROMPT)
    assert len(queue) == 1, "Redisson has learned to clean up: say so in docs/reference/wire.md"
    # The first place in Redisson's queue lasts for the rest of the holder's lease and its own wait.
    queue.holder.ask("release")
    assert queue.holder.ask("acquire", timeout=0) is False
    server.execute(
        "ZADD",
        f"redisson_lock_timeout:{{{target['name']}}}",
        "XX",
        1,
        _first(server, target["name"]),
    )
    behind = Party(python, "w1", target).start("acquire", timeout=30)
    assert behind.result(PROMPT).value is True
    Party(python, "w1", target).ask("release")
    assert len(queue) == 0


def _first(server: RedisServer, name: str) -> bytes:
    first = server.execute("LINDEX", f"redisson_lock_queue:{{{name}}}", 0)
    assert isinstance(first, bytes)
    return first
