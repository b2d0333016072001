"""Fixtures of the interoperation tests: agents in Java and in Python on one real server."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop import java
from tests.interop.agent import Agent
from tests.interop.pair import SHORT, Pair
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEER = Path(__file__).with_name("peer.py")
POLL_CAP = 20.0
"""Seconds between two looks of a Python waiter. One that acquires sooner was woken by a message."""

_numbers = itertools.count(1)

PAIRS = ("java>sync", "sync>java", "java>asyncio", "asyncio>java")
OLD = ("java-3.27.2>sync", "sync>java-3.27.2")
"""With a Redisson that knows neither the newer fair lock nor batches of renewals."""
OLD_TOO = pytest.mark.parametrize("pair", [*PAIRS, *OLD], indirect=True)
NEWER = ("non_reentrant", "group")
"""Kinds that it lacks."""


def each_pair(*kinds: str) -> pytest.MarkDecorator:
    """Give each pair with each of *kinds*, old ones too."""
    cases = [(pair, kind) for kind in kinds for pair in (*PAIRS, *OLD)]
    cases = [(pair, kind) for pair, kind in cases if pair in PAIRS or kind not in NEWER]
    return pytest.mark.parametrize(("pair", "kind"), cases, indirect=["pair"])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the Java agent before any test's time runs: Maven may have to fetch everything."""
    here = any(item.nodeid.startswith("tests/interop/") for item in session.items)
    if here and java.is_there() and not session.config.option.collectonly:
        for version in (java.NEW, java.OLD):
            java.classpath(version)


def _python(face: str, log: Path) -> Agent:
    return Agent(face, [sys.executable, str(PEER), face], log)


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    """Give a server that no other tests use.

    An interrupted waiter of Redisson may stay subscribed.
    """
    with RedisServer() as apart:
        yield apart


@pytest.fixture(scope="session")
def need_java() -> None:
    """Tell that the test needs Java: conftest.py leaves it out where there is none."""


@pytest.fixture(scope="session")
def start_agent(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Agent]:
    """Give a function that makes an agent. Enter the agent to start it.

    The argument is ``java``, ``java-3.27.2``, ``sync`` or ``asyncio``.
    """
    logs = tmp_path_factory.mktemp("agents")

    def start(which: str) -> Agent:
        log = logs / f"{which}.log"
        if which.startswith("java"):
            return java.java_agent(which.partition("-")[2] or java.NEW, log)
        return _python(which, log)

    return start


@pytest.fixture(scope="session")
def shared_agents(
    server: RedisServer, start_agent: Callable[[str], Agent]
) -> Iterator[Callable[[str], Agent]]:
    """Give a function that returns the agent of a name.

    All tests share the agents, which are connected to the shared server.
    """
    started: dict[str, Agent] = {}
    with contextlib.ExitStack() as stack:

        def shared(which: str) -> Agent:
            if which not in started:
                started[which] = stack.enter_context(start_agent(which))
                connect(started[which], server)
                connect(started[which], server, "short", lease=SHORT)
            return started[which]

        yield shared


def connect(agent: Agent, server: RedisServer, client: str = "main", **options: float) -> None:
    if agent.language == "java":
        agent.connect(client=client, addresses=[server.url()], **options)
    else:
        agent.connect(client=client, url=server.url(), options=options)


@pytest.fixture(params=PAIRS)
def pair(
    request: pytest.FixtureRequest, need_java: None, shared_agents: Callable[[str], Agent]
) -> Pair:
    """Give two agents, one of them in Java: in both orders, with both faces."""
    return _pair(request.param, shared_agents)


@pytest.fixture(params=["java>sync", "sync>java"])
def one_pair(
    request: pytest.FixtureRequest, need_java: None, shared_agents: Callable[[str], Agent]
) -> Pair:
    """Give what `pair` gives, with one face, for tests that take long."""
    return _pair(request.param, shared_agents)


def _pair(languages: str, shared_agents: Callable[[str], Agent]) -> Pair:
    first, second = map(shared_agents, languages.split(">"))
    return Pair(first, second, f"orders:{next(_numbers)}")


@pytest.fixture
def own_pair(
    request: pytest.FixtureRequest,
    need_java: None,
    server: RedisServer,
    start_agent: Callable[[str], Agent],
) -> Iterator[Pair]:
    """Give two agents that a test may kill, those that its parameter names."""
    first, second = request.param.split(">")
    with start_agent(first) as one, start_agent(second) as two:
        for agent in (one, two):
            connect(agent, server, lease=SHORT, fair_wait=SHORT)
        yield Pair(one, two, f"orders:{next(_numbers)}")


OWN_PAIRS = pytest.mark.parametrize("own_pair", ["java>sync", "sync>java"], indirect=True)
