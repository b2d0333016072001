"""The election: one of many candidates leads, for a term that has a fencing token.

Theory. A term is a hold of a fenced lock with a name of its own, and candidates stand in the queue
of that lock. So it has the guarantees of that lock: terms do not overlap, tokens only grow, and a
leader that dies is followed within its lease. In addition the leader is written down once for each
term, and a channel announces every change.

Rules:

* Each term has a holder id of its own. So the record of the leader names a term, not only a thread.
* If the server does not answer the announcement of a term, the background repeats it. If the
  client has no right to announce, it gives the term back.
* A term that is over before its announcement is answered does not begin.
* A candidate that is next asks before it leads. A term that began with a message alone could be
  over, or be another's, before it is announced.
* A client in the queue that may take the lock does not lead yet: its claim tells of no leader.
* A leader resigns seldom, and then nobody should have to wait. So the lock goes to the next
  candidate each time. It is never left to clients that only look.

Source: RFencedLock of Redisson 4.7.0; the lease record of Kubernetes' leader election.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.lock_base import lost
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Undoable, undoing
from interlock._core.queue.lines import section
from interlock._core.queue.waiting import wait_in_queue
from interlock._core.scripts import election as scripts
from interlock._core.scripts.lock import lock_force_release
from interlock.errors import ConfigError, ServerUnavailableError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.model.holds import Hold, Owner
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
        token: the term's fencing token. Until the term is announced, the token and all further
            attributes are None.
        candidate: what the leader calls itself.
        host: where it runs.
        pid: its process.
        since: when the term was announced, in seconds since 1970 by the server's clock.
    """

    name: str
    holder: str
    remaining: float
    token: int | None = None
    candidate: str | None = None
    host: str | None = None
    pid: int | None = None
    since: int | None = None


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


class Election(FencedLock):
    """The operations of one election for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        candidate: what the leader calls itself; None for its host and pid.
        process: returns the host and the pid.
    """

    kind = "election"
    transferable = False
    may_start = False  # see the rules above

    def __init__(
        self,
        session: Session,
        name: str,
        candidate: str | None,
        process: Callable[[], tuple[str, int]],
    ) -> None:
        super().__init__(session, name, reentrant=False)
        base = session.key(self.name)
        self._leader_key = names.election_leader(base)
        self._news = names.election_news(base)
        self._candidate = None if candidate is None else check_candidate(candidate)
        self._process = process

    def _key_of(self, name: str) -> str:
        return names.election_key(name)

    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Step[Hold | None]:
        """Become the leader, waiting until *deadline*; arguments and errors as for a lock.

        Cost:
            Two round trips when nobody leads. While waiting, one per message and per poll cap for
            the whole process.
        """
        step = super().acquire(owner, deadline, lease)
        return Undoable(self._campaign(step, deadline), step.over, step.rest)

    def _campaign(self, step: Step[Hold | None], deadline: float) -> Op[Hold | None]:
        hold = yield from step
        if hold is not None:
            yield from undoing(self._announce(hold, deadline), self._undo, hold)
        return hold

    def _announce(self, hold: Hold, deadline: float) -> Op[None]:
        """Write down that *hold* is the present term, in the background if there is no answer."""
        host, pid = self._process()
        session = self.session
        now = session.clock()
        # Long enough for one outage. A leader that waited longer would not lead meanwhile.
        patience = min(deadline, now + session.options.outage_timeout)
        call = scripts.election_announce(
            self.key,
            self._leader_key,
            hold.holder,
            hold.token or 0,
            self._candidate or f"{host}:{pid}",
            host,
            pid,
            self._publish,
            self._news,
            deadline=min(self.answer_by(patience, now), hold.valid_until),
        )
        try:
            leads = yield from session.persist(call)
        except ServerUnavailableError as error:
            if not error.transient:
                raise
            leads = None
        if leads is None:
            yield from session.clean_up(call, hold.valid_until, later=True)
        elif not leads:
            session.lose(hold, hold.gone_reason(session.clock()))
        if hold.lost(session.clock()):
            session.lose(hold, hold.expiry_reason())
            raise lost(hold)

    def _holder(self, owner: Owner) -> str:
        owner.renumber()
        return super()._holder(owner)

    def _force_release_script(self) -> Eval[bool]:
        return lock_force_release(self.key, self._publish, self.channel, news=self._news)

    def leader(self, deadline: float = NEVER) -> Op[LeaderInfo | None]:
        """Return who leads, or None.

        Raises:
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip.
        """
        call = scripts.election_query(self.key, self._leader_key, deadline=deadline)
        found = yield from self.session.persist(call)
        if found is None:
            return None
        if found.details is None:
            return LeaderInfo(self.name, found.holder, found.remaining)
        return LeaderInfo(self.name, found.holder, found.remaining, *found.details)

    def next_leader(self, watch: Watch) -> Op[bool]:
        """Wait until the leader is not the one that *watch* knows; False if *watch* was stopped.

        Cost:
            One round trip per message and per poll cap.
        """
        line = section(self._news, str(id(watch)))
        if (yield from self._look_for_change(watch)) is not None:
            yield from wait_in_queue(self.session, line, NEVER, None, self._look_for_change, watch)
        return not watch.stopped

    def _look_for_change(self, watch: Watch) -> Op[float | None]:
        if watch.stopped or watch.sees((yield from self.leader())):
            return None
        return watch.remaining

    def stop(self, watch: Watch) -> None:
        """End the wait of `next_leader` for *watch*."""
        watch.stopped = True
        self.session.waiters.notify(self._news)


class Watch:
    """What an observer knows of the leader.

    Attributes:
        leader: who led when it looked last.
        stopped: whether the observer is to stop.
        remaining: the seconds that are left of the present lease.
    """

    def __init__(self) -> None:
        self.leader: LeaderInfo | None = None
        self.stopped = False
        self.remaining = NEVER
        self._begun = False

    def sees(self, leader: LeaderInfo | None) -> bool:
        """Take what a look found; return whether it is news."""
        known, self.leader = self.leader, leader
        begun, self._begun = self._begun, True
        self.remaining = NEVER if leader is None else leader.remaining
        if leader is None or known is None:
            return leader is not known or not begun
        return (leader.holder, leader.token) != (known.holder, known.token)
