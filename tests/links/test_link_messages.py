"""What an error of a connection says, and what is printed with it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest
from tests.support.address import free_port

import interlock
from interlock import ServerUnavailableError
from interlock._links.replies import unconnected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lock.lock_like import Stage


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def _refused(stage: Stage, url: str) -> ServerUnavailableError:
    client, owner = stage.client(url), stage.owner()
    with pytest.raises(ServerUnavailableError) as caught:
        await owner.do(client.lock("name").acquire, timeout=1)
    return caught.value


async def test_a_refused_connection_has_a_short_story(stage: Stage) -> None:
    """An error of a connection has nothing above it: its message says why."""
    error = await _refused(stage, f"redis://127.0.0.1:{free_port()}/0")
    assert list(_chain(error)) == [error]
    assert "Connection refused" in str(error)
    first, *_ = traceback.format_exception(error)
    assert first.startswith("Traceback ")


def test_a_busy_pool_has_no_story(redis_url: str) -> None:
    """The error of a pool that has no connection left has nothing above it."""
    with interlock.connect(f"{redis_url}?max_connections=1", command_timeout=0.3) as client:
        pool = client._driver._pool
        only = pool._opened(pool._topology.only)
        only.take_back(only._take(1))
        connection = only.idle()
        assert connection is not None
        with pytest.raises(ServerUnavailableError, match="raise max_connections") as caught:
            client.lock("name").acquire(timeout=0)
        assert list(_chain(caught.value)) == [caught.value]
        only.take_back(connection)


def test_errors_that_come_from_each_other_end() -> None:
    """A chain of errors that leads back to its beginning is told once."""
    first, second = ConnectionError("first"), ConnectionError("second")
    first.__cause__, second.__cause__ = second, first
    told = unconnected(first, "somewhere", seen=False, tls=False)
    assert "somewhere" in str(told)
