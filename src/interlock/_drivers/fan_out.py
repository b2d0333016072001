"""Scripts on many servers at once, from one thread: everything is sent before any reply is read.

A server without an idle connection is asked by a thread of its own. So a server that is down delays
no other. If some replies decide, the others need not come: then threads read those for a moment, and
give their connections back. A connection whose reply is later still is closed. A thread that has
sent its calls by itself has all their time.
"""

from __future__ import annotations

import _thread
import math
import select
import threading
from typing import TYPE_CHECKING

from interlock._core.model.effects import LATE, NEVER
from interlock._drivers.process import clock
from interlock._links.topology import LEAST
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.together import Enough
    from interlock._core.model.effects import Eval
    from interlock._links.connection import Connection
    from interlock._links.pool import NodePool, Pool

    Question = tuple[Pool, Eval[object], float]

LOOK = 0.001
"""Seconds between two looks whether a thread has ended."""
MOMENT = 0.1
"""Seconds for which a reply may still come that nobody waits for."""


class _Group:
    """The calls for one pool: their places among all, and when their time is up.

    Attributes:
        connection: which has sent them, until their replies are read.
        running: locked while a thread makes them.
        left: whether nobody waits for them any more: a thread sends nothing more then.
        answers: their replies.
    """

    __slots__ = ("answers", "calls", "connection", "left", "places", "pool", "running", "until")

    def __init__(self, pool: NodePool, until: float) -> None:
        self.pool, self.until = pool, until
        self.places: list[int] = []
        self.calls: list[Eval[object]] = []
        self.answers: Sequence[object] = ()
        self.connection: Connection | None = None
        self.running, self.left = threading.Lock(), False

    def seconds(self) -> float:
        """Return the seconds that the calls have left."""
        return max(self.until - clock.now(), LEAST)

    def send(self) -> None:
        """Send the calls: on an idle connection, or else by a thread."""
        connection = self.connection = self.pool.idle()
        if connection is not None:
            try:
                connection.begin(self.calls, self.seconds())
            except InterlockError as error:
                self._fail(connection, error)
            return
        # Not `Thread.start`: a signal in that may come out as a RuntimeError though a thread runs.
        # The calls would be made twice, and nobody would know of the second acquire.
        _ = self.running.acquire()
        try:
            _ = _thread.start_new_thread(self._run, ())
        except RuntimeError:  # too many threads: the other servers have to wait
            self._run()

    def _run(self) -> None:
        try:
            self.answers = self.pool.batch(self.calls, self.seconds(), self._look)
        except InterlockError as error:
            self.answers = [error] * len(self.calls)
        finally:
            self.running.release()

    def _look(self) -> None:
        if self.left and clock.now() > self.until:
            # It says nothing of the server, so the pool keeps its other connections.
            raise InterlockError("nobody waits for the reply any more")

    def read(self) -> None:
        """Read the replies, and give the connection back; or wait for the thread."""
        connection = self.connection
        if connection is not None:
            self._read(connection)
        with self.running:
            pass

    def _read(self, connection: Connection) -> None:
        try:
            self.answers = connection.finish(self.calls, self.seconds())
        except InterlockError as error:
            self._fail(connection, error)
        else:
            self.connection = None
            self.pool.take_back(connection)

    def leave(self, seconds: float) -> None:
        """Wait for replies that nobody has read only for so many *seconds*, and in a thread.

        After that, a thread that still connects sends nothing any more.
        """
        self.until, self.left = min(self.until, clock.now() + seconds), True
        connection, self.connection = self.connection, None
        if connection is not None:
            try:
                _ = _thread.start_new_thread(self._read, (connection,))
            except RuntimeError:  # too many threads
                self.pool.discard(connection)

    def _fail(self, connection: Connection, error: InterlockError) -> None:
        self.connection = None
        self.answers = [error] * len(self.calls)
        if self.left:  # that it is late says nothing of other connections
            self.pool.discard(connection)
        else:
            self.pool.take_back(connection)


def ask(questions: Sequence[Question], enough: Enough | None = None) -> list[object]:
    """Run each call on its pool, within the seconds that come with it.

    Return each one's reply or `InterlockError`, and `LATE` for those that came after *enough*,
    which is as for `Gather`.
    """
    began = clock.now()
    replies: list[object] = [LATE] * len(questions)
    if len(questions) == 1:
        [(whole, call, seconds)] = questions
        try:
            return [whole.eval(call, max(seconds, LEAST))]
        except InterlockError as error:
            return [error]
    groups, patience = _grouped(questions, began, replies), 0.0
    try:
        for group in groups:
            group.send()
        all_came = _read(groups, replies, enough, began)
        patience = MOMENT
        if not all_came:
            return replies
    finally:  # after a signal there is no patience
        for group in groups:
            group.leave(patience)
    for place, reply in enumerate(replies):
        if isinstance(reply, ServerUnavailableError):  # in a cluster another server may serve it
            whole, call, seconds = questions[place]
            replies[place] = whole.outcome(call, reply, max(began + seconds - clock.now(), LEAST))
    return replies


def _grouped(questions: Sequence[Question], began: float, replies: list[object]) -> list[_Group]:
    """Group the calls by pool; put an error into *replies* for a call that no node serves."""
    groups: dict[NodePool, _Group] = {}
    for place, (whole, call, seconds) in enumerate(questions):
        try:
            pool = whole.serving(call)
        except ServerUnavailableError as error:
            replies[place] = error
            continue
        group = groups.get(pool) or groups.setdefault(pool, _Group(pool, began + seconds))
        group.places.append(place)
        group.calls.append(call)
    return list(groups.values())


def _read(
    groups: Sequence[_Group], replies: list[object], enough: Enough | None, began: float
) -> bool:
    """Put what comes into *replies*; return False if there was *enough* before the last one."""
    left, until = list(groups), NEVER
    while left:
        arrived = left.copy() if enough is None else _arrived(left, until)
        if not arrived:
            break
        for group in arrived:
            group.read()
            left.remove(group)
            for place, answer in zip(group.places, group.answers, strict=True):
                replies[place] = answer
                now = clock.now()
                more = None if enough is None else enough(place, answer, now - began)
                if more is not None:
                    until = min(until, now + more)
    return not left


def _arrived(left: Sequence[_Group], until: float) -> list[_Group]:
    """Return the groups whose replies are there, or whose time is up; none if it is past *until*.

    Wait for one of them.
    """
    while True:
        ended = [each for each in left if each.connection is None and not each.running.locked()]
        if ended:
            return ended
        sending = {each.connection.fileno(): each for each in left if each.connection is not None}
        now = clock.now()
        if now >= until:
            return []
        wait = min([until, *[each.until for each in left]]) - now
        if len(sending) < len(left):
            wait = min(wait, LOOK)
        if ready := _readable(list(sending), max(wait, 0.0)):
            return [sending[file] for file in ready]
        late = [each for each in sending.values() if each.until <= now]
        if late:
            return late


def _readable(files: list[int], seconds: float) -> list[int]:
    """Wait until something can be read from one of *files*; return those."""
    if not hasattr(select, "poll"):  # Windows, where it takes no empty lists
        return select.select(files, (), (), seconds)[0] if files else []
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(math.ceil(seconds * 1000))]
