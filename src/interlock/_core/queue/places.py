"""The waiters of one client, each of which stands in the server's queue itself.

A hold that waits is PENDING and has a `Place`: what a waiting acquire knows. Its member of the
server's queue is its holder id. A release makes the first member the holder, and tells its client;
the waiter starts without asking.

    the hold              place    told      its waiter
    -----------------     -------  -------   -----------------------------------------------------
    PENDING               None     -         tries once, without a place
    PENDING               a Place  None      waits for its bell, or its deadline
    PENDING               a Place  LOOK      asks the server
    PENDING               a Place  News      starts if enough of the grant is left, else it asks
    PENDING               a Place  any       in a condition: looks by itself (`objects.condition`)
    HELD                  a Place  any       holds; `prolong_at`: when a grant is made a lease
    LOST or ENDED         a Place  any       has gone; a release takes its place, or what it got

Each name with waiters has a `Line`. Messages are hints: whoever is unsure asks, and a grant for
somebody unknown is released. Nobody here waits with a timer of his own: the client's upkeep lets
the oldest of a line look when that is due, and the answer tells if another of them was missed.

There is no mutex: each step is one method of a dict, so a signal may strike anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import NEVER, Listen, Op, Wait
from interlock._core.model.hold import KEPT, SLACK, Hold
from interlock._core.model.names import GRANT, packed_text
from interlock._core.scripts.replies import LOOK, News, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.locks.base import Lock
    from interlock._core.upkeep.session import Session

POLL, LONGEST_POLL, PER_LOOK = 2.0, 4.0, 500
"""Seconds between two looks of a client at a name; they grow by POLL for each PER_LOOK waiters."""
COURTESY = 0.02
"""Seconds for which a free lock is left to Java."""
DEAF = 0.1
"""Seconds between two tries while messages do not come."""
EARLY = 0.1
"""Seconds after which the first waiter for a read/write lock looks."""
REST = 1.0
"""Seconds after the last waiter of a line for which its messages are still heard."""
TICK = 0.5
"""Seconds between two looks of the upkeep at grants, while there are waiters."""


class Place:
    """What a waiting acquire knows.

    Attributes:
        line: where it waits.
        bell: ends its wait; any thread may call it. None before it has waited.
        told: see above. It is overwritten only by what its reader would have asked for anyway.
        came: its place in the queue, as the server told it last.
        sent, refused: when a try was sent, by our clock, and refused, by the server's.
        open: whether a release granted the lock.
        prolong_at: when the grant is due to be made a whole lease; NEVER if it is none.
        aside: whether it stands in a condition, and not in the queue: then it looks by itself.
        before: what is garbage with its hold, and released before that: see `objects.condition`.
    """

    __slots__ = (
        "aside", "before", "bell", "came", "line", "open", "prolong_at", "refused", "sent", "told",
    )  # fmt: skip

    def __init__(self, line: Line) -> None:
        self.line = line
        self.bell: Callable[[], object] | None = None
        self.told: News | None = None
        self.sent, self.refused, self.came = 0.0, 0, 0
        self.open, self.aside, self.prolong_at = False, False, NEVER
        self.before: tuple[Hold, ...] = ()

    def tell(self, news: News) -> None:
        """Tell its waiter *news*; any thread may."""
        if self.told is None or self.told is LOOK:
            self.told = news
        bell = self.bell
        if bell is not None:
            bell()

    def take(self) -> News | None:
        """Return what it was told since the last call; only its waiter may call this."""
        news = self.told
        if news is not None:  # else it might overwrite what comes just now
            self.told = None
            self.open = self.open or news.open
        return news

    def granted_until(self, news: News, lease: float, now: float) -> float:
        """Return the end of a grant that *news* tell of; 0 if its waiter had better ask.

        The server refused us no earlier than we sent that try. So the grant began no earlier than
        the same time after that, by a clock that may be a little slower.
        """
        passed = (news.at - self.refused) / 1e6
        begun, span = self.sent + passed * KEPT, min(GRANT, lease)
        until = begun + span * KEPT - SLACK
        if self.refused and passed > 0 and begun <= now and until - now > span / 2:
            return until
        return 0.0


class Line:
    """The waiters of one client for one name, in the order in which they came.

    Args:
        client: the client's state.
        lock: one of the locks with that name.

    Attributes:
        standing: by what it is found.
        channels: those that are subscribed to by one command; the last one wakes this client.
        waiters: those who wait for a bell, or are about to, each with its place.
        ready: whether it is known how its waiters are told: then they may stand in the queue.
        asked: whether the server has been asked to send us the messages of the name.
        deaf: whether it cannot: then its waiters say so where they stand, and the oldest one asks
            again and again, at the server's pace.
        heard_at: when it was last made sure how they are told; NEVER while it is not.
        look_at: when the oldest waiter shall look.
        readers: who was in when one of them looked last, and how deep: some may be dead.
        found: when one of them looked at a gate last, what it found, and for how many seconds
            nobody had looked before.
        left_at: when the last one left.
    """

    __slots__ = (
        "_client", "asked", "channels", "deaf", "found", "heard_at", "left_at", "lock", "look_at", "readers",
        "ready", "standing", "waiters",
    )  # fmt: skip
    kind_of: Callable[[Hold], object] = type
    """Returns what one has in common with those for whom it looks."""

    def __init__(self, client: Session, lock: Lock) -> None:
        self._client, self.lock = client, lock
        self.standing, self.channels = lock.standing, lock.channels(client.client_id)
        self.waiters: dict[Hold, Place] = {}
        self.asked = self.deaf = self.ready = False
        self.look_at, self.left_at, self.heard_at = NEVER, 0.0, NEVER
        self.readers: tuple[bytes, ...] = ()
        self.found: tuple[float, Any, float] = 0.0, None, 0.0

    def due(self) -> float:
        """Return when its oldest waiter shall look, or when it has rested for long enough."""
        if self.waiters:
            return self.look_at
        return self.left_at + REST if self.deaf else NEVER  # else the subscriber ends it

    def look_in(self, seconds: float) -> None:
        """Let the oldest waiter look in *seconds*, or earlier."""
        now = self._client.clock()
        self.look_at = min(self.look_at, now + seconds)
        # The upkeep comes once a second at least while grants may need it.
        if self._client.due > min(self.look_at, now + 2 * TICK):
            self._client.wake(None)

    def look(self, now: float) -> None:
        """Let the oldest waiter look that is not about to do so, and set the timer anew.

        One of each kind: who stands in no queue of the server does not look for those who do.
        """
        self.look_at = now + (POLL if self.ready and not self.deaf else DEAF)
        looked = set[object]()
        for hold, place in list(self.waiters.items()):
            kind = self.kind_of(hold)
            if kind in looked or place.aside:
                continue
            if place.told is None:
                place.tell(LOOK)
            elif not self.lock.in_turn:  # there it rings the next one, which would overtake it
                continue
            looked.add(kind)

    def look_all(self, before: float = NEVER) -> None:
        """Let all look that were not refused since *before*: they may have lost their places."""
        for place in list(self.waiters.values()):
            if place.refused < before:
                place.tell(LOOK)

    def listen(self, *, can: bool) -> None:
        """Note that its messages come from now on, or that they cannot: all its waiters ask."""
        self.deaf, self.heard_at, self.ready = not can, self._client.clock(), True
        self.look_at = self.heard_at + POLL
        if self.lock.in_turn:
            self.look(self.heard_at)
        else:
            self.look_all()

    def deafen(self) -> None:
        """Note that no message comes any more: the server may be another one, with another clock."""
        self.asked = self.deaf = self.ready = False
        self.heard_at = NEVER
        for place in list(self.waiters.values()):
            place.refused = 0
        self.look_in(0.0)


class Queues:
    """The places of one client.

    Attributes:
        lines: by what each lock calls it.
        places: all holds that have ever had a place, by their numbers, until they have ended and
            are no garbage. Whatever comes for a number that is not in here is for nobody.
    """

    def __init__(self, client: Session) -> None:
        self._client = client
        self.lines: dict[str, Line] = {}
        self.places: dict[bytes, Hold] = {}

    def stand(self, hold: Hold) -> Place:
        """Make *hold* a waiter at the line that there is now; return its place.

        It comes before the hold asks for a place, or waits: messages find it from now on.
        """
        lock = hold.lock
        standing = lock.standing
        line = self.lines.get(standing)
        if line is None:
            line = self.lines.setdefault(standing, lock.line(self._client, lock))
        place = hold.place
        if place is None:
            place = hold.place = Place(line)
            self.places[hold.number] = hold
        place.line = line
        line.waiters[hold] = place
        return place

    def leave(self, hold: Hold) -> None:
        """Note that *hold* waits no more; if it has ended while it looked, the next oldest looks."""
        place = hold.place
        if place is None:
            return
        line = place.line
        looked = hold.over is not None and (hold.asking or place.told is LOOK)
        looked = looked and hold in line.waiters  # or that was passed on before
        line.waiters.pop(hold, None)
        if looked and line.waiters:
            line.look(self._client.clock())
        elif not line.waiters:
            line.left_at = self._client.clock()

    def refused(self, hold: Hold, answer: Refusal) -> None:
        """Take the *answer* to a try of *hold*, which stands in the queue now."""
        place = hold.place or self.stand(hold)
        line = place.line
        if answer.joined and place.refused:
            line.look_all(answer.at - 1e5)  # its place was lost, so perhaps theirs too
        # What comes by a later subscription may be from another server, with another clock.
        place.came = answer.came
        place.sent, place.refused = hold.sent_at, answer.at if hold.sent_at >= line.heard_at else 0
        self.put_off(line, answer.left, answer.length)
        if hold.lock.sides:
            self._name(line, answer)
        if answer.missed:
            self.tell(hold.lock, answer.missed, LOOK)

    def _name(self, line: Line, answer: Refusal) -> None:
        """Note the readers that *answer* names, for the next look.

        The first two looks come early: a writer may wait for a moment only, again and again, and a
        dead reader would keep it out for as long as others read.
        """
        first = len(line.waiters) == 1 if answer.joined else answer.readers and not line.readers
        if first:
            line.look_in(EARLY)
        if not answer.joined:
            line.readers = answer.readers

    def put_off(self, line: Line, left: float, length: int = 1) -> None:
        """Set the timer of *line*: the lock is taken for *left* seconds, and *length* wait."""
        if left < 0:
            line.look_in(COURTESY)
        else:
            longest = DEAF if line.deaf else min(POLL * max(1.0, length / PER_LOOK), LONGEST_POLL)
            # At different times: they may all have been refused at once.
            line.look_in(min(left + 0.001, longest * (0.75 + self._client.random() / 4)))

    def tell(self, lock: Lock, numbers: bytes, news: News) -> None:
        """Tell the holds with *numbers* of the *news* about *lock*."""
        client = self._client
        for number in numbers.split():
            hold = self.places.get(number)
            if hold is not None and hold.over is None:
                if not hold.entries and hold.place is not None:
                    hold.place.tell(news)
            elif news is not LOOK:
                # Granted to somebody who has gone, or to a late copy of a try of a hold long ended.
                # If it is garbage already, its next release may be due only in a second.
                packed = packed_text(f"{client.client_id}:{number.decode()}")
                gone = hold or Hold().of(lock.owning(number), nobody, packed, GRANT, True)
                client.garbage.add(gone)
                client.wake(None)

    def rest(self, line: Line) -> None:
        """Forget *line*, at which nobody has waited for a while."""
        if self.lines.get(line.standing) is line:
            del self.lines[line.standing]
        line.look_all()  # who has come in between: they stand at a new line

    def forget(self, hold: Hold) -> None:
        """Note that nothing more can come for *hold*, which has ended."""
        self.leave(hold)
        if hold.place is not None:
            self.places.pop(hold.number, None)

    def turn(self, now: float) -> None:
        for line in list(self.lines.values()):
            if now >= line.due():
                if line.waiters:
                    line.look(now)
                else:
                    self.rest(line)

    def next_due(self, now: float) -> float:
        due = [line.due() for line in list(self.lines.values())]
        if any(
            hold.over is None
            and (not hold.entries or (hold.place is not None and hold.place.prolong_at < NEVER))
            for hold in list(self.places.values())
        ):
            due.append(now + TICK)
        return min(due, default=NEVER)


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
        if not place.sent and line.ready:
            return LOOK  # all others looked before it stood here
        if session.clock() >= deadline:
            return None
        yield from Wait(place, deadline)


def nobody() -> None:
    """Return the owner of a hold that nobody here has."""
