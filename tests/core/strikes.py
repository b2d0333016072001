"""Strikes at calls, and at an acquire that waits.

A trace function raises at one opcode of the call, and with ``twice`` at another one of its
`give_up`. Soon after that others must get the lock, and the waiter's client must have nothing left.
Leases are so long that no end of one helps.
"""

from __future__ import annotations

import dis
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

import redis

import interlock
from interlock._core.locks.base import Acquire
from interlock._drivers.flow import current_owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LEASE = 90.0
LIMIT = 2.5
"""Seconds for what takes milliseconds; a grant to somebody who is gone lasts longer."""
GIVING_UP = 200
"""Opcodes of a `give_up`, at least."""
NAME, QUEUE = "the name", "interlock_queue:{the name}"
SIDES_QUEUE, FAIR_QUEUE = "interlock_rw_queue:{the name}", "redisson_lock_queue:{the name}"
SPARED = {
    dis.opmap[name]
    for name in ("NOP", "RETURN_VALUE", "PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE")
}
"""Opcodes before which Python handles no signal. An error there would upset what ``raise`` raises."""


class Struck(BaseException):
    """A signal."""


def strike(call: Callable[[], object], at: int) -> bool:
    """Raise in *call* at the opcode *at* of ours; return whether there were that many."""
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        file = frame.f_code.co_filename
        # Python drops what is raised in a finalizer, or in the callback of a weak reference: the end
        # of an owner.
        if "interlock/_" not in file or file.endswith("process/lifecycle.py") or _finalizes(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in SPARED:
            seen += 1
            if seen == at:
                raise Struck
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Struck:
        if seen < at:
            raise
    finally:
        sys.settrace(former)
    return seen >= at


def _finalizes(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


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
        with self._struck_again(again):
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

    def _struck_again(self, at: int) -> Any:
        give_up, left = Acquire.give_up, [at] if at else []

        def struck(step: Any) -> None:
            if not (left and isinstance(sys.exception(), Struck)):
                give_up(step)
            elif strike(lambda: give_up(step), left.pop()):
                raise Struck

        return mock.patch.object(Acquire, "give_up", struck)

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


def play(url: str, kind: str, *, waits: bool, twice: bool, stride: int) -> int:
    with ExitStack() as stack:
        clients = [stack.enter_context(interlock.connect(url, lease=LEASE)) for _ in range(2)]
        mine, other = [getattr(client, kind)(NAME) for client in clients]
        server = stack.enter_context(redis.Redis.from_url(url))
        waiter = Waiter(mine, other, server)
        assert other.acquire(timeout=LIMIT)
        timeout = None if waits else 0.02
        assert not mine.acquire(timeout=0.02)  # from here on its threads run
        count, at = 0, 1 + waits + 2 * twice
        while waiter.play(at, 1 + count * stride % GIVING_UP if twice else 0, timeout):
            count, at = count + 1, at + stride
        other.release()
    return count
