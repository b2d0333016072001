"""A wait at a barrier that Ctrl-C strikes: the arrival is taken back, and nothing is left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.lock.interrupting import Blow
from tests.support.patience import wait_until

import interlock
from interlock import BrokenBarrierError

if TYPE_CHECKING:
    import redis


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis) -> None:
    """Wherever Ctrl-C strikes in a wait, the party does not count any more, and no hold is left."""
    with interlock.connect(redis_url, lease=1.8, poll_cap=30) as client:
        barrier, blow = client.barrier("name", 2), Blow(1)
        holds = client._driver.session.holds
        while blow.struck:
            with suppress(KeyboardInterrupt, BrokenBarrierError), blow:
                barrier.wait(0.001)
            assert not holds.snapshot(), f"{blow} left a hold"
            wait_until(
                lambda: not redis_client.exists("interlock_barrier_parties:{name}"),
                5,
                f"{blow} left a party",
            )
            barrier.reset()
            blow = blow.next()
        assert blow.at > 100
