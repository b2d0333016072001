"""The mutex of a client's waiters and subscriptions.

It is reentrant, and it is released while a signal handler waits.

Theory. A signal handler may strike while its thread holds the mutex, and wait for a lock. So may a
``__del__`` that the garbage collector calls. The handler must not wait for its own thread: so the
mutex is reentrant. The mutex must not stop other threads either: one of them may have to release
the lock that the handler waits for. So an operation that finds the mutex held by its own thread
releases the mutex for as long as it waits. The interrupted step then meets changes by other
threads, just as it meets changes by the handler.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Mutex:
    """A reentrant mutex.

    Attributes:
        lock: the lock to enter.
        held_here: returns whether the calling thread holds the lock. It is a method of the C type,
            because every command calls it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # The methods by which threading.Condition does the same.
        untyped: Any = self.lock
        self.held_here: Callable[[], bool] = untyped._is_owned  # noqa: SLF001
        self._free: Callable[[], object] = untyped._release_save  # noqa: SLF001
        self._restore: Callable[[object], None] = untyped._acquire_restore  # noqa: SLF001

    @contextmanager
    def let_go(self) -> Generator[None]:
        """Release the mutex while the with block runs."""
        state = self._free()
        try:
            yield
        finally:
            self._restore(state)
