"""Threads that run what nobody waits for: a signal that strikes a call blocks no later one."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from tests.objects.interrupting import blows
from tests.support.patience import GIVE_UP

import interlock
from interlock._drivers.background.callbacks import LIMIT, Callbacks, call_user


def check_later_call(called: Callbacks, where: str) -> None:
    """Check that a call after the one that was struck *where* is made."""
    done = threading.Event()
    called.call("key", "a later call", done.set)
    assert done.wait(GIVE_UP), where


def free(mutex: Any) -> None:
    """Release *mutex* if a strike came between its ``__enter__`` and the block.

    From Python 3.14 on the interpreter looks for signals there. No code can prevent that.
    """
    if mutex._is_owned():
        mutex.release()


def test_a_strike_anywhere_blocks_no_later_call() -> None:
    """Wherever the first call is struck, a later one with the same key is made."""
    for blow in blows(3):
        called = Callbacks("test", 1)
        with suppress(KeyboardInterrupt), blow:
            called.call("key", "the first call", list)
        if sys.version_info >= (3, 14):
            free(called._mutex)
        check_later_call(called, str(blow))


def test_calls_with_one_key_come_one_after_another() -> None:
    """The calls of a key are made in their order, never two at once."""
    called, made, done = Callbacks("test", 5), list[int](), threading.Event()
    for number in range(100):
        called.call("key", "it", partial(made.append, number))
    called.call("key", "the end", done.set)
    assert done.wait(GIVE_UP)
    assert made == list(range(100))


def test_a_log_that_hangs_delays_no_callback(redis_url: str) -> None:
    """However many clients have something to write: it takes one thread of all."""
    hang, told = threading.Event(), threading.Event()
    handler = logging.Handler()
    handler.emit = lambda _: hang.wait(GIVE_UP)  # type: ignore[method-assign,assignment]
    logger = logging.getLogger("interlock")
    with ExitStack() as stack:
        clients = [stack.enter_context(interlock.connect(redis_url)) for _ in range(LIMIT + 1)]
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        stack.callback(hang.set)
        for client in clients:
            assert client.lock("name").acquire()
            assert client.lock("name").force_release()
        call_user(client, "a callback", told.set)
        assert told.wait(GIVE_UP / 2)
