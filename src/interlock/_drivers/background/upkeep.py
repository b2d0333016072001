"""The thread of a client that keeps time, and its lanes, which talk to the servers.

The thread asks nobody and waits for no reply: so no loss is told late, and none hinders another. It
decides what is due, and gives each node's lane one batch. The answers come back by the inbox.
"""

from __future__ import annotations

import _thread
import threading
import time
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import GRACE, NEVER, decoded
from interlock._core.upkeep.session import Answers
from interlock._drivers.background.callbacks import log_soon, outlived
from interlock._drivers.background.log import log_now
from interlock._drivers.background.reports import Report
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import start
from interlock._links.pool import Pool
from interlock._links.resp import send_texts
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock._core.upkeep.watchdog import Errand
    from interlock._drivers.background.reports import Reports
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an unexpected error."""
PAUSE = 0.1
"""Seconds after which a closing client sends again what got no answer."""
LEAST = 0.05
"""Seconds that a closing client gives a node at least."""
LATE = (
    "renewals came %.1f s late, because the process stood still; if a call keeps the interpreter "
    "lock for so long, use a lease that is at least twice as long as the longest such call"
)


class Lane:
    """A thread and the connections for the batches of one node; a slot that has moved is followed."""

    def __init__(self, upkeep: Upkeep, timeout: float) -> None:
        self._upkeep, self._timeout = upkeep, timeout
        self._pool = Pool(upkeep.topology)
        self._batches: SimpleQueue[tuple[list[Errand], Report] | None] = SimpleQueue()
        self._busy = threading.Lock()
        _ = _thread.start_new_thread(self._run, ())

    def take(self, errands: list[Errand], report: Report) -> bool:
        """Send both soon, in one write; return False if the last ones have no answers yet."""
        if not self._busy.acquire(blocking=False):
            return False
        self._batches.put((errands, report))
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

    def serve(self, errands: list[Errand], report: Report) -> Answers:
        """Send both; return the answers to *errands*."""
        calls, mine = [*[each.call for each in errands], *report.calls()], len(errands)
        if report.card is not None:  # operators ask whether its client is connected
            self._pool.name = self._upkeep.reports.connection_name()
        # If nothing is heard of them.
        outcomes: list[Any] = [ServerUnavailableError("a lane failed", sent=True, transient=True)]
        outcomes *= mine
        with outlived("a lane"):
            replies = self._pool.batch(calls, self._timeout, self._upkeep.refuse_closed)
            outcomes = decoded(calls, replies)
            self._upkeep.reports.answered(report, outcomes[mine:], named=self._pool.named)
        return Answers(errands, outcomes[:mine], self)


class Upkeep:
    """Does what is due for *session*, whenever its inbox has something or it is time.

    Attributes:
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
    ) -> None:
        self.session, self._inbox, self.topology = session, inbox, topology
        self._timeout, self.reports = timeout, reports
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
        due = self.session.clock()
        while not self._closed and only is self._only:
            until, due = due, self.session.clock() + PAUSE_AFTER_ERROR
            with outlived("the upkeep of locks"):  # the other holds must go on being kept
                due = self._look(until)
        for lane in self._lanes.values():  # not in `close`: a turn may just make one
            lane.end()

    def _look(self, due: float) -> float:
        """Wait until *due*, or for the inbox; take what is in it; return when to come again."""
        session, inbox, asked = self.session, self._inbox, False
        seconds = None if due == NEVER else min(max(0.0, due - session.clock()), TIMEOUT_MAX)
        with suppress(Empty):
            item = inbox.get(timeout=seconds)
            while True:
                asked = session.sort(item, session.clock()) or asked
                item = inbox.get_nowait()
        late = session.clock() - due
        if not asked and late < 0:
            return due
        self._note_late(late)
        return max(self._turn(), session.clock())

    def _note_late(self, seconds: float) -> None:
        """Log that the thread got its turn *seconds* late, if holds may be lost by that."""
        session = self.session
        if seconds > session.watchdog.period and any(
            hold.renewed and hold.entries for hold in list(session.live)
        ):
            log_soon(partial(log_now, "renewal.late", LATE, seconds, seconds=seconds))

    def _turn(self) -> float:
        session, now = self.session, self.session.clock()
        self.reports.tell_refusals()
        due, reports = self._by_node(session.turn(now)), self.reports.turn(now)
        for node in due.keys() | reports.keys():
            errands, report = due.get(node, []), reports.get(node, Report())
            if not self._send(node, errands, report):
                session.put_off(errands, now)
                self.reports.put_off(report, now)
        for node in set(self._lanes) - {None, *self.topology.nodes}:
            self._lanes.pop(node).end()
        return min(session.plan(now), self.reports.due, self.end_idle(now))

    def _send(self, node: Endpoint | None, errands: list[Errand], report: Report) -> bool:
        """Give the lane of *node* what is due there; return whether it takes that."""
        lane = self._lanes.get(node)
        if lane is None:
            try:
                lane = self._lanes[node] = Lane(self, self._timeout)
            except RuntimeError:  # too many threads
                return False
        return lane.take(errands, report)

    def _by_node(self, errands: list[Errand]) -> dict[Endpoint | None, list[Errand]]:
        """Return *errands* by the nodes that serve their keys."""
        parts: dict[Endpoint | None, list[Errand]] = {}
        for errand in errands:
            node = self.topology.owner(errand.holds[0].lock.key)
            parts.setdefault(node, []).append(errand)
        return parts

    def close(self, timeout: float) -> None:
        """Give up all holds, release them within *timeout* seconds, and end the threads.

        Raises:
            ServerUnavailableError: some could not be released; they end with their leases.
        """
        session = self.session
        self._closed = True
        given_up: list[Hold] = [*list(session.live), *list(session.calls)]
        held = {hold for hold in given_up if hold.entries}
        for hold in given_up:
            session.give_up(hold)
        session.watchdog.forget_lost()
        session.wake(None)
        deadline = session.clock() + timeout
        # Without a name: it writes the releases at once, for a server that just stands still.
        pool = Pool(self.topology)
        failed = self._release(pool, deadline)
        self._remove_card(pool, deadline)
        pool.close(0)
        for hold in failed.keys() & held:
            failure = failed[hold]
            failure.args = (f"{failure}; what was held ends with its lease",)
            raise failure

    def _release(self, pool: Pool, deadline: float) -> dict[Hold, ServerUnavailableError]:
        """Release all that may be held until *deadline*; return why the rest is not released.

        What got no answer is sent again, unless nobody is there: a connection was lost, a slot
        moves, or a server is not ready yet.
        """
        dead = list(self.session.garbage.dead)
        failed: dict[Hold, ServerUnavailableError] = {}
        while True:
            by_node: dict[Endpoint | None, list[Hold]] = {}
            for hold in dead:
                by_node.setdefault(self.topology.owner(hold.lock.key), []).append(hold)
            for holds in by_node.values():
                calls = [hold.lock.down(hold, 0) for hold in holds]
                for hold, outcome in zip(holds, _last(pool, calls, deadline), strict=True):
                    _ = failed.pop(hold, None)
                    if isinstance(outcome, ServerUnavailableError):
                        failed[hold] = outcome
            passing = [hold for hold, error in failed.items() if error.transient]
            dead = [hold for hold in passing if failed[hold].sent or failed[hold].code]
            if not dead or clock.now() + PAUSE >= deadline:
                return failed
            time.sleep(PAUSE)

    def _remove_card(self, pool: Pool, deadline: float) -> None:
        until = clock.now() + GRACE
        for lane in list(self._lanes.values()):
            lane.rest(until - clock.now())  # it may just write the card
        card = self.reports.card.remove()
        if card is not None:
            _ = _last(pool, [card], deadline)


def _last(pool: Pool, calls: list[Eval[Any]], deadline: float) -> list[object]:
    """Send *calls* of a client that closes until *deadline*; return their outcomes."""
    send_texts(calls)
    return decoded(calls, pool.batch(calls, max(deadline - clock.now(), LEAST)))
