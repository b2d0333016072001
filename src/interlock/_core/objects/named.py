"""What one client knows of the numbers that its code names, and what it has told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import ConfigError
from interlock.options import check_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.options import Duration

REMEMBERED = 10_000
"""Names that a client remembers, at most."""


def nobody(*_: Any) -> None:
    """Tell nobody."""


class Named:
    """The numbers that the code of one client has named.

    Attributes:
        differs: is told a name, the number on the server and the number in the code.
        missing: is told the kind and name of a semaphore without permits that is waited for.
        too_many: is told the kind and name of a semaphore, how many permits are wanted together,
            and how many there are.
    """

    def __init__(
        self,
        differs: Callable[[str, int, int], None] = nobody,
        missing: Callable[[str, str], None] = nobody,
        too_many: Callable[[str, str, int, int], None] = nobody,
    ) -> None:
        self.differs, self.missing, self.too_many = differs, missing, too_many
        self._known: dict[str, int] = {}
        self._told: set[tuple[str, int]] = set()

    def known(self, key: str, number: int) -> bool:
        """Return whether this client has set *number* for *key*, or found one there."""
        return self._known.get(key) == number

    def note(self, key: str, number: int) -> None:
        """Note that *number* is set for *key*; forget all others if they are too many."""
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = number

    def forget(self, key: str) -> None:
        """Forget which number this client has set for *key*."""
        self._known.pop(key, None)

    def first(self, key: str, number: int = 0) -> bool:
        """Return whether this is the first time that *number* of *key* is to be told of."""
        if (key, number) in self._told:
            return False
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told.add((key, number))
        return True


def check_idle(idle: Duration | None, needs: str, number: object) -> float:
    """Return for how many seconds to keep what nobody uses; 0 for ever.

    Args:
        idle: what the user gave.
        needs: the argument that names its number.
        number: that number.

    Raises:
        ConfigError: *idle* cannot be, or the number is not given.
    """
    if idle is None:
        return 0.0
    if number is None:
        raise ConfigError(f"what ends by itself must be set up again: give {needs}= too")
    return check_interval(idle, "idle")
