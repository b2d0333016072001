"""The words for the state of a hold, who may own it, and the line of a program that acquired it."""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

GONE = "deleted, evicted, or the server lost its data or stepped its clock"
"""What may have happened to a hold that is gone without a note."""
UNASKED = "deleted, evicted, released by force, or the server lost its data or stepped its clock"
"""What may have happened to a hold that is gone, if nobody could be asked why."""
GIVEN_BACK = f"given back by its id, {GONE}"
"""What may have happened to a permit that is gone without a note."""
DRIFT = 0.001
"""The limit for the difference between two clocks' rates: 500 ppm each, as of a bad quartz."""
SLACK = 0.002
"""Seconds: the granularity of the server's expiry."""

Line: TypeAlias = "tuple[CodeType, int]"
"""A line of a program that runs: a function, and the byte of its code."""
_PACKAGE = __file__.partition("_core")[0]
_LIBRARY = suppress.__exit__.__code__.co_filename.removesuffix("contextlib.py")
_numbers = itertools.count(1)
"""The numbers of the next owners."""


Scope: TypeAlias = "list[Any]"
"""What an owner has: holds. It begins with None, which the first hold takes the place of."""


class Reference(weakref.ref["Owner"]):
    """A weak reference to an owner; it knows what to call that when it is gone."""

    __slots__ = ("label",)

    def __init__(self, owner: Owner, _gone: Callable[[Any], object] | None = None, /) -> None:
        self.label = owner.label  # `__new__` has made the reference


class Owner:
    """Who may re-enter and release: a flow of a thread, or a task.

    Attributes:
        identity: tells owners of this process apart.
        label: what to call the owner in messages.
        reference: a weak reference, which a hold has in place of its owner: a hold must not keep a
            thread or task alive.
        cell: a list of its scope, in place of which it gets another one when it has nothing; None if
            nobody asks.
        table: what it has, by what the core calls each lock.
        in_job: whether it stands for a job or task, which ends before its thread.
        alone_in: the identifier of the thread whose only owner it is; 0 if there are others in it, so
            that one may wait in vain; -1 for a task.
        lasting: whether it is known to go on when the call that acquires for it has returned.
    """

    __slots__ = (
        *("__weakref__", "_ended", "alone_in", "cell", "identity", "in_job", "label", "lasting"),
        *("reference", "table"),
    )

    def __init__(self, label: str, ended: Callable[[], bool] | None = None) -> None:
        self.identity = next(_numbers)
        self.label = label
        self.cell: list[Scope] | None = None
        self.table: dict[object, Any] = {}
        self.in_job = self.lasting = False
        self.alone_in = -1
        self._ended = ended
        self.reference: Callable[[], Owner | None] = Reference(self)

    def ended(self) -> bool:
        """Return whether the thread or task has ended."""
        return self._ended is not None and self._ended()

    def lets_caller_release(self) -> bool:
        """Return whether the caller, who is another owner, may release what it has by hand."""
        return False

    def refuse_vain_wait(self, lock: Any, deadline: float) -> None:
        """Raise ReentryError if only this thread could end a wait for *lock* until *deadline*."""


# The states of a hold: plain strings, because the hot path looks at them often.
PENDING: Final = "pending"
HELD: Final = "held"
ENDED: Final = "ended"
LOST: Final = "lost"


def is_ours(line: Line) -> bool:
    """Return whether *line* is of this package, or of Python's library: so no user knows it.

    A pool's thread calls `acquire` itself where that is its whole job.
    """
    filename = line[0].co_filename
    library = filename.startswith(_LIBRARY) and "site-packages" not in filename
    return library or filename.startswith(_PACKAGE)


def number_of(line: Line) -> int:
    """Return the number that a user knows *line* by."""
    code, instruction = line
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            return number
    return code.co_firstlineno
