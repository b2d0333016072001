"""The thread of a client that keeps time, and its lanes, which talk to the servers.

The thread asks nobody and waits for no reply: so no loss is told late, and none hinders another. It
decides what is due, and gives each node's lane one batch. The answers come back by the inbox.
"""

from __future__ import annotations

import _thread
import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import GRACE, NEVER, decoded
from interlock._core.upkeep.session import Answers, Work
from interlock._drivers.background.callbacks import call_user, report_aside
from interlock._drivers.background.log import log_late
from interlock._drivers.background.reports import Report
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import start
from interlock._links.pool import Pool
from interlock._links.resp import send_texts
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock._drivers.background.reports import Reports
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an unexpected error."""
PAUSE_WHILE_MOVING = 0.1
"""Seconds after which a closing client asks again for keys of a slot that moves."""
LEAST = 0.05
"""Seconds that a closing client gives a node at least."""


class Lane:
    """A thread and the connections for the batches of one node; a slot that has moved is followed.

    Args:
        upkeep: the client's.
        timeout: seconds for a reply.
    """

    def __init__(self, upkeep: Upkeep, timeout: float) -> None:
        self._upkeep, self._timeout = upkeep, timeout
        self._pool = Pool(upkeep.topology)
        self._batches: SimpleQueue[tuple[Work, Report] | None] = SimpleQueue()
        self._busy = threading.Lock()
        _ = _thread.start_new_thread(self._run, ())

    def take(self, work: Work, report: Report) -> bool:
        """Send both soon, in one write; return False if the last ones have no answers yet."""
        if not self._busy.acquire(blocking=False):
            return False
        self._batches.put((work, report))
        return True

    def end(self) -> None:
        """End the thread after what it has."""
        self._batches.put(None)

    def rest(self, seconds: float) -> None:
        """Wait at most *seconds* until it has nothing to send."""
        if self._busy.acquire(timeout=max(0.0, seconds)):
            self._busy.release()

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            answers = self.serve(*batch)
            self._busy.release()
            if answers.outcomes:
                _ = self._upkeep.session.wake(answers)
            del batch, answers  # it may rest for long
        self._pool.close(0)

    def serve(self, work: Work, report: Report) -> Answers:
        """Send both; return the answers to *work*."""
        calls, mine = [*work.calls(), *report.calls()], len(work.dead) + len(work.renewals)
        if report.card is not None:  # operators ask whether its client is connected
            self._pool.call(self._upkeep.reports.connection_name())
        try:
            replies = self._pool.batch(calls, self._timeout, self._upkeep.refuse_closed)
            outcomes = decoded(calls, replies)
            self._upkeep.reports.answered(report, outcomes[mine:], named=self._pool.named)
        except Exception as error:  # noqa: BLE001 - as if no reply had come
            report_aside("a lane", error)
            outcomes = [ServerUnavailableError(str(error), sent=True, transient=True)] * mine
        return Answers(work, outcomes[:mine], self)


class Upkeep:
    """Does what is due for *session*, whenever its *inbox* has something or it is time.

    Args:
        session: the client's state.
        inbox: what `Session.wake` fills.
        topology: the client's servers.
        timeout: seconds for a reply.
        reports: what it sends for operators.
        tell_refusals: logs which rights servers have missed.

    Attributes:
        session, topology, reports: as given.
        beside: objects that stay alive as long as the thread.
        end_idle: closes connections that nobody uses if it is time, and returns when it is next.
    """

    def __init__(
        self,
        session: Session,
        inbox: SimpleQueue[Any],
        topology: Topology,
        timeout: float,
        reports: Reports,
        tell_refusals: Callable[[], object],
    ) -> None:
        self.session, self._inbox, self.topology = session, inbox, topology
        self._timeout, self.reports, self._tell_refusals = timeout, reports, tell_refusals
        self.beside: object = None
        self.end_idle: Callable[[float], float] = lambda _: NEVER
        self.reset()

    def reset(self) -> None:
        """Begin without a thread, also in a forked child."""
        self._only = threading.Lock()
        self._lanes: dict[Endpoint | None, Lane] = {}
        self._closed = False

    def start(self) -> None:
        """Start the thread, once.

        Raises:
            ServerUnavailableError: the system has no room for it.
        """
        # Not `Thread.start`, which a signal can leave half done. After one, another may start, and
        # ends at once.
        start(partial(_thread.start_new_thread, self._run, ()), "interlock-upkeep")

    def move(self) -> None:
        """Tell that another server is the primary now."""
        self.session.events.server_changed()
        self.session.follow_keys()

    def refuse_closed(self) -> None:
        """Stop a lane that waits for a server, once the client is closed.

        Raises:
            ClosedError: it is; what is not released yet is left to `close`.
        """
        if self._closed:
            raise ClosedError("the client is closed")

    def _run(self) -> None:
        only = self._only
        if not only.acquire(blocking=False):
            return
        session, inbox, due = self.session, self._inbox, self.session.clock()
        asked = False
        while not self._closed and only is self._only:
            try:
                try:
                    seconds = min(max(0.0, due - session.clock()), threading.TIMEOUT_MAX)
                    item = inbox.get(timeout=None if due == NEVER else seconds)
                    while True:
                        asked = session.sort(item, session.clock()) or asked
                        item = inbox.get_nowait()
                except Empty:
                    late = session.clock() - due
                    if asked or late >= 0:
                        self._note_late(late)
                        asked, due = False, max(self._turn(), session.clock())
            except Exception as error:  # noqa: BLE001 - the other holds must go on being kept
                report_aside("the upkeep of locks", error)
                due = session.clock() + PAUSE_AFTER_ERROR
        for lane in self._lanes.values():  # not in `close`: a turn may just make one
            lane.end()

    def _note_late(self, seconds: float) -> None:
        """Log that the thread got its turn *seconds* late, if holds may be lost by that."""
        session = self.session
        if seconds > session.watchdog.period and any(
            hold.renewed and hold.entries for hold in list(session.live)
        ):
            call_user(self, "a handler of the log", partial(log_late, seconds))

    def _turn(self) -> float:
        session, now = self.session, self.session.clock()
        self._tell_refusals()
        works, reports = self._by_node(session.turn(now)), self.reports.turn(now)
        for node in works.keys() | reports.keys():
            work, report = works.get(node, Work([], [])), reports.get(node, Report())
            if not self._send(node, work, report):
                session.put_off(work, now)
                self.reports.put_off(report, now)
        for node in set(self._lanes) - {None, *self.topology.nodes}:
            self._lanes.pop(node).end()
        return min(session.plan(now), self.reports.due, self.end_idle(now))

    def _send(self, node: Endpoint | None, work: Work, report: Report) -> bool:
        """Give the lane of *node* what is due there; return whether it takes that."""
        lane = self._lanes.get(node)
        if lane is None:
            try:
                lane = self._lanes[node] = Lane(self, self._timeout)
            except RuntimeError:  # too many threads
                return False
        return lane.take(work, report)

    def _by_node(self, work: Work) -> dict[Endpoint | None, Work]:
        """Return the parts of *work* by the nodes that serve their keys."""
        if not (work.dead or work.renewals):
            return {}
        owner, parts = self.topology.owner, dict[Any, Work]()
        for hold in work.dead:
            parts.setdefault(owner(hold.lock.key), Work([], [])).dead.append(hold)
        for renewal in work.renewals:
            node = owner(renewal.holds[0].lock.key)
            parts.setdefault(node, Work([], [])).renewals.append(renewal)
        return parts

    def close(self, timeout: float) -> None:
        """Give up all holds, release them within *timeout* seconds, and end the threads.

        Raises:
            ServerUnavailableError: some could not be released; they end with their leases.
        """
        session = self.session
        self._closed = True
        given_up: list[Hold] = [*list(session.live), *list(session.calls)]
        held = [hold for hold in given_up if hold.entries]
        for hold in given_up:
            session.give_up(hold)
        session.watchdog.forget_lost()
        session.wake(None)
        deadline = session.clock() + timeout
        # Without a name: it writes the releases at once, for a server that just stands still.
        pool, failure = Pool(self.topology), None
        for work in self._by_node(Work(list(session.garbage.dead), [])).values():
            calls = work.calls()
            send_texts(calls)
            replies = _last_replies(partial(_last_batch, pool), calls, deadline)
            for hold, outcome in zip(work.dead, decoded(calls, replies), strict=True):
                if isinstance(outcome, ServerUnavailableError) and hold in held:
                    failure = outcome
        self._remove_card(pool, deadline)
        pool.close(0)
        if failure is not None:
            failure.args = (f"{failure}; what was held ends with its lease",)
            raise failure

    def _remove_card(self, pool: Pool, deadline: float) -> None:
        until = clock.now() + GRACE
        for lane in list(self._lanes.values()):
            lane.rest(until - clock.now())  # it may just write the card
        card = self.reports.card.remove()
        if card is not None:
            send_texts([card])
            _ = _last_batch(pool, [card], deadline)


def _last_batch(pool: Pool, calls: Sequence[Eval[Any]], deadline: float) -> list[object]:
    """Send *calls* until *deadline*; return their replies."""
    return pool.batch(calls, max(deadline - clock.now(), LEAST))


def _last_replies(
    send: Callable[[Sequence[Eval[object]], float], list[object]],
    calls: Sequence[Eval[object]],
    deadline: float,
) -> Sequence[object]:
    """Return the replies to *calls* of a client that closes; *send* sends until *deadline*.

    Until then those whose slots are moving are sent again. Those of a lost connection are sent once
    more, on a new one. The server may have closed the connection while it was idle.
    """
    replies = send(calls, deadline)
    pause = 0.0
    while True:
        again = [
            place
            for place, reply in enumerate(replies)
            if _moving(reply) or (not pause and _cut_off(reply))
        ]
        if not again or clock.now() + pause >= deadline:
            return replies
        time.sleep(pause)
        pause = PAUSE_WHILE_MOVING
        answers = send([calls[place] for place in again], deadline)
        for place, answer in zip(again, answers, strict=True):
            if isinstance(answer, ServerUnavailableError) and _cut_off(replies[place]):
                answer.sent = True  # the first time
            replies[place] = answer


def _moving(reply: object) -> bool:
    """Return whether *reply* says that some of a call's keys are at another node meanwhile."""
    return isinstance(reply, ServerUnavailableError) and reply.code == "TRYAGAIN"


def _cut_off(reply: object) -> bool:
    """Return whether *reply* says that the connection was lost before the reply came."""
    return isinstance(reply, ServerUnavailableError) and reply.sent and reply.transient
