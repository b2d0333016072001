"""Threads that run the user's code while nobody waits for it.

They run on_lost callbacks, warnings, handlers of the log, and hooks that report errors.

Rules:

* User code may be slow, hang, raise, or call ``sys.exit``. So it never runs on a thread that
  renews or listens.
* Callbacks of one hold run one after another. Those of different holds do not wait for each
  other, up to `LIMIT` threads.
* A thread starts when there is something to call, and ends when there is nothing left.
* A signal may strike between any two steps of a call here. So nothing is noted twice: which keys
  wait, and how many threads there are, is found out each time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from interlock._drivers.process.lifecycle import report, run_user

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

LIMIT = 32
"""The most threads. If callbacks of so many holds hang, other callbacks have to wait."""
MOST = 20_000
"""The most calls with one key that may wait; of more, as for a log that hangs, the last ones are made."""


class Callbacks:
    """Calls what it is given, in threads of its own: at most *limit*, with that *name*."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self.after_fork()

    def after_fork(self) -> None:
        """Forget all pending calls: the parent process makes them."""
        # Reentrant: a signal handler, or a finalizer during garbage collection, may strike
        # anywhere.
        self._mutex = threading.RLock()
        self._queues: dict[object, deque[tuple[str, Callable[[], object]]]] = {}
        self._served = set[object]()
        self._threads = set[threading.Thread]()

    def call(self, key: object, what: str, callback: Callable[[], object]) -> None:
        """Call *callback* soon; return at once.

        Args:
            key: calls with the same key run one after another.
            what: its name in the report of an error.
            callback: the function to call.
        """
        with self._mutex:
            self._queues.setdefault(key, deque(maxlen=MOST)).append((what, callback))
        self.resume()

    def calls(self, key: object) -> bool:
        """Return whether something with *key* is still to be called, or is being called."""
        return key in self._queues

    def _waiting(self) -> object:
        """Return the key whose calls have waited longest for a thread; None without one."""
        for key in self._queues:
            if key not in self._served:
                return key
        return None

    def resume(self) -> None:
        """Start a thread if there is something to call and the limit allows it."""
        with self._mutex:
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            if self._waiting() is None or len(self._threads) >= self._limit:
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            # If none can start now, the next turn of the upkeep tries again.
            with suppress(RuntimeError):
                thread.start()
            self._threads.add(thread)

    def _run(self) -> None:
        while True:
            with self._mutex:
                key = self._waiting()
                if key is None:
                    self._threads.discard(threading.current_thread())
                    return
                self._served.add(key)
                call = self._queues[key].popleft()
            _ = run_user(*call)
            with self._mutex:
                self._served.discard(key)
                if not self._queues.get(key):  # a forked child has none
                    _ = self._queues.pop(key, None)


_callbacks = Callbacks("interlock-callback", LIMIT)
call_user, calls, resume = _callbacks.call, _callbacks.calls, _callbacks.resume


def log_soon(write: Callable[[], object]) -> None:
    """Call *write* soon, for all clients in one thread: a log that hangs takes no other one."""
    call_user(log_soon, "a handler of the log", write)


@contextmanager
def outlived(what: str) -> Generator[None]:
    """Report an error of the block, which a thread of ours must outlive; not in that thread."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as above
        call_user(report, what, partial(report, what, error))


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_callbacks.after_fork)
