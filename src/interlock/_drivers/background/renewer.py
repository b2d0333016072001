"""The renewal thread.

One thread looks after all holds of a client, for asyncio too.

A blocked event loop must not lose locks, so renewal never depends on a loop. The thread also sends
commands that must still reach the server after a caller's time is up (`Cleanup`). When the client
closes, the renewer releases the holds that are left.

The renewal thread keeps time: it decides what is due, and ends the holds that were not renewed in
time. It resolves no name, connects to nobody and waits for no reply. Each node has a lane for that,
a thread and connections of its own; a single server has one too. So a node that hangs delays only
its own holds, and no loss is told late. If a slot has moved, the node's lane follows it to the new
node.

Rules:

* Only closing ends the thread. No exception does, not even ``sys.exit`` or KeyboardInterrupt.
* No user code runs on it: callbacks, warnings and reports have threads of their own (`callbacks`).
* It keeps the client's connections alive, but never the driver. The driver is collected when
  nobody can use the client any more.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

from interlock._core.insight.card import CardWriter
from interlock._core.model.effects import NEVER, Batch, Cleanup
from interlock._core.model.holds import HELD, LOST
from interlock._core.queue.grant_looks import GIVEN, look_script
from interlock._core.upkeep.cleanup import CleanupQueue
from interlock._core.upkeep.session import GRACE
from interlock._core.upkeep.watchdog import Round
from interlock._drivers.background import callbacks
from interlock._drivers.process import clock
from interlock._drivers.process.identity import about_this_process, connection_name
from interlock._drivers.process.lifecycle import start
from interlock._drivers.wakeup import Wakeup
from interlock._links.batch_connection import BatchConnection
from interlock._links.resp import send_texts
from interlock.errors import (
    ClosedError,
    InterlockError,
    MisuseWarning,
    ServerUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock._core.model.effects import Eval, Op, R
    from interlock._core.model.holds import CoreLock, Hold
    from interlock._core.queue.grant_looks import Given
    from interlock._core.upkeep.cleanup import CleanupEntry
    from interlock._core.upkeep.session import OpenBlock, Session
    from interlock._drivers.process.unclaimed import Unclaimed
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

T = TypeVar("T")

PAUSE_AFTER_ERROR = 0.1
"""Seconds for which the thread does nothing after an unexpected error."""
PAUSE_WHILE_MOVING = 0.1
"""Seconds after which a closing client asks again for keys of a slot that moves."""


class Renewer:
    """Renews the holds of one client.

    Args:
        session: the client's state.
        topology: the servers that keep the holds.
        timeout: seconds for one reply.
        unclaimed: the entries that the user has dropped.

    Attributes:
        card: composes the client's card.
        started: whether the thread runs.
        beside: objects that stay alive as long as the thread.
    """

    def __init__(
        self,
        session: Session,
        topology: Topology,
        timeout: float,
        unclaimed: Unclaimed,
    ) -> None:
        self._session = session
        self._topology = topology
        self._lanes: dict[Endpoint | None, _Lane] = {}
        self.beside: object = None
        self._unclaimed = unclaimed
        # A server that hangs must leave time for another try within the validity.
        self._timeout = min(timeout, session.watchdog.period / 2)
        self._reset()

    def _reset(self) -> None:
        # Reentrant, like the wakeup: a signal handler may come in anywhere and use the client.
        self._mutex = threading.RLock()
        self._wakeup = Wakeup()
        self._moved = False
        self._closing = False
        self._others_due = self._card_due = -NEVER
        self._turn_due = NEVER
        self._thread: threading.Thread | None = None
        self._cleanups = CleanupQueue()
        self.card = CardWriter(self._session, about_this_process())
        self.started = False

    def _name(self) -> str:
        """Return the client's name in CLIENT LIST; an empty text if it writes no card."""
        return connection_name(self._session.client_id) if self._session.options.card else ""

    def start(self) -> None:
        """Start the thread unless it runs.

        Called before anything is acquired, so that a hold is never without it.

        Raises:
            ServerUnavailableError: it cannot be started.
        """
        with self._mutex:
            if self._closing:
                return  # a command to the server raises ClosedError
            if self._thread is None:
                # Noted before it starts: a signal handler that comes in between must not start
                # another one.
                thread = self._thread = threading.Thread(
                    target=self._run, name="interlock-renewer", daemon=True
                )
                try:
                    start(thread)
                except BaseException:
                    # If the thread runs all the same, it sees that it is not `_thread`, and ends.
                    self._thread, self.started = None, False
                    raise
            self.started = True

    def wake(self) -> None:
        """Make the thread look again at what is due."""
        self._wakeup()

    def move(self) -> None:
        """Leave the former primary, and check at once whether the next one knows the holds."""
        self._moved = True
        self._session.events.server_changed()
        self._session.watchdog.renew_now(clock.now())

    def clean_up(self, effect: Cleanup[object]) -> None:
        """Send the call of *effect* in the background until it is settled."""
        self.start()
        self._cleanups.add(effect, clock.now())
        self.wake()

    def close(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """End the thread.

        In one write to each node, send *calls*, the unsettled clean-up, and the command that
        removes the card.

        Args:
            calls: the releases of all holds that are left.
            timeout: the seconds that all of this may take, roughly.

        Raises:
            ServerUnavailableError: some of *calls* were not executed; their holds end with their
                leases.
        """
        deadline = clock.now() + timeout
        self._closing = True
        self._wakeup()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        patience = clock.now() + GRACE
        for lane in self._lanes.values():
            lane.end(patience)
        connections = {
            node: lane.connection
            for node, lane in self._lanes.items()
            if lane.join(patience - clock.now())
        }
        for connection in connections.values():
            connection.stay_nameless()
        send = partial(self._last_batch, connections)
        try:
            card = [call for call in (self.card.remove(),) if call is not None]
            looks = self._session.looks.calls()
            others = [*self._session.holds.clean_up_calls(), *self._cleanups.calls(), *card]
            replies = _last_replies(send, [*calls, *others, *looks], deadline)
            released, looked = replies[: len(calls)], replies[len(calls) + len(others) :]
            if again := _look_again(looks, looked, self._session.released_on_close, released):
                _ = send(again, deadline)
            for reply in released:
                if isinstance(reply, ServerUnavailableError):
                    reply.args = (f"{reply}; what was held ends with its lease",)
                    raise reply
        finally:
            for lane in self._lanes.values():
                if lane.join(max(deadline - clock.now(), GRACE)):
                    lane.connection.drop()

    def _last_batch(
        self,
        connections: dict[Endpoint | None, BatchConnection],
        calls: Sequence[Eval[object]],
        deadline: float,
    ) -> list[object]:
        """Send *calls* to all nodes at once, until *deadline*; return their replies.

        The *connections* are those of the lanes. Other nodes get new ones, without a name. A server
        that stands still gives no reply to a name, but it has the releases when it goes on.
        """
        unheard = ServerUnavailableError(
            f"{self._topology.where} did not answer in time", sent=True
        )
        replies: list[object] = [unheard] * len(calls)
        by_node = self._by_node(range(len(calls)), lambda place: calls[place].keys[0])
        groups = [
            (connections.get(node) or BatchConnection(self._topology), places)
            for node, places in by_node.items()
        ]

        def part(connection: BatchConnection, places: Sequence[int], until: float) -> None:
            left, mine = max(until - clock.now(), GRACE), [calls[place] for place in places]
            send_texts(mine)
            answers = connection.batch(mine, left, left)
            connection.drop()
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer

        threads: list[threading.Thread] = []
        # The last group is sent from here; with a single server it is the only one.
        for number, group in enumerate(groups[:-1]):
            thread = threading.Thread(target=part, args=(*group, deadline), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # From Python 3.12 on no thread starts while the interpreter exits. Then serve one
                # node after another, each with its share of the time.
                now = clock.now()
                part(*group, now + (deadline - now) / (len(groups) - number))
            else:
                threads.append(thread)
        for group in groups[-1:]:
            part(*group, deadline)
        for thread in threads:
            thread.join(max(deadline - clock.now(), GRACE))
        return replies

    def after_fork(self) -> None:
        """Reset everything in a forked child."""
        self._reset()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.connection.drop()

    def _run(self) -> None:
        rung = True
        while (seconds := self._turn(rung=rung)) is not None:
            rung = self._wakeup.wait(seconds)

    def _turn(self, *, rung: bool) -> float | None:
        """Do the work that is due, in the thread; *rung* tells whether it was woken.

        Return the seconds until the next turn, or None at the end.
        """
        if self._closing or self._thread is not threading.current_thread():
            return None
        try:
            now, watchdog = clock.now(), self._session.watchdog
            self._note_late(now - self._turn_due)
            if not rung and -NEVER < self._others_due <= now:
                self._others_due = self._next_of_others()  # a look may have been put off
            due = now if rung else min(self._others_due, watchdog.rest(now))
            if due <= now:
                self._work()
                callbacks.resume()
                now = clock.now()
                self._others_due = self._next_of_others()
                due = min(self._others_due, watchdog.next_due(now))
            self._turn_due = max(due, now)
            return min(max(due - now, 0), threading.TIMEOUT_MAX)
        except BaseException as error:  # noqa: BLE001 - the other holds must go on being kept
            callbacks.report_aside("the renewal thread", error)
            self._others_due = -NEVER  # whatever it was woken for is still to do
            return PAUSE_AFTER_ERROR

    def _note_late(self, seconds: float) -> None:
        """Log that the thread got its turn *seconds* late, if holds may be lost by that."""
        self._turn_due = NEVER
        if seconds <= self._session.watchdog.period or not self._session.options.log:
            return
        if any(hold.renewal and hold.state in (HELD, LOST) for hold in self._session.holds):
            callbacks.call_user(self, "a handler of the log", partial(_log_late, seconds))

    def _next_of_others(self) -> float:
        """Return when something is due that is no renewal."""
        return min(self._cleanups.next_due(), self._session.looks.next_due(), self._card_due)

    def _work(self) -> None:
        """Give each node's lane the work that is due there.

        If the lane is still busy, the work is due again soon.
        """
        watchdog, cleanups, now = self._session.watchdog, self._cleanups, clock.now()
        self._card_due, result = self.card.next_look(now), Round()
        holds = self._by_node(watchdog.due(now, result), lambda hold: hold.key)
        entries = self._by_node(cleanups.take_due(now), lambda entry: entry.effect.call.keys[0])
        given = self._by_node(self._session.looks.take_due(now), lambda lock: lock.key)
        self._tell(result)
        self._sweep()
        waits, card = self._for_operators(now)
        slow = self._by_node(waits, lambda hold: hold.key)
        cards = {} if card is None else {self._topology.owner(card.keys[0]): card}
        for node in holds.keys() | entries.keys() | given.keys() | slow.keys() | cards.keys():
            more = given.get(node, ()), slow.get(node, ())
            parts = holds.get(node, ()), entries.get(node, ()), *more
            work = partial(self._serve, *parts, cards.get(node))
            lane = self._lane(node)
            if self._closing:
                return  # closed by a finalizer in this thread; from now on, this lane is ended too
            if not lane.take(work):
                for lock in given.get(node, ()):
                    self._session.looks.given(lock, now)
                self._session.events.put_off(slow.get(node, ()))
                if node in cards:
                    self.card.put_off()
                self._card_due = min(self._card_due, now + watchdog.retry)
        for node in set(self._lanes) - {None, *self._topology.nodes}:
            self._lanes.pop(node).end(now)

    def _serve(
        self,
        holds: Sequence[Hold],
        entries: Sequence[CleanupEntry],
        given: Sequence[Given],
        slow: Sequence[Hold],
        card: Eval[bool] | None,
        connection: BatchConnection,
    ) -> None:
        """Do the work that is due at one node, in the thread of that node."""
        result, started, events = Round(), clock.now(), self._session.events
        try:
            self._perform(self._session.watchdog.renew(holds, clock.now, result), connection)
            self._tell(result)
            events.renewal(connection, holds, started, result)
        finally:
            self._perform(self._cleanups.carry(entries, clock.now), connection)
        self._perform(self._session.looks.look(given, clock.now), connection)
        self._perform(events.name_holders(slow), connection)
        if card is not None:
            self._write(card, connection)

    def _sweep(self) -> None:
        """Forget what was dropped and is over; another thread frees its variables."""
        try:
            if frames := self._unclaimed.sweep():
                callbacks.call_user(Renewer, "variables of a call that has returned", frames.clear)
        except Exception as error:  # noqa: BLE001 - renewals matter more
            callbacks.report_aside("the renewal thread, at holds that were not kept", error)

    def _for_operators(self, now: float) -> tuple[list[Hold], Eval[bool] | None]:
        """Return the long waits to report, and the script that writes the client's card if due."""
        try:
            return self._session.events.slow_waits(now), self.card.look(now)
        except Exception as error:  # noqa: BLE001 - renewals matter more than what operators read
            self.card.refused = True
            callbacks.report_aside("the renewal thread, at what operators read", error)
            return [], None

    def _write(self, card: Eval[bool], connection: BatchConnection) -> None:
        """Write the client's card. If the user has no right to do that, never try again."""
        [reply] = self._batch([card], connection)
        if not isinstance(reply, Exception):
            self.card.answered(card)
            self.card.named = connection.named
        elif getattr(reply, "code", None) == "NOPERM":
            self.card.refused = True
            if self._session.options.log:
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

    def _tell(self, result: Round) -> None:
        """Warn of abandoned holds, and report unexpected errors."""
        for hold in result.abandoned:
            self._session.events.abandoned(hold)
            self._release(hold)
        for error in result.failures:
            if not isinstance(error, InterlockError):
                callbacks.report_aside("the renewal thread", error)

    def _release(self, hold: Hold) -> None:
        """Release *hold*, which nobody is left to release, and warn of it."""
        call = hold.core.release_script(hold, 0)
        self._cleanups.add(Cleanup(call, hold.valid_until, hold.late_grants()), clock.now())
        place = getattr(hold, "place", "")
        acquired = f", acquired at {place}," if place else ""
        message = (
            f"hold of {hold.name!r} by {hold.label}{acquired} was never released; "
            "it is released now"
        )
        warn = partial(warnings.warn, message, MisuseWarning, stacklevel=2)
        callbacks.call_user(Renewer, "the renewal thread", warn)

    def _perform(self, op: Op[R], connection: BatchConnection) -> R:
        """Run an operation whose only effects are batches; *connection* sends them."""
        reply: object = None
        while True:
            try:
                effect = op.send(reply)
            except StopIteration as stop:
                result: R = stop.value
                return result
            assert isinstance(effect, Batch)
            reply = self._batch(effect.evals, connection)

    def _batch(self, calls: Sequence[Eval[object]], connection: BatchConnection) -> list[object]:
        moved, self._moved = self._moved, False
        try:
            self._meanwhile()
            if moved:
                connection.drop()
            replies = connection.batch(calls, self._timeout, self._timeout, self._meanwhile)
        except ClosedError as error:
            return [error] * len(calls)
        except Exception as error:  # noqa: BLE001 - an unexpected error
            if len(calls) <= 1:
                return [error] * len(calls)
            # The error of one call must not affect the others: send each one by itself.
            callbacks.report_aside("the renewal thread", error)
            return [reply for call in calls for reply in self._batch([call], connection)]
        if moved and any(isinstance(reply, ServerUnavailableError) for reply in replies):
            # A holder that hears of a loss too late may be one of two holders.
            self._moved = True
            self._session.watchdog.renew_now(clock.now() + PAUSE_AFTER_ERROR)
        return replies

    def _meanwhile(self) -> None:
        """Stop waiting for the server if the client closes.

        Losses are noted here too: if no further thread could be started, this is the renewal
        thread.

        Raises:
            ClosedError: the client closes.
        """
        if self._closing:
            raise ClosedError("the client is closed")
        _ = self._session.watchdog.end_overdue(clock.now())


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
            thread = threading.Thread(target=self._run, name="interlock-renewer-node", daemon=True)
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
            except BaseException as error:  # noqa: BLE001 - the other holds must go on being kept
                callbacks.report_aside("the renewal thread", error)
            finally:
                # Keep nothing alive that the work refers to.
                del work
        if clock.now() >= work:
            self.connection.drop()


def _look_again(
    looks: Sequence[Eval[int]],
    looked: Sequence[object],
    cores: Sequence[CoreLock | OpenBlock],
    released: Sequence[object],
) -> list[Eval[int]]:
    """Return the looks at what the last commands gave to the first client in a queue.

    They tell the next one to look when that claim is over.
    """
    again = [look for look, reply in zip(looks, looked, strict=True) if reply == GIVEN]
    for core, reply in zip(cores, released, strict=False):
        if reply == GIVEN and core.looked_at is not None:
            again.append(look_script(cast("Given", core.looked_at)))
    return again


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


def _log_late(seconds: float) -> None:
    logging.getLogger("interlock").warning(
        "renewals came %.1f s late, because the process stood still; if a call keeps the "
        "interpreter lock for so long, use a lease that is at least twice as long as the longest "
        "such call",
        seconds,
        extra={"event": "renewal.late", "seconds": seconds},
    )


def _log_refusal(reply: Exception) -> None:
    logging.getLogger("interlock").warning(
        "locks work, but operators see no card of this client, for want of rights: "
        "`interlock doctor` prints the rights",
        # Not in the text: the reply speaks of rights that locks need, and would mislead.
        extra={"event": "card.refused", "detail": str(reply)},
    )
