"""A wait for a condition that Ctrl-C strikes: the lock is held, and no waiter is left."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import make
from tests.lock.interrupting import Blow
from tests.support.patience import wait_until

import interlock
from interlock._core.objects.condition import WaitFor

if TYPE_CHECKING:
    from collections.abc import Generator

    import redis

WAITING = "interlock_condition:{name}:"


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "write"])
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis, kind: str) -> None:
    """Wherever Ctrl-C strikes in a wait, the lock is held then, and nobody waits any more."""
    with interlock.connect(redis_url, lease=8) as client:
        condition, blow = client.condition(make(client, kind, "name")), Blow(1)
        while blow.struck:
            condition.acquire()
            with suppress(KeyboardInterrupt), blow:
                condition.wait(0.001)
            assert condition.lock.owned(), f"{blow} lost the lock"
            assert condition.lock.hold_count() == 1, f"{blow} lost the depth"
            condition.release()
            assert not client.holds(), f"{blow} left a hold"
            wait_until(lambda: not redis_client.exists(WAITING), 5, f"{blow} left a waiter")
            blow = blow.next()
        assert blow.at > 100


@pytest.mark.parametrize("kind", ["lock", "write"])
def test_a_second_ctrl_c_passes_the_notification_on(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """If it strikes the undo, the garbage takes all back, and the next waiter is notified."""
    hold_again, struck = WaitFor._hold_again, list[str]()

    def strike(step: WaitFor, news: Any) -> Generator[Any, Any, None]:
        if threading.current_thread().name == "struck" and len(struck) < 2:
            struck.append("a wait")
            raise KeyboardInterrupt
        yield from hold_again(step, news)

    monkeypatch.setattr(WaitFor, "_hold_again", strike)
    with interlock.connect(redis_url) as client, ThreadPoolExecutor(2) as pool:
        condition = client.condition(make(client, kind, "name"))

        def wait() -> bool:
            with condition:
                return condition.wait(20)

        def be_struck() -> None:
            threading.current_thread().name = "struck"
            with pytest.raises(KeyboardInterrupt):
                wait()

        first = pool.submit(be_struck)
        wait_until(lambda: redis_client.zcard(WAITING) == 1, 10, "one waits")
        second = pool.submit(wait)
        wait_until(lambda: redis_client.zcard(WAITING) == 2, 10, "two wait")
        with condition:
            condition.notify()
        first.result(10)
        assert struck == ["a wait", "a wait"]
        assert second.result(10) is True
        assert not condition.lock.locked()
        assert not client.holds()
