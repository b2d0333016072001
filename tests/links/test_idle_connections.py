"""Connections that threads needed once, and need no more."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tests.support.patience import wait_until

import interlock
from interlock._links import pool

if TYPE_CHECKING:
    import pytest
    import redis

MANY = 8
FEW = 3
"""Connections of a client with one busy thread: its own, and those for renewals and messages."""


def test_idle_connections_end(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many threads were busy at once, what the others leave is kept for a while only."""
    monkeypatch.setattr(pool, "IDLE", 0.5)
    before = len(redis_client.client_list())

    def opened() -> int:
        return len(redis_client.client_list()) - before

    with interlock.connect(redis_url) as client:
        barrier = threading.Barrier(MANY)

        def work(number: int) -> None:
            barrier.wait(30)
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                with client.lock(f"name{number}"):
                    pass

        redis_client.execute_command("CLIENT", "PAUSE", 300, "WRITE")  # so that none is idle
        threads = [threading.Thread(target=work, args=(number,)) for number in range(MANY)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert opened() >= MANY

        def one_is_busy() -> bool:
            with client.lock("name0"):
                return opened() <= FEW

        wait_until(one_is_busy, 30, "the idle connections have ended")
        addresses = {each["addr"] for each in redis_client.client_list()}
        for _ in range(200):
            with client.lock("name0"):
                time.sleep(0.01)  # several times as long as a connection may be idle
        # What is in use stays, so nothing was opened anew.
        assert {each["addr"] for each in redis_client.client_list()} <= addresses
