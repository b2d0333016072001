"""Numbers that the user's code names, such as ``permits=10``, and numbers of permits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.names import semaphore_channel
from interlock._core.objects.counter import Counter
from interlock.errors import ConfigError
from interlock.options import check_interval, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.objects.counter import Carried
    from interlock._core.upkeep.session import Session
    from interlock.options import Duration

REMEMBERED = 10_000
"""Names that a client remembers, at most."""
MAX_PERMITS = 2**31 - 1
"""The largest number that Java can read: it uses an int."""


def check_permits(permits: object, least: int = 1) -> int:
    """Return *permits* if it is a number of permits.

    Raises:
        TypeError: unless it is an int.
        ConfigError: unless it is *least* to `MAX_PERMITS`.
    """
    if type(permits) is int and least <= permits <= MAX_PERMITS:
        return permits  # at once: most calls end here
    return check_number(permits, "permits", least, MAX_PERMITS)


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


def nobody(*_: Any) -> None:
    """Tell nobody."""


class Named:
    """The numbers that the code of one client has named, and what it was warned of.

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
        self._noted: dict[object, int | None] = {}

    def known(self, key: str, number: int) -> bool:
        """Return whether this client has set *number* for *key*, or found one there."""
        return self._noted.get(key) == number

    def note(self, key: object, number: int | None) -> None:
        """Note that *number* is set for *key*, or none; forget all others if they are too many."""
        if len(self._noted) >= REMEMBERED:
            self._noted.clear()
        self._noted[key] = number

    def first(self, key: str, number: int = 0) -> bool:
        """Return whether this is the first time that *number* of *key* is to be told of."""
        if (key, number) in self._noted:
            return False
        self.note((key, number), None)
        return True


class Number(Counter):
    """A counter whose number the user's code may name.

    Args:
        session, name, key, idle: as of `Counter`.
        number: what the code names; None if it names none.
        named: what the client knows of such numbers.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        number: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, idle)
        self.number, self.named = number, named or Named()

    @property
    def unset(self) -> bool:
        """Whether this client has not used the number that its code names; no round trip."""
        return self.number is not None and not self.named.known(self.key, self.number)

    def note(self) -> None:
        """Note that this client has used the number that its code names, or that another is meant."""
        if self.number is not None:
            self.named.note(self.key, self.number)

    def compare(self, there: int, *, exact: bool = True) -> None:
        """Warn at its first use if *there* is another number, or at least a larger one."""
        number = self.number
        if number is None or not self.unset:
            return
        self.note()
        if there > number or (exact and there < number):
            self.named.differs(self.name, there, number)


class PermitNumber(Number):
    """A number of permits, which starts as *number* if there is none.

    Source: what RSemaphore and RPermitExpirableSemaphore of Redisson 4.7.0 have in common.

    Attributes:
        least: the smallest number that the code may name.
        makes: *permits*, as an argument of commands.
    """

    least = 0

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        permits: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, permits, named, idle)
        self.channel = semaphore_channel(key)
        self.makes = "" if permits is None else str(check_permits(permits, self.least))

    def try_set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that makes the semaphore with *permits* unless it exists.

        Permits that are held count, although their number is missing.
        """
        return self.change("make", check_permits(permits, 0))

    def set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that sets the number of all permits, free and taken.

        While more than that are taken, the number of free permits is below 0.
        """
        permits = check_permits(permits, 0)
        self.note()
        return self.change("set", permits)

    def add_permits(self, permits: int) -> Carried[bool]:
        """Return the step that adds *permits* for good, or takes them away when negative."""
        if check_permits(permits, -MAX_PERMITS) == 0:
            raise ConfigError("adding 0 permits changes nothing; give a number above or below 0")
        self.note()
        return self.change("add", permits)

    def delete(self) -> Carried[bool]:
        """Return the step that removes the semaphore, and tells whether there was one."""
        return self.change("delete", 0)

    def warn_missing(self) -> None:
        """Warn once that nobody has set the semaphore up, which somebody waits for."""
        if self.number is None and self.named.first(self.key):
            self.named.missing(self.kind, self.name)

    def warn_too_many(self, wanted: int, most: int | None) -> None:
        """Warn once of each number of permits that is *wanted*, if there are *most* of them."""
        if most and wanted > most and self.named.first(self.key, wanted):
            self.named.too_many(self.kind, self.name, wanted, most)
