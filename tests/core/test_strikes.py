"""Whoever is struck while it waits leaves nothing, and does not keep the lock from others.

With ``twice`` its `give_up` is struck as well. Leases are so long that no end of one helps.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from tests.core.strikes import strike, struck_again

import interlock
from interlock._core.locks.base import Acquire
from interlock._drivers.flow import current_owner

LEASE = 90.0
LIMIT = 2.5
"""Seconds for what takes milliseconds; a grant to somebody who is gone lasts longer."""
GIVING_UP = 200
"""Opcodes of a `give_up`, at least."""
NAME, QUEUE = "the name", "interlock_queue:{the name}"
SIDES_QUEUE, FAIR_QUEUE = "interlock_rw_queue:{the name}", "redisson_lock_queue:{the name}"
STRIDE = 29
"""Opcodes from strike to strike."""


class Waiter:
    """A lock that is struck while *other*, a lock of another client, is held.

    Args:
        mine: waits.
        other: has the lock.
        server: tells what is left there.
    """

    def __init__(self, mine: Any, other: Any, server: redis.Redis) -> None:
        self.mine, self.other, self._server = mine, other, server
        self._state = mine._core.session

    def play(self, at: int, again: int, timeout: float | None) -> bool:
        """Strike an acquire at the opcode *at*, and if *again* in its `give_up`.

        With a *timeout* it waits in vain; otherwise the lock is released when it waits. Return
        whether it was long enough.
        """
        ended, hold = threading.Event(), self.other.hold
        helper = threading.Thread(target=self._release, args=[hold, ended])
        if timeout is None:
            helper.start()
        with struck_again(again, Acquire):
            struck = strike(lambda: self.mine.acquire(timeout=timeout), at)
        ended.set()
        if timeout is None:
            helper.join()
            if not struck:
                self.mine.release()
            assert self.other.acquire(timeout=LIMIT), f"after {at}, {again}"
        began = time.monotonic()
        while left := self._left():
            assert time.monotonic() < began + LIMIT, f"after {at}, {again}: {left}"
            time.sleep(0.001)
        self._state.garbage.dead.clear()  # an unanswered try is released for a whole lease
        return struck

    def _release(self, hold: Any, ended: threading.Event) -> None:
        while not (self._places() or ended.is_set()):
            time.sleep(0.0005)
        hold.release()

    def _places(self) -> list[bytes]:
        mine = self._state.client_id.encode()
        there = [
            *self._server.zrange(QUEUE, 0, -1),
            *self._server.zrange(SIDES_QUEUE, 0, -1),
            *self._server.lrange(FAIR_QUEUE, 0, -1),
        ]
        return [each for each in there if each.startswith(mine)]

    def _left(self) -> list[object]:
        state, owner = self._state, current_owner()
        holders = set(self._server.hkeys(NAME)) - {self.other.hold.holder.encode()}
        places = [hold for hold in state.queues.places.values() if hold not in state.garbage.dead]
        waiters = [hold for line in state.lines.values() for hold in line.waiters]
        table = [hold for hold in owner.table.values() if hold.lock.session is state]
        return [*holders, *self._places(), *places, *waiters, *table, *state.live]


@pytest.mark.filterwarnings("ignore:unclosed <socket")  # struck while it was being opened
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("waits", [False, True], ids=["timed-out", "granted"])
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "fenced_lock"])
def test_a_strike_at_a_waiter_leaves_nothing(
    redis_url: str, kind: str, *, waits: bool, twice: bool
) -> None:
    """Soon after the error is seen the next one has the lock, and its client nothing."""
    with ExitStack() as stack:
        clients = [stack.enter_context(interlock.connect(redis_url, lease=LEASE)) for _ in range(2)]
        mine, other = [getattr(client, kind)(NAME) for client in clients]
        server = stack.enter_context(redis.Redis.from_url(redis_url))
        waiter = Waiter(mine, other, server)
        assert other.acquire(timeout=LIMIT)
        timeout = None if waits else 0.02
        assert not mine.acquire(timeout=0.02)  # from here on its threads run
        count, at = 0, 1 + waits + 2 * twice
        while waiter.play(at, 1 + count * STRIDE % GIVING_UP if twice else 0, timeout):
            count, at = count + 1, at + STRIDE
        other.release()
    assert count * STRIDE > 1000
