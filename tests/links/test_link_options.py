"""What cannot work is refused when a client is made, not promised in silence."""

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
    """One server has no use for sharded channels, on which Redisson would not hear: a client is not made."""
    with pytest.raises(ConfigError, match="need a cluster"):
        connect("redis://localhost:1", pubsub="sharded")
