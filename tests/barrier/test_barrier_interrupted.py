"""A wait at a barrier that Ctrl-C strikes: the arrival is taken back, and nothing is left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.lock.interrupting import Blow, SecondBlow, strike_undo
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock import BrokenBarrierError
from interlock._core.objects import barrier, leased_waiters
from interlock._drivers.threads import ThreadDriver

if TYPE_CHECKING:
    import redis


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("parties", [1, 2])
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis, parties: int) -> None:
    """Wherever Ctrl-C strikes in a wait, the party does not count any more, and no hold is left."""
    with interlock.connect(redis_url, lease=8, poll_cap=30) as client:
        meeting, blow = client.barrier("name", parties), Blow(1)
        holds = client._driver.session.holds
        while blow.struck:
            with suppress(KeyboardInterrupt, BrokenBarrierError), blow:
                meeting.wait(0.001)
            assert not holds.snapshot(), f"{blow} left a hold"
            wait_until(
                lambda: not redis_client.exists("interlock_barrier_parties:{name}"),
                5,
                f"{blow} left a party",
            )
            meeting.reset()
            blow = blow.next()
        assert blow.at > 100


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_two_signals_leave_no_party(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Nor does a second Ctrl-C that strikes before the undo of the first one has begun."""
    second = SecondBlow(monkeypatch, ThreadDriver)
    with interlock.connect(redis_url, lease=60) as client:
        meeting, blow = client.barrier("name", 1), Blow(1, returns=False)
        holds = client._driver.session.holds
        while blow.struck:
            second.after(blow, calls)
            with suppress(KeyboardInterrupt, BrokenBarrierError), blow:
                meeting.wait(30)
            assert not holds.snapshot(), f"{blow} left a hold"
            wait_until(
                lambda: not redis_client.exists("interlock_barrier_parties:{name}"),
                15,
                f"{blow} left a party",
            )
            meeting.reset()
            blow = blow.next()
        assert blow.at > 60


def test_a_second_ctrl_c_leaves_no_party(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a Ctrl-C strikes the undo of another one, the party leaves; the traceback is kept."""
    struck = strike_undo(monkeypatch, barrier, leased_waiters, "undo_acquire")
    with interlock.connect(redis_url) as client:
        with pytest.raises(KeyboardInterrupt) as kept:
            client.barrier("name", 2).wait()
        assert struck == ["the wait", "the undo"]
        parties = "interlock_barrier_parties:{name}"
        wait_until(lambda: not redis_client.zcard(parties), 10, "it has left")
        assert kept.tb is not None
