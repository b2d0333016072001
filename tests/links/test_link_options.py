"""What this version cannot do yet is refused when a client is made, not promised in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import interlock
import interlock.asyncio
from interlock import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "options",
    [
        {"pubsub": "sharded"},
    ],
    ids=str,
)
@pytest.mark.parametrize("connect", [interlock.connect, interlock.asyncio.connect])
def test_what_is_not_there_yet_is_refused(
    connect: Callable[..., object], options: dict[str, Any]
) -> None:
    """A client that is asked for sharded channels is not made."""
    with pytest.raises(ConfigError, match="not available yet"):
        connect("redis://localhost:1", **options)
