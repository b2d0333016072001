"""Names in a cluster: all keys of an object in one slot, or a refusal when the object is made."""

from __future__ import annotations

import pytest

import interlock
from interlock import ConfigError

OBJECTS = [
    "lock",
    "fair_lock",
    "fenced_lock",
    "spin_lock",
    "read_write_lock",
    "semaphore",
    "leased_semaphore",
    "count_down_latch",
    "event",
    "condition",
    "election",
]


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_object_refuses_them(kind: str) -> None:
    """Each object of a cluster client refuses such a name at creation, without a round trip.

    A client of one server accepts it.
    """
    with (
        interlock.connect("redis+cluster://localhost:1") as client,
        pytest.raises(ConfigError, match="a}b"),
    ):
        getattr(client, kind)("a}b")
    with interlock.connect("redis://localhost:1") as client:
        getattr(client, kind)("a}b")
