"""The plain lock: which scripts it sends, with what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.locks.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.core.bench import Bench


@pytest.fixture
def lock(make_bench: Callable[..., Bench]) -> Lock:
    """Give a lock whose name is mapped to another key."""
    return Lock(make_bench(name_mapper=lambda name: f"app:{name}").session, "x")


def test_channel_belongs_to_the_key(lock: Lock) -> None:
    """Releases are announced where Java listens for the mapped name."""
    assert (lock.name, lock.key) == ("x", "app:x")
    assert lock.channel == "redisson_lock__channel:{app:x}"
    assert lock.reentrant


def test_scripts_are_those_of_the_plain_lock(lock: Lock, bench: Bench) -> None:
    """Each script is told the key, the holder and the depth to reach."""
    hold = lock.new_hold(bench.owner, 5.0)
    sent = {
        call.script.name: (call.keys, call.args, call.deadline)
        for call in (
            lock.acquire_script(hold, 5.0, 2, 7.0),
            lock.release_script(hold, 1),
            lock._force_release_script(),
            lock._query_script(8.0),
            lock.renewal(["a", "b"], 5.0, ["h:1", "h:2"], deadline=9.0),
        )
    }
    forever = float("inf")

    assert sent == {
        "lock_acquire": (("app:x",), (5000, hold.holder, 2), 7.0),
        "lock_release": (("app:x",), (hold.holder, 1, lock.channel), forever),
        "lock_force_release": (("app:x",), (lock.channel, ""), forever),
        "lock_query": (("app:x",), (), 8.0),
        "lock_renew": (("a", "b"), (5000, "h:1", "h:2"), 9.0),
    }
