"""What semaphores and latches share: a number that the code may name, and an end by itself.

If the code names the number, each client sets it before its first call. It remembers that in
`Limits`. An object that ends by itself (`Lifetime`) is set up again when it has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER
from interlock._core.objects.lifetime import Lifetime
from interlock._core.objects.limits import Limits
from interlock._core.upkeep.idempotency import IdempotentCalls
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op
    from interlock._core.objects.lifetime import Kept
    from interlock._core.upkeep.session import Session


class Numbered(ABC):
    """One object with a number, for one client.

    Args:
        session: the client's state.
        name: what it is called.
        named: the number to set if there is none; None to set nothing.
        limits: what the client knows of such numbers.
        kept: how long it stays on the server; None for ever.
        rest: returns the key beside its number, which ends with it.
        channel: returns the channel on which its changes are announced.

    Attributes:
        named: the number to set if there is none.
        channel: where waiters listen.
        requests: its calls that count once.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        named: int | None,
        limits: Limits | None,
        kept: Kept | None,
        rest: Callable[[str], str],
        channel: Callable[[str], str],
    ) -> None:
        self.named = named
        self._limits = limits or Limits()
        self.name = check_name(name)
        self.key = session.key(self.name)
        self.session = session
        self.channel = channel(self.key)
        self.requests = IdempotentCalls(session, self.key, channel=self.channel)
        self._lifetime = None if kept is None else Lifetime(session, self.key, rest(self.key), kept)

    @property
    def numberless(self) -> bool:
        """Return whether this client has not set the number that its code names."""
        return self.named is not None and not self._limits.known(self.key, self.named)

    @property
    def unset(self) -> bool:
        """Return whether `set_up` comes before the next call; no round trip."""
        lifetime = self._lifetime
        return self.numberless or (lifetime is not None and lifetime.due)

    def set_up(
        self, deadline: float = NEVER, *, lost: bool = False, ended: bool = True
    ) -> Op[bool]:
        """Set the number that the code names, unless it is known; set when it ends.

        Args:
            deadline: as for a try.
            lost: set it in any case.
            ended: set it again if it has ended. Not for permits that come back: they would be
                added to it.

        Returns:
            Whether it was set.

        Cost:
            One round trip, and another one to set it; a third if another client was faster. One for
            the end.
        """
        lifetime = self._lifetime
        if ended and lifetime and lifetime.over:
            # Nobody has a permit for so long: others gave back what this client took.
            self._limits.note_over(self.key)
        made = (lost or self.numberless) and (yield from self._set_number(deadline))
        there = yield from self._extend(deadline)
        if not there and (ended or not self.named):
            # It has ended since this client set the number.
            made = yield from self._set_number(deadline)
            _ = yield from self._extend(deadline)
        return made

    @abstractmethod
    def _set_number(self, deadline: float) -> Op[bool]:
        """Set the number unless there is one, and tell if that is another one.

        Return whether it was set, as far as the server tells that.
        """
        ...

    def _extend(self, deadline: float = NEVER) -> Op[bool]:
        """Set when it ends; return False if it has ended. No round trip if it stays for ever."""
        return self._lifetime is None or (yield from self._lifetime.extend(deadline))

    def _leave_alone(self) -> None:
        """Note that another number than the named one is meant from now on."""
        if self.named is not None:
            self._limits.note(self.key, self.named)
