"""Options that cannot work are refused when a client is made, not silently accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import redis.asyncio.connection
import redis.connection

import interlock
import interlock.asyncio
from interlock import ConfigError
from interlock._links.options import parameters

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("connect", [interlock.connect, interlock.asyncio.connect])
def test_sharded_channels_need_a_cluster(connect: Callable[..., object]) -> None:
    """A client of one server refuses sharded channels, which Redisson would not hear."""
    with pytest.raises(ConfigError, match="need a cluster"):
        connect("redis://localhost:1", pubsub="sharded")


@pytest.mark.parametrize("module", [redis.connection, redis.asyncio.connection])
def test_connecting_parses_no_source(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of a connection are found without Python's parser.

    Two threads cannot use the parser at once.
    """
    parameters.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("ast.parse", Mock(side_effect=SystemError("parsed")))
        for name in ("Connection", "SSLConnection", "UnixDomainSocketConnection"):
            assert {"username", "db", "socket_timeout"} <= parameters(getattr(module, name))
