"""The wait of one acquire: listen, ask, wait for the bell; start with a grant, or ask if in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import Listen, Op, Wait
from interlock._core.queue.places import DEAF
from interlock._core.scripts.replies import LOOK

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock._core.scripts.replies import News


def waiting(hold: Hold, deadline: float) -> Op[bool]:
    """Wait for the lock of *hold*, which was refused once; return whether it is held now."""
    lock, session = hold.lock, hold.lock.session
    while (news := (yield from news_for(hold, deadline))) is not None:
        if lock.started(hold, news):
            return True
        if lock.granted(hold, (yield from lock.attempt(hold, deadline, None))):
            _let_next_ask(hold)
            return True
        if hold.valid_until and session.clock() >= deadline:
            return False  # answers take longer than the lease: it would ask for ever
    return False


def news_for(hold: Hold, deadline: float) -> Op[News | None]:
    """Wait in the line of *hold* for what it is told; None if its time is up."""
    session = hold.lock.session
    while True:
        place = session.queues.stand(hold)  # again: its line may have come to rest
        line = place.line
        if not line.ready:
            yield from Listen(line)
            if not line.ready:
                line.look_in(DEAF)  # until then: when it is heard, all look
        news = place.take()
        if news is not None:
            return news
        if line.ready and not place.sent:
            return LOOK  # all others looked before it stood here
        if session.clock() >= deadline:
            return None
        yield from Wait(place, deadline)


def _let_next_ask(hold: Hold) -> None:
    """Let the next reader ask, until one is refused, if *hold* is a reader that had to ask.

    The message for all who were let in was lost, or there is none.
    """
    place, queues = hold.place, hold.lock.session.queues
    if hold.lock.shared and place is not None and place.came:
        queues.leave(hold)
        place.line.look(hold.lock.session.clock())
