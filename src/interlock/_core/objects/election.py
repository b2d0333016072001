"""The election: one of many candidates leads, for a term that has a fencing token.

A term is a hold of a fenced lock with a name of its own, and candidates stand in the queue of that
lock. So terms do not overlap, tokens only grow, and a leader that dies is followed within its lease.
The script that begins a term also writes down who leads, and tells the observers.

Therefore a candidate that is next asks before it leads. Until then nobody leads, although the server
has granted it the lock.

A leader resigns seldom, and then nobody should have to wait. So the lock goes to the next candidate
each time, and is never left to clients that stand in no queue.

Source: RFencedLock, Redisson 4.7.0; the lease record of Kubernetes' leader election.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.model.effects import NEVER, Eval, Op
from interlock._core.model.forms import Made
from interlock._core.model.hold import Hold
from interlock._core.model.names import (
    draw,
    election_key,
    election_leader,
    election_news,
    fence_token,
)
from interlock._core.queue.notices import Topic
from interlock._core.queue.places import POLL, news_for, nobody
from interlock._core.scripts import election as scripts
from interlock._core.scripts.replies import LOOK, milliseconds
from interlock.errors import ConfigError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.scripts.replies import News
    from interlock._core.scripts.source import Variants
    from interlock._core.upkeep.session import Session

MAX_CANDIDATE = 1000
"""Characters of the name of a candidate at most."""


@dataclass(frozen=True, slots=True)
class LeaderInfo:
    """Who leads an election.

    Attributes:
        name: the name of the election.
        holder: ``"<client id>:<number>"``, as the server knows the leader.
        remaining: seconds until the term ends unless it is renewed.
        token: the term's fencing token.
        candidate: what the leader calls itself.
        host: where it runs.
        pid: its process.
        since: when the term began, in seconds since 1970 by the server's clock.
    """

    name: str
    holder: str
    remaining: float
    token: int
    candidate: str
    host: str
    pid: int
    since: int


LeaderInfo.__module__ = "interlock"  # where users find it


def check_candidate(candidate: object) -> str:
    """Return *candidate* if a candidate can have that name; else raise TypeError or ConfigError."""
    text = check_text(candidate, "a candidate")
    if not 0 < len(text) <= MAX_CANDIDATE:
        raise ConfigError(f"a candidate must have 1 to {MAX_CANDIDATE} characters")
    return text


class Election(FencedLock):
    """The operations of one election for one client.

    Args:
        base: its name behind the client's prefix.
        candidate: what the leader calls itself; None for its host and pid.
        process: returns the host and the pid.
    """

    kind = "election"

    def __init__(
        self,
        session: Session,
        name: str,
        base: str,
        candidate: str | None,
        process: Callable[[], tuple[str, int]],
    ) -> None:
        self._candidate = None if candidate is None else check_candidate(candidate)
        self._process = process
        self._leader_key, self._news = election_leader(base), election_news(base)
        key = election_key(base)
        self.keys = key, fence_token(key), self._leader_key
        super().__init__(session, name, key, reentrant=False)
        self._topic = Topic(session, key, self._news)

    def _entering(self, lease: float, depth: int) -> Any:
        del depth  # nobody enters it again
        return Made(lambda hold: self._standing_for(hold, scripts.FIRST_ASK, lease))

    def _asking(self, lease: float, deaf: str) -> Any:
        queue = self.queue_keys
        return Made(lambda hold: self._standing_for(hold, scripts.ASK, lease, *deaf, queue=queue))

    def _standing_for(
        self,
        hold: Hold,
        variants: Variants,
        lease: float,
        *deaf: str,
        queue: tuple[str, ...] = (),
    ) -> Eval[Any]:
        """Return the call that may begin the term of *hold*; a forked child leads as itself."""
        host, pid = self._process()
        about = self._candidate or f"{host}:{pid}", host, pid, self._news
        asks = milliseconds(lease), hold.holder, self.channel, self._unit, self.floor()
        keys, script = (*self.keys, *queue), variants[self.publish]
        return Eval(script, keys, (*asks, *about, *deaf), spare_keys=len(queue))

    def _leaving(self, depth: int, how: str) -> Any:
        # The lock is left to nobody without a place.
        form: Any = super()._leaving(depth, how.strip("1"))
        parts = form.keys, (*form.args, self._news), form.spare
        return type(form)(self, scripts.RELEASE[self.publish], *parts)

    def started(self, hold: Hold, news: News) -> bool:
        """Return False: a candidate asks before it leads."""
        del hold, news
        return False

    def leader(self, deadline: float = NEVER) -> Op[LeaderInfo | None]:
        """Return who leads, or None; one round trip."""
        call = Eval(scripts.QUERY, (self.key, self._leader_key), ())
        found = yield from self.session.persist(call, deadline)
        if found is None:
            return None
        remaining, holder, *about = found
        return LeaderInfo(self.name, holder, remaining, *about)

    def watch(self) -> Watch:
        return Watch().begin(self._topic)

    def next_leader(self, watch: Watch) -> Op[bool]:
        """Wait until the leader is not the one that *watch* knows; False if *watch* was stopped.

        Cost:
            One round trip per message, and one every 2 s.
        """
        session, look_at = self.session, 0.0  # it looks first, whether or not it is heard
        watch.place = None
        try:
            while True:
                _ = yield from news_for(watch, look_at)
                session.queues.stand(watch).sent = 1.0
                if watch.stopped or watch.sees((yield from self.leader())):
                    return not watch.stopped
                pause = POLL * (0.75 + session.random() / 4)
                look_at = session.clock() + min(pause, watch.remaining + 0.001)
        finally:
            session.queues.forget(watch)

    @staticmethod
    def stop(watch: Watch) -> None:
        """End the wait of `next_leader` for *watch*."""
        watch.stopped = True
        if watch.place is not None:
            watch.place.tell(LOOK)


class Watch(Hold):
    """An observer, and what it knows of the leader; to those who wait it is a hold.

    Attributes:
        leader: who led when it looked last.
        stopped: whether the observer is to stop.
        remaining: the seconds that are left of the present lease.
    """

    __slots__ = ("_term", "leader", "remaining", "stopped")

    def begin(self, topic: Any) -> Self:
        """Begin; return this observer."""
        self.leader: LeaderInfo | None = None
        self.stopped = False
        self.remaining = NEVER
        self._term: tuple[str | int, ...] | None = ()  # nobody has looked yet
        return self.of(topic, nobody, f"{topic.session.head}{draw()}\r\n", 0.0, False)

    def sees(self, leader: LeaderInfo | None) -> bool:
        """Take what a look found; return whether it is news."""
        self.leader, known = leader, self._term
        self._term = None if leader is None else (leader.holder, leader.token)
        self.remaining = NEVER if leader is None else leader.remaining
        return self._term != known
