"""Options that cannot work are refused when a client is made, not silently accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import interlock
import interlock.asyncio
from interlock import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("connect", [interlock.connect, interlock.asyncio.connect])
def test_sharded_channels_need_a_cluster(connect: Callable[..., object]) -> None:
    """A client of one server refuses sharded channels, which Redisson would not hear."""
    with pytest.raises(ConfigError, match="need a cluster"):
        connect("redis://localhost:1", pubsub="sharded")
