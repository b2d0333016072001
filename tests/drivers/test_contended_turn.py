"""A lock goes from one client to another by few calls of functions.

Between two holders of a fleet stands what the next one does from the message to its start. The
caches are cold by then, and each call of a Python function costs 1 to 2 µs.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.test_lock_grant import QUEUE, leave_to_nobody, let_claims_last
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    import redis

TURNS = 30
WHOLE, START = 100, 32
"""The most calls of Python functions in a whole turn, and from the message to its start."""
RECEIVED = "_handle_messages"
"""The function that a waiting thread calls with a message."""

pytestmark = pytest.mark.needs("gcc")  # without the part in C there are more


def calls_of(function: Callable[[], object]) -> list[str]:
    """Return the names of the Python functions that *function* calls, each time."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


def test_a_turn_between_two_clients_makes_few_calls(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contended acquire and release call as few functions as they did when this was written."""
    for module in ("greenlet", "trio.lowlevel"):  # programs that load them pay more
        monkeypatch.delitem(sys.modules, module, raising=False)
    let_claims_last(monkeypatch)
    leave_to_nobody(redis_client)
    over = threading.Event()

    def until_queued() -> None:
        members: Any = redis_client.zrange
        wait_until(
            lambda: over.is_set() or any(b"-" in each for each in members(QUEUE, 0, -1)),
            *(10, "the other client stands in the queue"),
        )

    def take_turns(lock: Any) -> None:
        while not over.is_set():
            lock.acquire()
            until_queued()
            lock.release()

    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        lock = client.lock("name")
        other_lock = other.lock("name")
        thread = threading.Thread(target=take_turns, args=(other_lock,))
        thread.start()
        wait_until(other_lock.locked, 10, "the other client holds it")
        whole, start = list[int](), list[int]()

        def measure() -> None:
            for _ in range(TURNS):
                acquiring = calls_of(lock.acquire)
                until_queued()
                leave_to_nobody(redis_client)
                releasing = calls_of(lock.release)
                if RECEIVED in acquiring:
                    whole.append(len(acquiring) + len(releasing))
                    start.append(len(acquiring) - acquiring.index(RECEIVED))

        # Not in this thread, which may have had several owners: then each wait is looked at.
        measuring = threading.Thread(target=measure)
        measuring.start()
        measuring.join()
        over.set()
        thread.join()

    # A busy machine ends waits early, and each such turn calls more.
    assert min(whole) <= WHOLE
    assert min(start) <= START
