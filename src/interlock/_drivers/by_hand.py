"""What was entered without a ``with`` or ``async with`` statement.

A call of ``__enter__`` by hand has looked no ``__exit__`` up, so it began no block. A `ByHand` keeps
what it acquired, until ``__exit__`` is called by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E")


class ByHand(Generic[E]):
    """What calls of ``__enter__`` by hand have acquired, until ``__exit__`` is called by hand."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[tuple[int, E]] = []

    def enter(self, who: int, got: E) -> None:
        """Note that *who* has entered, and *got* something by that."""
        self._entered.append((who, got))

    def leave(self, who: int, *, others: bool = True) -> E | None:
        """Return what *who* has entered last, and forget it.

        One who leaves must not release what another one has. But if *who* has entered nothing,
        somebody else may have, as in a fixture. Then it is what was entered last, if *others* may.
        """
        mine = [each for each in self._entered if each[0] == who]
        chosen = mine or (self._entered if others else [])
        if not chosen:
            return None
        last = chosen[-1]
        self._entered.remove(last)
        return last[1]

    def forget(self, ended: Callable[[E], bool]) -> None:
        """Forget all that *ended* returns True for."""
        self._entered = [each for each in self._entered if not ended(each[1])]
