"""The queue of those who wait for the permits of one semaphore, of either kind.

Waiters of a client that want equally many permits stand in one queue here. Only its front asks the
server. For each such queue the client has a place in a queue on the server, which all clients
share.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.queue.lines import line_of, section
from interlock._core.queue.starting import Start, confirming, may_start
from interlock._core.queue.waiters import SHARED
from interlock._core.queue.waiting import QUEUE_KEPT, Turn, leave_queue, wait_in_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.queue.lines import Line
    from interlock._core.queue.places import Place
    from interlock._core.upkeep.session import Session


class PermitQueue:
    """The queue of one semaphore, as one client sees it.

    Args:
        session: the client's state.
        key: the semaphore's key.
        channel: announces its permits.
        kind: of the semaphore.
        prefix: what stands before the number of permits in its members; empty for plain permits.
        leave: makes the script that gives up the place of the named client, and passes on the
            permits that this client was woken for.

    Attributes:
        kind: of the semaphore.
        key: the semaphore's key.
        channel: announces its permits.
    """

    def __init__(
        self,
        session: Session,
        key: str,
        channel: str,
        kind: str,
        prefix: str,
        leave: Callable[..., Eval[int]],
    ) -> None:
        self._session = session
        self.key = key
        self.channel = channel
        self._line = line_of(channel, key)
        self.kind, self._prefix = kind, prefix
        self._leave = leave

    def part(self, permits: int) -> Line:
        """Return the line of those who want *permits*; for one plain permit it has no part."""
        if permits == 1 and not self._prefix:
            return self._line
        return section(self._line, f"{self._prefix}{permits}")

    def busy(self, permits: int) -> bool:
        """Return whether others wait here for as many, or did so lately."""
        waiters, part = self._session.waiters, self.part(permits)
        return part in waiters.queues or part in waiters.places

    def place(self, permits: int) -> Place | None:
        """Return the client's place, if it has one."""
        return self._session.waiters.places.get(self.part(permits))

    def make_place(self, permits: int, *, waits: bool = True) -> None:
        """Make a place on the server, if clients stand in a queue there."""
        session = self._session
        if session.queues_for(self.key):
            client = session.client_id
            plain = permits == 1 and not self._prefix
            # Between the colons is a name if the client waits in the name of a permit.
            me = client if plain else f"{client}::{self._prefix}{permits}"
            session.waiters.place_for(self.part(permits), client, me, waits=waits)

    def stand(
        self, permits: int, place: Place, permit: Hold | None = None
    ) -> tuple[bool, float, bool]:
        """Note that a request of *place* is about to be sent.

        Return what its script must know: whether others of the client want equally many, and for
        how many seconds the server keeps the queue. The third value tells whether the client stands
        there in the name of *permit*. Then a release may give that permit to it.
        """
        session = self._session
        # If others wait here, the client stays in the queue after this one gets its permits.
        others_wait = not session.waiters.alone(self.part(permits))
        starts = (
            permit is not None
            and permits == 1
            and may_start(session, permit, others_wait=others_wait)
        )
        place.stand(others_wait, permit.holder if permit is not None and starts else "")
        return others_wait, QUEUE_KEPT * session.options.poll_cap, starts

    def tell_waiter(self, permits: int) -> None:
        """Wake a waiter that came during the first try, and relies on a place in the queue."""
        waiters, part = self._session.waiters, self.part(permits)
        place = waiters.places.get(part)
        if place is not None and not place.taken:
            waiters.freed(part, ours=True)

    def wait(
        self,
        permits: int,
        deadline: float,
        attempt: Callable[[], Op[float | None]],
        permit: Hold | None = None,
    ) -> Op[bool]:
        """Wait for *permits*, as `wait_in_queue` does, and give up a place that is left.

        A release may give *permit* to it, if that is the only one.
        """
        session = self._session
        if session.clock() < deadline:
            self.make_place(permits)
        turn = self._turn(permit if permits == 1 else None)
        taken = yield from wait_in_queue(
            session, self.part(permits), deadline, SHARED, attempt, turn=turn
        )
        yield from self.leave(permits, later=taken, permit=None if taken else permit)
        return taken

    def leave(
        self,
        permits: int,
        error: BaseException | None = None,
        *,
        later: bool = False,
        permit: Hold | None = None,
    ) -> Op[None]:
        """Give up an unused place, as `leave_queue` does."""
        part = self.part(permits)
        yield from leave_queue(
            self._session, part, self.leave_script, error, later=later, hold=permit
        )

    def leave_script(self, place: Place) -> Eval[int]:
        """Return the script that gives up *place*, and passes on the permits of its claim."""
        session, named = self._session, (place.holder,) if place.holder else ()
        return self._leave(self.key, place.client, session.publish, self.channel, *named)

    def _turn(self, permit: Hold | None) -> Turn:
        """Return what operators are told of a waiter, and how it may be given *permit*.

        If it asks in vain, the client looks who is still there.
        """
        session = self._session
        wish = partial(session.wish, self.key)
        if not session.queues_for(self.key):
            return Turn(wish=wish)
        if permit is None:
            return Turn(look=self, wish=wish)
        return Turn(permit, Start(session, permit, confirming), self, wish)
