"""The mutex of a client's waiters and subscriptions.

Reentrant, and let go of while a signal handler waits.

Theory. A signal handler, or a ``__del__`` that the garbage collector calls, may strike while its
thread holds the mutex, and wait for a lock. It must not wait for its own thread: so the mutex is
reentrant. Nor may other threads wait for it: one of them may have to release the lock that the
handler waits for. So an operation that finds the mutex held by its own thread lets go of it for
as long as it waits. The interrupted step meets the changes of others then, as it meets those of
the handler.
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
        lock: what to enter.
        held_here: returns whether the calling thread is inside; of the C type, because every
            command asks.
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
        """Let other threads in meanwhile."""
        state = self._free()
        try:
            yield
        finally:
            self._restore(state)
