# Generated from interlock/asyncio/block.py by tools/make_sync.py; change that file.
"""One ``with`` statement over a lock, which releases what it acquired wherever it is left.

Theory. Frameworks enter and leave a block in different threads: a dependency or a fixture that
yields inside it, an exit stack that is closed elsewhere. So the block must know who acquired.
Python looks ``__exit__`` up before it calls ``__enter__``, and keeps what it found until the
block is left; an exit stack does the same. Each look-up here makes a new `Block`, and
``__enter__`` notes its owner there. Nothing is guessed from threads or frames, and a block that
exists is a block that is still open.

A caller of ``__enter__`` by hand has looked nothing up. The lock itself keeps such a block until
``__exit__`` is called by hand.

Source: the language reference, "The with statement": ``__exit__`` is loaded before ``__enter__`` is
invoked.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Protocol

from interlock._drivers.process.thread_local import of_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from interlock._core.model.holds import Owner


class Entered(Protocol):
    """A lock, as its blocks see it."""

    def leave(self, block: Block, error: BaseException | None) -> None:
        """Release what *block* acquired; *error* ends it."""
        ...


class _LookedUp:
    """The block that one thread looked up last, unless it has been entered."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest: weakref.ref[Block] | None = None


_here: Callable[[], _LookedUp] = partial(of_thread, object(), _LookedUp)


class Block:
    """What leaves one block.

    Attributes:
        lock: what is entered; None when the look-up was made on the class, as exit stacks do.
        owner: who entered; None when nobody has by this block.
        given_away: whether what it acquired is another process' to release.
    """

    __slots__ = ("__weakref__", "given_away", "lock", "owner")

    def __init__(self, lock: Entered | None) -> None:
        self.lock = lock
        self.owner: Owner | None = None
        self.given_away = False

    def __repr__(self) -> str:
        return f"<the end of a block of {self.lock!r}>" if self.lock else "<the end of a block>"

    def __call__(self, *args: Any) -> None:
        """Leave the block; as a method of the class it is given the lock, too."""
        lock: Entered = self.lock or args[0]
        return lock.leave(self, args[-2])


class Exit:
    """The ``__exit__`` of a class of locks: each look-up gives a block of its own."""

    def __get__(self, lock: Entered | None, kind: type[Entered] | None = None) -> Block:
        """Return a new block."""
        block = Block(lock)
        _here().newest = weakref.ref(block)
        return block


def entered(lock: Entered) -> weakref.ref[Block] | None:
    """Return the block that the running ``__enter__`` of *lock* is for; None if called by hand."""
    here = _here()
    newest = here.newest
    if newest is None:
        return None
    here.newest = None
    block = newest()
    if block is None or block.owner is not None or (block.lock or lock) is not lock:
        return None
    return newest
