"""Locks of two kinds at one name: they exclude each other, and neither hears the other's queue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.core.making import SIDES, make
from tests.support.patience import wait_until

import interlock

if TYPE_CHECKING:
    import redis

NAME = "two"
LEASE = 2.0


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("factory", ["lock", "fenced_lock"])
@pytest.mark.parametrize("turned", [False, True], ids=["", "side-first"])
def test_who_waited_for_another_kind_has_its_own(
    factory: str, side: str, redis_url: str, redis_client: redis.Redis, *, turned: bool
) -> None:
    """It looks in vain; then it has a hold of its own kind, which keeps all out, and is renewed."""
    kinds = (side, factory) if turned else (factory, side)
    with (
        interlock.connect(redis_url, lease=LEASE) as one,
        interlock.connect(redis_url, lease=LEASE) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        former, latter = make(one, kinds[0], NAME), make(other, kinds[1], NAME)
        former.acquire()
        assert not latter.acquire(timeout=0.5)
        waiting = pool.submit(latter.acquire, timeout=20)
        wait_until(
            lambda: bool(redis_client.keys("interlock*queue:*")), 10, "it stands in its queue"
        )
        former.release()
        assert waiting.result()
        assert redis_client.hget(NAME, "mode") == (None if turned else side.encode())
        got = [
            kind for kind in ("write", factory, "read") if make(one, kind, NAME).acquire(timeout=0)
        ]
        assert got == (["read"] if kinds[1] == "read" else [])
        pool.submit(latter.release).result()
