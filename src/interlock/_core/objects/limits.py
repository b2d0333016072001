"""What one client knows of the numbers of permits that its code asks for."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED = 10_000
"""Names that a client remembers, at most."""
TAKEN = 1_000
"""Permits of one name that a client remembers to have taken, at most."""


class Limits:
    """The numbers that the code of one client has asked for.

    Attributes:
        differs: is told a name, the number on the server and the number in the code.
        missing: is told the kind and name of a semaphore without permits that is waited for.
        gone: is told the name of a semaphore that is gone, and how many permits came back for it.
        too_many: is told the kind and name of a semaphore, how many permits were wanted together,
            and how many there are.
    """

    def __init__(
        self,
        differs: Callable[[str, int, int], None] = lambda _name, _there, _named: None,
        missing: Callable[[str, str], None] = lambda _kind, _name: None,
        gone: Callable[[str, int], None] = lambda _name, _permits: None,
        too_many: Callable[[str, str, int, int], None] = lambda _kind, _name, _wanted, _all: None,
    ) -> None:
        self._taken: dict[str, deque[int]] = {}
        self._known: dict[str, int] = {}
        self._waited: set[str] = set()
        self.differs = differs
        self.missing = missing
        self.gone = gone
        self.too_many = too_many

    def note_taken(self, key: str, permits: int, epoch: int) -> None:
        """Note that this client has taken *permits* of *key* in *epoch*: so it exists, or is lost.

        An epoch of 0 is not known.
        """
        taken = self._taken.get(key)
        if taken is None:
            if len(self._taken) >= REMEMBERED:
                self._taken.clear()
            taken = self._taken[key] = deque(maxlen=TAKEN)
        if permits == 1:
            taken.append(epoch)
        else:
            taken.extend(repeat(epoch, min(permits, TAKEN)))

    def give_back(self, key: str, permits: int) -> tuple[int, int]:
        """Note that the oldest *permits* of *key* that were taken are given back.

        Return the epoch in which they were taken, and how many of them are of earlier epochs. The
        epoch is 0 if it is not known, or if so many were not taken.
        """
        taken = self._taken.get(key)
        if not taken:
            return 0, 0
        try:
            epoch, earlier = taken.popleft(), 0
            if permits == 1:  # at once: most calls end here
                return epoch, 0
            for number in range(1, permits):
                if (later := taken.popleft()) != epoch:
                    epoch, earlier = later, number
        except IndexError:  # another thread was faster, or more is given than was taken
            return 0, 0
        return epoch, earlier

    def give_back_of(self, key: str, permits: int, epoch: int) -> None:
        """Note that *permits* of *key* that were taken in *epoch* are given back."""
        taken = self._taken.get(key)
        if taken:
            with suppress(
                ValueError, IndexError
            ):  # they were forgotten, or another thread changed it
                for _ in range(permits):
                    taken.remove(epoch)

    def note_over(self, key: str) -> None:
        """Note that *key* is not lost but over, or that this client has no permits of it."""
        _ = self._taken.pop(key, None)

    def was_there(self, key: str) -> bool:
        """Return whether this client has taken permits of *key*, and not removed it since."""
        return key in self._taken

    def known(self, key: str, permits: int) -> bool:
        """Return whether this client has set *permits* for *key*."""
        return self._known.get(key) == permits

    def forget(self, key: str) -> None:
        """Forget which number this client has set for *key*."""
        _ = self._known.pop(key, None)

    def note(self, key: str, permits: int) -> None:
        """Note that *permits* are set for *key*; forget all others if they are too many."""
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = permits

    def compare(self, kind: str, name: str, key: str, wanted: int, permits: int) -> None:
        """Tell once for *key* and *wanted* if that is more than all *permits*.

        With 0, others are meant to add some.
        """
        if wanted > permits > 0 and self.first_wait(f"{wanted} of {key}"):
            self.too_many(kind, name, wanted, permits)

    def first_wait(self, key: str) -> bool:
        """Return whether this is the first wait for *key* that is noted."""
        if key in self._waited:
            return False
        if len(self._waited) >= REMEMBERED:
            self._waited.clear()
        self._waited.add(key)
        return True
