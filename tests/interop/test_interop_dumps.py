"""After the same operations the server holds the same, whichever language did them.

Java's side is on file (`fixtures`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.interop import fixtures
from tests.interop.conftest import connect
from tests.interop.sequences import NAMES, SEQUENCES
from tests.interop.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.agent import Agent
    from tests.support.servers import RedisServer

every_sequence = pytest.mark.parametrize("sequence", SEQUENCES)
every_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def stage(server: RedisServer) -> Iterator[Stage]:
    with server.client() as client:
        looked_at = Stage(client)
        yield looked_at
        looked_at.close()


@pytest.mark.promise("redisson")
@every_name
@every_sequence
@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_python_leaves_what_java_left(
    start_agent: Callable[[str], Agent],
    server: RedisServer,
    stage: Stage,
    shared_agents: Callable[[str], Agent],
    face: str,
    sequence: str,
    name: str,
) -> None:
    """Python's answers, keys and messages equal Java's, but for differences on purpose."""
    with contextlib.ExitStack() as stack:
        if sequence == "semaphore-missing":
            # A client that has used a semaphore does not make it anew when it is gone.
            agent = stack.enter_context(start_agent(face))
            connect(agent, server)
        else:
            agent = shared_agents(face)
        states = list(stage.play(agent, name, SEQUENCES[sequence]))
    assert states == fixtures.of_python(fixtures.read(fixtures.path(sequence), name))


@every_name
@every_sequence
def test_java_still_leaves_what_is_on_file(
    need_java: None, shared_agents: Callable[[str], Agent], stage: Stage, sequence: str, name: str
) -> None:
    """The files are what Redisson does; else record them anew and look at the differences."""
    states = list(stage.play(shared_agents("java"), name, SEQUENCES[sequence]))
    assert states == fixtures.of_java(fixtures.read(fixtures.path(sequence), name))


def test_field_names_of_group_locks_are_on_file(
    need_java: None, shared_agents: Callable[[str], Agent]
) -> None:
    """The vectors are what Redisson makes of their values."""
    vectors = fixtures.read(fixtures.FIELDS)
    values = [vector["value"] for vector in vectors]
    assert shared_agents("java").ask("t1", "hash", values=values) == [
        vector["field"] for vector in vectors
    ]
