"""Which locks one reading looks at: all of them, or of very many some by turns.

Rules:

* SCAN tells each reading which names there are. New names are looked at at once, and those that
  have gone are noticed at once.
* Urgent ones are looked at each time: those in trouble, and those that somebody sees on a page.
* Of the others, those that were looked at longest ago come first.
* A name that is no lock takes its turns too. If there are too many names to remember, the others
  are looked at each time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EACH = 500
"""Names that take their turn in one reading. So a service with fewer is read as a whole."""
URGENT = 1000
"""Urgent names, at most."""
REMEMBERED = 100_000
"""Names that are remembered."""


class Rounds:
    """Chooses what each reading looks at."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}  # the one that was looked at longest ago comes first
        self._due: set[str] = set()
        self._new: set[str] = set()
        self._present: set[str] = set()

    def begin(self, urgent: Iterable[str] = ()) -> None:
        """Begin a reading; *urgent* names are looked at in any case."""
        self._due = {*islice(self._looked, EACH), *islice(urgent, URGENT)}
        self._new, self._present = set(), set()

    def wants(self, name: str) -> bool:
        """Note that there is *name*, and return whether this reading looks at it."""
        if name in self._looked:
            self._present.add(name)
            return name in self._due
        if len(self._looked) + len(self._new) < REMEMBERED:
            self._new.add(name)
        return True

    def kept(self) -> set[str]:
        """Return the names that are there, and that this reading has not looked at."""
        return self._present - self._due

    def oldest(self, now: float) -> float:
        """Return the seconds since the look at the name that has waited longest for its turn.

        It is 0 if this reading looks at all names.
        """
        kept = self.kept()
        return now - next((at for name, at in self._looked.items() if name in kept), now)

    def end(self, now: float) -> None:
        """End a reading that has come to its end, at *now* on the monotonic clock."""
        left = self.kept()
        kept = {name: at for name, at in self._looked.items() if name in left}
        read = dict.fromkeys((self._present & self._due) | self._new, now)
        self._looked = kept | read

    def age(self, name: str, now: float) -> float:
        """Return how many seconds before *now* the name was looked at; 0 if that is not known."""
        return now - self._looked.get(name, now)
