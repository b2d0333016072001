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
from typing import TYPE_CHECKING, Any

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.model.effects import NEVER, Eval, Listen, Op, Wait
from interlock._core.model.names import election_key, election_leader, election_news, fence_token
from interlock._core.queue.notices import Topic, leave, stand
from interlock._core.queue.places import POLL
from interlock._core.scripts import election as scripts
from interlock._core.scripts.locks import milliseconds
from interlock._core.scripts.replies import LOOK
from interlock.errors import ConfigError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Hold
    from interlock._core.queue.places import Place
    from interlock._core.scripts.loader import Variants
    from interlock._core.scripts.replies import News
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
    """Return *candidate* if a candidate can have that name.

    Raises:
        TypeError: it is not a string.
        ConfigError: it is empty or too long.
    """
    text = check_text(candidate, "a candidate")
    if not 0 < len(text) <= MAX_CANDIDATE:
        raise ConfigError(f"a candidate must have 1 to {MAX_CANDIDATE} characters")
    return text


class _Candidacy:
    """In place of a `Form`: makes the calls that may begin a term, with who would lead by each.

    That is another process in a forked child. How messages are sent is known only then, too.
    """

    __slots__ = ("_deaf", "_election", "_keys", "_lease", "_scripts", "_spare")

    def __init__(
        self, election: Election, lease: float, deaf: str = "", queue: tuple[str, ...] | None = None
    ) -> None:
        self._election, self._lease, self._deaf = election, milliseconds(lease), deaf
        self._scripts = scripts.FIRST_ASK if queue is None else scripts.ASK
        self._keys, self._spare = (*election.keys, *(queue or ())), len(queue or ())

    def of(self, hold: Hold) -> Eval[Any]:
        """Return the call for *hold*."""
        election = self._election
        args = (self._lease, hold.holder, *election.about(), *self._deaf)
        script = self._scripts[election.publish]
        return Eval(script, self._keys, args, spare_keys=self._spare)


class Election(FencedLock):
    """The operations of one election for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        base: the same behind the client's prefix.
        candidate: what the leader calls itself; None for its host and pid.
        process: returns the host and the pid.

    Attributes:
        keys: of each call that may begin a term, before the queue's.
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
        self._topic = Topic(key, self._news)

    def about(self) -> tuple[str | int, ...]:
        """Return how tokens are drawn, who would lead, and where observers listen."""
        host, pid = self._process()
        candidate = self._candidate or f"{host}:{pid}"
        return self.channel, self._unit, self.floor(), candidate, host, pid, self._news

    def _entering(self, lease: float, depth: int) -> Any:
        del depth  # nobody enters it again
        return _Candidacy(self, lease)

    def _asking(self, lease: float, deaf: str) -> Any:
        return _Candidacy(self, lease, deaf, self._with_queue())

    def down(self, hold: Hold, depth: int) -> Eval[Any]:
        """Return the script by which *hold* ends; the lock is left to nobody without a place."""
        return self._ending(scripts.RELEASE, hold.holder, depth, "")

    def forced(self, holder: str) -> Eval[int]:
        """Return the script by which another client ends the term of *holder*."""
        return self._ending(scripts.BREAK, holder, 0, "-")

    def _ending(self, script: Variants, holder: str, depth: int, how: str) -> Eval[Any]:
        keys = self._with_queue(self.key, self._counter)
        args = (holder, depth, self.channel, how, self._unit, self.floor(), self._news)
        return Eval(script[self.publish], keys, args, spare_keys=self._spare())

    def started(self, hold: Hold, news: News) -> bool:
        """Return False: a candidate asks before it leads."""
        del hold, news
        return False

    def leader(self, deadline: float = NEVER) -> Op[LeaderInfo | None]:
        """Return who leads, or None.

        Raises:
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip.
        """
        call = scripts.election_query(self.key, self._leader_key)
        found = yield from self.session.persist(call, deadline)
        if found is None:
            return None
        remaining, holder, *about = found
        return LeaderInfo(self.name, holder, remaining, *about)

    def next_leader(self, watch: Watch) -> Op[bool]:
        """Wait until the leader is not the one that *watch* knows; False if *watch* was stopped.

        Cost:
            One round trip per message, and one every 2 s.
        """
        session = self.session
        try:
            while True:
                place = stand(session, self._topic, watch)
                if not place.line.ready:
                    yield from Listen(place.line)
                _ = place.take()
                if watch.stopped or watch.sees((yield from self.leader())):
                    return not watch.stopped
                pause = POLL * (0.75 + session.random() / 4)
                yield from Wait(place, session.clock() + min(pause, watch.remaining + 0.001))
        finally:
            leave(session, watch)

    @staticmethod
    def stop(watch: Watch) -> None:
        """End the wait of `next_leader` for *watch*."""
        watch.stopped = True
        if watch.place is not None:
            watch.place.tell(LOOK)


class Watch:
    """What an observer knows of the leader.

    Attributes:
        leader: who led when it looked last.
        stopped: whether the observer is to stop.
        remaining: the seconds that are left of the present lease.
        place: what it knows as a waiter.
    """

    def __init__(self) -> None:
        self.leader: LeaderInfo | None = None
        self.stopped = False
        self.remaining = NEVER
        self.place: Place | None = None
        self._begun = False

    def sees(self, leader: LeaderInfo | None) -> bool:
        """Take what a look found; return whether it is news."""
        known, self.leader = self.leader, leader
        begun, self._begun = self._begun, True
        self.remaining = NEVER if leader is None else leader.remaining
        if leader is None or known is None:
            return leader is not known or not begun
        return (leader.holder, leader.token) != (known.holder, known.token)
