"""The ticket: a hold that outlives its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks import ticket as core_ticket
from interlock._drivers.process.identity import about_this_process
from interlock._hints import hints
from interlock._misuse import check_long_lease
from interlock.errors import NotHeldError
from interlock.options import check_lease, check_reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._drivers.aio import AsyncDriver
    from interlock.options import Duration


@hints("hold.hand_over() or client.ticket(text)")
class Ticket:
    """A hold without a process, which `Hold.hand_over` gave away; made by `Client.ticket`.

    Everybody who has its text can extend or release it, from any machine. `str` returns the text.

    Attributes:
        name: the lock.
        holder: ``"<client id>:<number>"``, as the server knows the ticket.
        token: the fencing token, or None.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        _ticket: core_ticket.Ticket,
        _adopt: Callable[[str], Awaitable[Any]],
    ) -> None:
        self._driver = driver
        self._adopt = _adopt
        self._ticket = _ticket
        _ = core_ticket.core_of(driver.session, _ticket)
        self.name = self._ticket.name
        self.holder = self._ticket.holder
        self.token = self._ticket.token

    def __repr__(self) -> str:
        # Not its text, which is as good as the lock.
        return f"<{type(self).__name__} {self.name!r}>"

    def __str__(self) -> str:
        return str(self._ticket)

    async def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now; one round trip.

        Raises:
            NotHeldError: it was released or adopted, its lease has ended, or an operator broke it.
        """
        check_long_lease(lease, self._driver)
        session = self._driver.session
        await self._driver.run(core_ticket.extend(session, self._ticket, check_lease(lease)))

    async def release(self) -> None:
        """Free the lock; errors as `extend`, three round trips."""
        driver = self._driver
        try:
            hold = await self._adopt(str(self._ticket))
        except NotHeldError as error:  # tell why
            raise await driver.run(core_ticket.over(driver.session, self._ticket)) from error
        await hold.release()
        await driver.run(core_ticket.withdraw(driver.session, self._ticket))

    async def announce(
        self, lease: Duration, reason: str = "", *, who: str = "", held_for: float = 0.0
    ) -> None:
        """Tell operators who has this ticket and why: ``interlock list`` shows it; one round trip.

        Args:
            lease: seconds that it is good for.
            reason: why the lock is held.
            who: the holder's name; the name of this machine unless given.
            held_for: seconds that it is held already.
        """
        about = about_this_process()
        about |= {"host": check_reason(who) or about["host"], "thread": check_reason(reason)}
        driver, seconds = self._driver, check_lease(lease)
        told = core_ticket.announce(driver.session, self._ticket, about, seconds, held_for)
        await driver.run(told)
