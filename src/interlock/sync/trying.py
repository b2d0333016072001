# Generated from interlock/asyncio/trying.py by tools/make_sync.py; change that file.
"""A block that is entered whether or not something could be acquired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from interlock._drivers.threads import current_owner
from interlock._misuse import publish, wants_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class _Entered(Protocol):
    """What a block gets, and what it does at its end."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


E = TypeVar("E", bound=_Entered)


@wants_with
class Trying(Generic[E]):
    """An acquire for ``with``, which gives a falsy object if it fails; made by ``trying``.

    For example ``with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
    releases what was acquired.
    """

    def __init__(self, acquire: Callable[[], E]) -> None:
        self._acquire = acquire
        # By the identity of the owner: one who leaves must not release what another one has.
        self._entered: dict[int, list[E]] = {}

    def __bool__(self) -> bool:
        raise TypeError("nothing was acquired yet: use `with`")

    def __enter__(self) -> E:
        entered = self._acquire()
        self._entered.setdefault(_who(), []).append(entered)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        who = _who()
        if who not in self._entered:  # another thread leaves the block, as in a fixture
            who = list(self._entered)[-1]
        mine = self._entered[who]
        entered = mine.pop()
        if not mine:
            del self._entered[who]
        entered.__exit__(kind, error, trace)


def _who() -> int:
    """Return the identity of the owner; 0 if there is none."""
    try:
        return current_owner().identity
    except RuntimeError:
        return 0


publish("interlock.sync", Trying)
