"""The catalogue of kinds is complete."""

from __future__ import annotations

from tests.support.doings import DOINGS

import interlock
from interlock.inspection.kinds import KINDS


def test_each_kind_is_called_like_its_factory() -> None:
    """The names of the kinds are those of the client's factories, and none is missing."""
    for kind in KINDS:
        assert callable(getattr(interlock.Client, kind))
    made = {
        name
        for name in dir(interlock.Client)  # without the names of other libraries
        if name.endswith(
            ("lock", "semaphore", "latch", "event", "election", "barrier", "condition", "limited")
        )
        and not name.startswith(("_", "try"))
    }
    assert made == KINDS.keys() == DOINGS.keys() | {"multi_lock", "red_lock"}
