"""Fixtures of the tests with replicas: both faces on a primary with two."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from tests.objects.awaited import Face, Stage
from tests.objects.kinds import Kind, named
from tests.support.binary import main_version
from tests.support.servers import ReplicatedServers, binaries

PROMPT = 8.0
"""Seconds that something may take on a busy machine which takes milliseconds."""


class Bed(Stage):
    """A face on a primary and its replicas."""

    def __init__(self, face: Face, servers: ReplicatedServers, kind: Kind) -> None:
        super().__init__(face, kind, servers.primary.url(), servers.primary.client())
        self.servers = servers

    def stop(self, *which: int) -> None:
        for number in which:
            self.servers.replicas[number].pause()

    def resume(self) -> None:
        for replica in self.servers.replicas:
            replica.resume()

    async def end(self) -> None:
        self.resume()
        await super().end()
        self.redis.close()


@pytest.fixture(scope="session")
def replicated_of_version() -> Iterator[Callable[[str], ReplicatedServers]]:
    """Give a function from a version to a primary with two replicas, started on first use."""
    started: dict[str, ReplicatedServers] = {}
    with contextlib.ExitStack() as stack:

        def of_version(version: str) -> ReplicatedServers:
            if version not in started:
                servers = ReplicatedServers(2, binary=binaries()[version])
                started[version] = stack.enter_context(servers)
            return started[version]

        yield of_version


@pytest.fixture(params=[main_version(), "redis-8.2"])
def replicated(
    request: pytest.FixtureRequest, replicated_of_version: Callable[[str], ReplicatedServers]
) -> ReplicatedServers:
    """Give a primary and two replicas in step, of an old and a new version, without data."""
    servers = replicated_of_version(request.param)
    servers.primary.execute("FLUSHALL")
    with servers.primary.client() as client:
        client.set("in step", 1)
        assert client.wait(2, 20_000) == 2
        client.delete("in step")
    return servers


@pytest.fixture
def kind() -> Kind:
    return named("lock")


@pytest.fixture
async def bed(face: Face, kind: Kind, replicated: ReplicatedServers) -> AsyncIterator[Bed]:
    """Give each face in turn on a primary with two replicas that the test may stop."""
    async with Bed(face, replicated, kind) as set_up:
        yield set_up
