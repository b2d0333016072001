"""The thread that reports to operators: it writes the client's card, and tells what lasts too long.

It asks nobody itself: each node has a lane for that, a thread and a connection of its own; a single
server has one too. So a node that hangs hinders no report about another one. If a slot has moved,
the node's lane follows it to the new node.

Rules:

* Only closing ends the thread. No exception does, not even ``sys.exit`` or KeyboardInterrupt.
* No user code runs on it: callbacks, warnings and reports have threads of their own (`callbacks`).
* It keeps the client's connections alive, but never the driver. The driver is collected when
  nobody can use the client any more.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from queue import SimpleQueue
from threading import get_ident
from typing import TYPE_CHECKING, TypeVar

from interlock._core.insight.card import LOOK, CardWriter
from interlock._core.model.calls import GRACE, NEVER
from interlock._core.model.effects import decoded
from interlock._drivers.background import callbacks
from interlock._drivers.process import clock
from interlock._drivers.process.identity import about_this_process, connection_name
from interlock._drivers.process.lifecycle import start
from interlock._links.batch_connection import BatchConnection
from interlock._links.resp import send_texts
from interlock.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock._core.model.calls import Eval
    from interlock._core.model.hold import Hold
    from interlock._drivers.state import State
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

T = TypeVar("T")

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an unexpected error."""
RETRY = 0.1
"""Seconds after which work comes again that a busy lane did not take."""


class Reporter:
    """Reports what one client does.

    Args:
        state: the client's.
        topology: the servers.
        timeout: seconds for one reply.

    Attributes:
        card: composes the client's card.
        started: whether the thread runs.
        beside: objects that stay alive as long as the thread.
        on_move: called, in any thread, when another server has taken over.
    """

    def __init__(self, state: State, topology: Topology, timeout: float) -> None:
        self._state = state
        self._topology = topology
        self._lanes: dict[Endpoint | None, _Lane] = {}
        self.beside: object = None
        self.on_move: Callable[[], object] = lambda: None
        self._timeout = min(timeout, state.period / 2)
        self._reset()

    def _reset(self) -> None:
        # Reentrant: a signal handler may come in anywhere and use the client.
        self._mutex = threading.RLock()
        self._rung = threading.Event()
        self._closing = False
        self._due = -NEVER
        self._thread: threading.Thread | None = None
        self.card = CardWriter(self._state, about_this_process())
        self._state.write_card = self._write_soon
        self.started = False

    def _write_soon(self) -> None:
        """Write the client's card soon: a hold may outlive this process by a long lease."""
        due = self.card.hurry(clock.now())
        if due < self._due:
            self._due = due
            self._rung.set()

    def _name(self) -> str:
        """Return the client's name in CLIENT LIST; an empty text if it writes no card."""
        return connection_name(self._state.client_id) if self._state.options.card else ""

    def start(self) -> None:
        """Start the thread unless it runs.

        Raises:
            ServerUnavailableError: it cannot be started.
        """
        if _runs_in(self._thread):
            return  # a finalizer in its first steps: who started it has the mutex, and waits for it
        with self._mutex:
            if self._closing:
                return  # a command to the server raises ClosedError
            if self._thread is None:
                # Noted before it starts: a signal handler that comes in between must not start
                # another one.
                thread = self._thread = threading.Thread(
                    target=self._run, name="interlock-reporter", daemon=True
                )
                try:
                    start(thread)
                except BaseException:
                    # If the thread runs all the same, it sees that it is not `_thread`, and ends.
                    self._thread, self.started = None, False
                    raise
            self.started = True

    def move(self) -> None:
        """Tell that another server is the primary now."""
        self._state.events.server_changed()
        self.on_move()

    def close(self, timeout: float) -> None:
        """End the thread, and remove the card; all of this takes *timeout* seconds, roughly."""
        deadline = clock.now() + timeout
        self._closing = True
        self._rung.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        patience = clock.now() + GRACE
        for lane in self._lanes.values():
            lane.end(patience)
        for lane in self._lanes.values():
            _ = lane.join(patience - clock.now())
        card = self.card.remove()
        if card is not None:
            left = max(deadline - clock.now(), GRACE)
            connection = BatchConnection(self._topology)
            send_texts([card])
            _ = connection.batch([card], left, left)
            connection.drop()
        for lane in self._lanes.values():
            if lane.join(max(deadline - clock.now(), GRACE)):
                lane.connection.drop()

    def after_fork(self) -> None:
        """Reset everything in a forked child."""
        self._reset()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.connection.drop()

    def _run(self) -> None:
        while (seconds := self._turn()) is not None:
            if self._rung.wait(seconds):
                self._rung.clear()

    def _turn(self) -> float | None:
        """Do the work that is due, in the thread.

        Return the seconds until the next turn, or None at the end.
        """
        if self._closing or self._thread is not threading.current_thread():
            return None
        try:
            if self._due <= clock.now():
                self._work()
                callbacks.resume()
            return min(max(self._due - clock.now(), 0), threading.TIMEOUT_MAX)
        except BaseException as error:  # noqa: BLE001 - the next report may do better
            callbacks.report_aside("the thread that reports", error)
            self._due = -NEVER  # whatever was due is still to do
            return PAUSE_AFTER_ERROR

    def _work(self) -> None:
        """Give each node's lane the reports that are due there.

        If the lane is still busy, they are due again soon.
        """
        now, events = clock.now(), self._state.events
        self._due = min(self.card.next_look(now), now + LOOK if events.looks else NEVER)
        waits, card = self._for_operators(now)
        slow = self._by_node(waits, lambda hold: hold.key)
        cards = {} if card is None else {self._topology.owner(card.keys[0]): card}
        for node in slow.keys() | cards.keys():
            work = partial(self._serve, slow.get(node, ()), cards.get(node))
            lane = self._lane(node)
            if self._closing:
                return  # closed by a finalizer in this thread; from now on, this lane is ended too
            if not lane.take(work):
                events.put_off(slow.get(node, ()))
                if node in cards:
                    self.card.put_off()
                self._due = min(self._due, now + RETRY)
        for node in set(self._lanes) - {None, *self._topology.nodes}:
            self._lanes.pop(node).end(now)

    def _serve(
        self, slow: Sequence[Hold], card: Eval[bool] | None, connection: BatchConnection
    ) -> None:
        """Report at one node, in the thread of that node."""
        events = self._state.events
        queries = events.queries(slow)
        calls = list(queries.values())
        found = decoded(calls, self._batch(calls, connection)) if calls else []
        told = zip(queries, found, strict=True)
        events.name_holders(
            slow, {key: each.holders for key, each in told if not isinstance(each, Exception)}
        )
        if card is not None:
            self._write(card, connection)

    def _for_operators(self, now: float) -> tuple[list[Hold], Eval[bool] | None]:
        """Return the long waits to report, and the script that writes the client's card if due."""
        try:
            return self._state.events.slow_waits(now), self.card.look(now)
        except Exception as error:  # noqa: BLE001 - it would fail again and again
            self.card.refused = True
            callbacks.report_aside("the thread that reports", error)
            return [], None

    def _write(self, card: Eval[bool], connection: BatchConnection) -> None:
        """Write the client's card. If the user has no right to do that, never try again."""
        [reply] = self._batch([card], connection)
        if not isinstance(reply, Exception):
            self.card.answered(card)
            self.card.named = connection.named
        elif getattr(reply, "code", None) == "NOPERM":
            self.card.refused = True
            callbacks.call_user(self, "a handler of the log", partial(_log_refusal, reply))

    def _by_node(
        self, items: Iterable[T], key_of: Callable[[T], str]
    ) -> dict[Endpoint | None, list[T]]:
        groups: dict[Endpoint | None, list[T]] = {}
        for item in items:
            groups.setdefault(self._topology.owner(key_of(item)), []).append(item)
        return groups

    def _lane(self, node: Endpoint | None) -> _Lane:
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane(BatchConnection(self._topology, self._name()))
        return lane

    def _batch(self, calls: Sequence[Eval[object]], connection: BatchConnection) -> list[object]:
        try:
            self._meanwhile()
            return connection.batch(calls, self._timeout, self._timeout, self._meanwhile)
        except ClosedError as error:
            return [error] * len(calls)

    def _meanwhile(self) -> None:
        """Stop waiting for the server if the client closes.

        Raises:
            ClosedError: the client closes.
        """
        if self._closing:
            raise ClosedError("the client is closed")


class _Lane:
    """The thread of one node; it starts with the first work.

    Attributes:
        connection: sends the batches of the thread.
    """

    def __init__(self, connection: BatchConnection) -> None:
        self.connection = connection
        self._works: SimpleQueue[Callable[[BatchConnection], None] | float] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, work: Callable[[BatchConnection], None]) -> bool:
        """Do *work* in the thread, after what it does just now.

        Return False, and ignore it, if other work waits for that already.
        """
        if self._works.qsize():
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="interlock-reporter-node", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads: the other nodes have to wait
                work(self.connection)
                return True
            self._thread = thread
        self._works.put(work)
        return True

    def end(self, until: float) -> None:
        """End the thread when its work is done; after *until* nobody else uses its connection."""
        self._works.put(until)

    def join(self, seconds: float) -> bool:
        """Return whether the thread has ended after at most so many *seconds*.

        Then nobody uses its connection any more.
        """
        thread = self._thread
        if thread is None:
            return True
        if thread is not threading.current_thread():
            thread.join(max(seconds, 0))
        return not thread.is_alive()

    def _run(self) -> None:
        while callable(work := self._works.get()):
            try:
                work(self.connection)
            except BaseException as error:  # noqa: BLE001 - the next report may do better
                callbacks.report_aside("the thread that reports", error)
            finally:
                # Keep nothing alive that the work refers to.
                del work
        if clock.now() >= work:
            self.connection.drop()


def _runs_in(thread: threading.Thread | None) -> bool:
    """Return whether this is *thread*, whose first steps `threading.current_thread` does not know."""
    return thread is not None and thread.ident == get_ident()


def _log_refusal(reply: Exception) -> None:
    logging.getLogger("interlock").warning(
        "locks work, but operators see no card of this client, for want of rights: "
        "`interlock doctor` prints the rights",
        # Not in the text: the reply speaks of rights that locks need, and would mislead.
        extra={"event": "card.refused", "detail": str(reply)},
    )
