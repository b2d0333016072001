"""Clients through the proxy for the tests of the test beds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from interlock._links.options import anonymous

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.proxy import FaultProxy


@pytest.fixture
def connect() -> Callable[..., redis.Redis]:
    """Give a function that makes a client which sends nothing of its own accord, nor again."""

    def through(proxy: FaultProxy, *, protocol: int = 2, timeout: float = 10) -> redis.Redis:
        return redis.Redis(
            port=proxy.port,
            protocol=protocol,
            socket_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            **anonymous(),
            max_connections=1,
        )

    return through


@pytest.fixture
def client(proxy: FaultProxy, connect: Callable[..., redis.Redis]) -> Iterator[redis.Redis]:
    """Give a client through the proxy."""
    with connect(proxy) as client:
        yield client
