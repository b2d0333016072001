"""A wait for a condition that Ctrl-C strikes: the lock is held, and no waiter is left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.interrupting import Blow, strike_undo
from tests.support.patience import wait_until

import interlock
from interlock._core.objects import condition as objects
from interlock._drivers.threads import ThreadDriver

if TYPE_CHECKING:
    import redis


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis) -> None:
    """Wherever Ctrl-C strikes in a wait, the lock is held then, and nobody waits any more."""
    with interlock.connect(redis_url, lease=8, poll_cap=30) as client:
        condition, blow = client.condition("name"), Blow(1)
        holds = client._driver.session.holds
        while blow.struck:
            condition.acquire()
            with suppress(KeyboardInterrupt), blow:
                condition.wait(0.001)
            assert condition.lock.owned(), f"{blow} lost the lock"
            assert condition.lock.hold_count() == 1, f"{blow} lost the depth"
            condition.release()
            assert not holds.snapshot(), f"{blow} left a hold"
            wait_until(
                lambda: not redis_client.exists("interlock_condition_leases:{name}"),
                5,
                f"{blow} left a waiter",
            )
            blow = blow.next()
        assert blow.at > 100


def test_a_second_ctrl_c_leaves_no_waiter(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a Ctrl-C strikes the undo of another one, the waiter leaves; the traceback is kept."""
    struck = strike_undo(monkeypatch, objects, objects.Condition, "release_script")
    with interlock.connect(redis_url) as client:
        condition = client.condition("name")
        condition.acquire()
        with pytest.raises(KeyboardInterrupt) as kept:
            condition.wait()
        assert struck == ["the wait", "the undo"]
        leases = "interlock_condition_leases:{name}"
        wait_until(lambda: not redis_client.exists(leases), 10, "it has left")
        assert not client._driver.session.holds.snapshot()
        assert kept.tb is not None


def test_a_second_ctrl_c_while_it_acquires_again_leaves_no_hold(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a Ctrl-C drops the acquire of a struck wait, nothing stays reserved, and all goes on."""
    run, struck = ThreadDriver.run, list[str]()

    def strike(*_: object) -> None:
        struck.append("the wait")
        raise KeyboardInterrupt

    def drop(driver: ThreadDriver, op: Any) -> object:
        if struck == ["the wait"]:
            struck.append("the acquire")
            next(op)  # it has reserved its hold
            raise KeyboardInterrupt
        return run(driver, op)

    monkeypatch.setattr(objects, "wait_in_queue", strike)
    monkeypatch.setattr(ThreadDriver, "run", drop)
    with interlock.connect(redis_url) as client:
        waited = client.condition("name")
        waited.acquire()
        with pytest.raises(KeyboardInterrupt):
            waited.wait()
        assert struck == ["the wait", "the acquire"]
        assert not client._driver.session.holds.snapshot()
        wait_until(lambda: not redis_client.exists("name"), 10, "it is released")
        with waited:
            waited.notify()
