"""Fixtures of the tests of locks held as one: independent servers, and both faces."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.composite.table import Table
from tests.support.servers import RedisServer

from interlock._core.locks import red_lock, together

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from tests.objects.awaited import Face


PATIENCE = 5.0
"""Seconds that a server has to answer a red lock, unless a test says otherwise.

This is long, because a busy machine may not run the server in time.
"""


@pytest.fixture(autouse=True)
def patience(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, patient: None
) -> None:
    """Have servers waited for as long as the test's module says, whatever the lease."""
    seconds = getattr(request.module, "PATIENCE", PATIENCE)
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", seconds)
    monkeypatch.setattr(red_lock, "MOST_PATIENCE", seconds)
    monkeypatch.setattr(together, "LINGER", getattr(request.module, "LINGER", seconds))


def _started(count: int) -> Iterator[Sequence[RedisServer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RedisServer()) for _ in range(count)]


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[Sequence[RedisServer]]:
    yield from _started(5)


@pytest.fixture
def servers(shared_servers: Sequence[RedisServer]) -> Sequence[RedisServer]:
    """Give five servers that no test harms, without data."""
    for server in shared_servers:
        server.execute("FLUSHALL")
    return shared_servers


@pytest.fixture
def own_servers(request: pytest.FixtureRequest) -> Iterator[Sequence[RedisServer]]:
    """Give three servers, or as many as the test says, that are the test's own to harm."""
    yield from _started(getattr(request, "param", 3))


@pytest.fixture
async def table(face: Face, servers: Sequence[RedisServer]) -> AsyncIterator[Table]:
    async with Table(face, servers[:3]) as set_up:
        yield set_up


@pytest.fixture
async def five(face: Face, servers: Sequence[RedisServer]) -> AsyncIterator[Table]:
    async with Table(face, servers) as set_up:
        yield set_up


@pytest.fixture
async def own(face: Face, own_servers: Sequence[RedisServer]) -> AsyncIterator[Table]:
    async with Table(face, own_servers) as set_up:
        yield set_up
