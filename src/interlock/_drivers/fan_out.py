"""Scripts on many servers at once, from one thread: everything is sent before any reply is read.

The calls to a server without an idle connection are made in a thread of their own. So a server
that is down delays no other.

If some replies decide, the others need not come. Then each connection that still owes one is set
aside. The next call behind it drops the reply (`NodePool.set_aside`).
"""

from __future__ import annotations

import _thread
import math
import select
import threading
from typing import TYPE_CHECKING

from interlock._core.model.calls import LATE
from interlock._drivers.process import clock
from interlock._links.topology import LEAST
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from interlock._core.locks.together import Enough
    from interlock._core.model.calls import Eval
    from interlock._links.connection import Connection
    from interlock._links.pool import NodePool, Pool

TICK = 0.01
"""Time-outs are rounded up to a multiple of these seconds.

Changing the time-out of a connection costs a system call.
"""
LOOK = 0.001
"""Seconds between two looks whether a thread has ended."""
MOST = 256
"""How many servers one call asks, as in _exchange.c."""


class _Group:
    """The calls for one pool.

    It knows their places among all calls, their deadline, and the connection that sent them; or a
    lock that a thread of their own has until it ends.
    """

    __slots__ = ("calls", "connection", "places", "pool", "running", "until")

    def __init__(self, pool: NodePool, until: float) -> None:
        self.pool = pool
        self.until = until
        self.places: list[int] = []
        self.calls: list[Eval[object]] = []
        self.connection: Connection | None = None
        self.running: threading.Lock | None = None

    def seconds(self) -> float:
        """Return the seconds that the calls have left, rounded."""
        return _rounded(self.until - clock.now())


def _reply(pool: Pool, call: Eval[object], seconds: float) -> object:
    """Run *call*, the only one; return its reply or `InterlockError`."""
    try:
        return pool.eval(call, _rounded(seconds))
    except InterlockError as error:
        return error


def _rounded(seconds: float) -> float:
    """Return *seconds* in whole ticks."""
    ticks = math.ceil(seconds / TICK)
    return ticks * TICK if ticks > 0 else LEAST


def ask(
    questions: Sequence[tuple[Pool, Eval[object], float]],
    enough: Enough | None = None,
) -> list[object]:
    """Run each call on its pool, within the seconds that come with it.

    Return each one's reply or `InterlockError`; *enough* as for `Gather`.
    """
    if len(questions) == 1:
        return [_reply(*questions[0])]
    now = clock.now()
    replies: list[object] = [None] * len(questions)
    groups = _grouped(questions, now, replies)
    try:
        heard = _exchange_all(groups, replies, enough, now)
        if heard is None:
            heard = _send_all(groups, replies, behind=enough is not None)
        if enough is None:
            _receive_all(groups, replies)
        elif len(heard) < len(groups) and _Arrivals(groups, replies, enough, now, heard).decided():
            return replies.copy()  # threads may still put theirs into it
    finally:
        for group in groups:
            if group.connection is not None:
                group.pool.take_back(group.connection)
            if group.running is not None:
                _ = group.running.acquire()
    for place, reply in enumerate(replies):
        if isinstance(reply, ServerUnavailableError):
            replies[place] = _second(questions[place], reply, now)
    return replies


def _grouped(
    questions: Sequence[tuple[Pool, Eval[object], float]],
    now: float,
    replies: list[object],
) -> list[_Group]:
    """Group the calls by pool; put an error into *replies* for a call that no node serves."""
    groups: dict[NodePool, _Group] = {}
    for place, (whole, call, seconds) in enumerate(questions):
        try:
            pool = whole.serving(call)
        except ServerUnavailableError as error:
            replies[place] = error
            continue
        group = groups.get(pool)
        if group is None:
            group = groups[pool] = _Group(pool, now + seconds)
        group.places.append(place)
        group.calls.append(call)
    return list(groups.values())


def _exchange_all(
    groups: Sequence[_Group], replies: list[object], enough: Enough | None, began: float
) -> Sequence[_Group] | None:
    """Send and receive by one call, if each of *groups* has a connection, and one call.

    So threads that ask many servers need not wait for each other after each command and reply.

    Return the groups whose replies are in, or None if nothing was sent. If *enough* may be enough,
    the other replies were waited for as long as that allows.
    """
    connections: list[Connection] = []
    exchange_all = None
    for group in groups:
        connection = group.connection = group.pool.idle()
        alone = len(group.calls) == 1 and group.calls[0].replication is None
        if connection is None or not (alone and group.until == groups[0].until):
            return None
        # Any of the servers may have TLS, and then no such function.
        if (exchange_all := connection.exchange_all) is None:
            return None
        connections.append(connection)
    if exchange_all is None or len(groups) > MOST:
        return None
    number, seconds = len(groups), groups[0].until - began
    handles = tuple([connection.handle for connection in connections])
    commands = tuple(
        [
            connection.begin_with_others(group.calls[0])
            for connection, group in zip(connections, groups, strict=True)
        ]
    )
    least, linger = (number, 0.0) if enough is None else (enough.least, enough.linger)
    answers: list[object] = [LATE] * number
    exchange_all(handles, commands, answers, seconds, least, linger)
    late = LATE in answers and clock.now() < groups[0].until
    heard: list[_Group] = []
    for group, connection, answer in zip(groups, connections, answers, strict=True):
        if answer is LATE and late:
            continue
        heard.append(group)
        try:
            if answer is LATE:
                raise connection.silent(seconds)
            reply = connection.heard(group.calls[0], answer, _rounded(seconds))
        except InterlockError as error:
            _fail(group, connection, replies, error)
        else:
            group.connection = None
            group.pool.take_back(connection)
            replies[group.places[0]] = reply
    return heard


def _second(
    question: tuple[Pool, Eval[object], float],
    failure: ServerUnavailableError,
    began: float,
) -> object:
    """Return the outcome of a call that ended with *failure* at its first server.

    In a cluster another server may serve it.
    """
    whole, call, seconds = question
    try:
        return whole.after(call, failure, max(began + seconds - clock.now(), LEAST))
    except InterlockError as error:
        return error


class _Arrivals:
    """Receives the replies of *groups* in the order in which they come, until they decide.

    The other arguments are those of `ask`, the time at which it began, and the groups whose replies
    `_exchange_all` has heard.
    """

    def __init__(
        self,
        groups: Collection[_Group],
        replies: list[object],
        enough: Enough,
        began: float,
        heard: Collection[_Group],
    ) -> None:
        self._left = [group for group in groups if group.connection or group.running]
        self._replies = replies
        self._enough = enough
        self._began = began
        self._heard = heard
        self._until = math.inf

    def decided(self) -> bool:
        """Receive; return whether there were enough before the last reply."""
        for group in self._heard:
            self._take(group.places)
        if self._until < math.inf:
            self._until = 0.0  # the others have been waited for
        while self._left and clock.now() < self._until:
            for group in self._arrived():
                self._left.remove(group)
                if group.connection is not None:
                    _receive(group, group.connection, self._replies)
                self._take(group.places)
        for group in self._left:
            self._leave(group)
        return bool(self._left)

    def _take(self, places: Sequence[int]) -> None:
        """Judge the replies at *places*."""
        now = clock.now()
        for place in places:
            more = self._enough(place, self._replies[place], now - self._began)
            if more is not None:
                self._until = min(self._until, now + more)

    def _arrived(self) -> list[_Group]:
        """Return the groups whose replies are there, or whose time is up; wait for one."""
        ended = [each for each in self._left if each.running and not each.running.locked()]
        if ended:
            return ended
        sending = [each for each in self._left if each.connection is not None]
        now = clock.now()
        wait = min([self._until, *[each.until for each in sending]]) - now
        if len(sending) < len(self._left):
            wait = min(wait, LOOK)
        found = _readable(sending, max(wait, 0))
        return found or [each for each in sending if each.until <= now]

    def _leave(self, group: _Group) -> None:
        """Go on without the replies of *group*; its thread ends by itself."""
        connection, group.connection, group.running = group.connection, None, None
        if connection is not None:
            group.pool.set_aside(connection)
        for place in group.places:
            self._replies[place] = LATE


def _readable(groups: Sequence[_Group], seconds: float) -> list[_Group]:
    """Wait until something can be read for one of *groups*; return those whose replies begin."""
    owed = [(each, each.connection.owed) for each in groups if each.connection is not None]
    by_file = {replies.fileno(): (each, replies) for each, replies in owed}
    if hasattr(select, "poll"):
        poll = select.poll()
        for file in by_file:
            poll.register(file, select.POLLIN)
        ready = [file for file, _ in poll.poll(math.ceil(seconds * 1000))]
    else:  # Windows
        ready = select.select(list(by_file), (), (), seconds)[0]
    return [each for each, replies in map(by_file.__getitem__, ready) if replies.caught_up()]


def _send_all(
    groups: Collection[_Group], replies: list[object], *, behind: bool
) -> Sequence[_Group]:
    """Send the calls of *groups*, as `_send`; return that no reply is in."""
    for group in groups:
        _send(group, replies, behind=behind)
    return ()


def _send(group: _Group, replies: list[object], *, behind: bool) -> None:
    """Send the calls of *group*; *behind*: maybe on a connection that still owes older replies."""
    pool = group.pool
    connection = group.connection or pool.idle()
    connection = group.connection = connection or (pool.owing() if behind else pool.settled())
    if connection is None:
        # Not `Thread.start`: a signal in that may come out as a RuntimeError though a thread runs.
        # The calls would be made twice, and nobody would know of the second acquire.
        running = threading.Lock()
        _ = running.acquire()
        try:
            _ = _thread.start_new_thread(_alone, (group, replies, running))
        except RuntimeError:  # too many threads: the other servers have to wait
            _alone(group, replies, running)
        else:
            group.running = running
        return
    try:
        connection.begin(group.calls, group.seconds())
    except InterlockError as error:
        _fail(group, connection, replies, error)


def _receive_all(groups: Collection[_Group], replies: list[object]) -> None:
    for group in groups:
        if group.connection is not None:
            _receive(group, group.connection, replies)


def _receive(group: _Group, connection: Connection, replies: list[object]) -> None:
    try:
        answers = connection.finish(group.calls, group.seconds())
    except InterlockError as error:
        _fail(group, connection, replies, error)
    else:
        _put(group, answers, replies)


def _fail(
    group: _Group, connection: Connection, replies: list[object], error: InterlockError
) -> None:
    group.connection = None
    group.pool.failed(connection, error)
    _put(group, [error] * len(group.calls), replies)


def _put(group: _Group, answers: Sequence[object], replies: list[object]) -> None:
    for place, answer in zip(group.places, answers, strict=True):
        replies[place] = answer


def _alone(group: _Group, replies: list[object], running: threading.Lock) -> None:
    """Run the calls of *group*, in a thread of their own if one can start; release *running*."""
    try:
        _put(group, group.pool.batch(group.calls, group.seconds()), replies)
    except InterlockError as error:
        _put(group, [error] * len(group.calls), replies)
    finally:
        running.release()
