"""Scripts on many servers at once, from one thread: everything is sent before any reply is read.

The calls to a server without an idle connection are made in a thread of their own. So a server
that is down delays no other.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from interlock._drivers.process import clock
from interlock._links.topology import LEAST
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.connection import Connection
    from interlock._links.pool import NodePool, Pool

TICK = 0.01
"""Time-outs are rounded up to a multiple of these seconds.

Changing the time-out of a connection costs a system call.
"""


class _Group:
    """The calls for one pool.

    It knows their places among all calls, their deadline, and the connection that sent them.
    """

    __slots__ = ("calls", "connection", "places", "pool", "thread", "until")

    def __init__(self, pool: NodePool, until: float) -> None:
        self.pool = pool
        self.until = until
        self.places: list[int] = []
        self.calls: list[Eval[object]] = []
        self.connection: Connection | None = None
        self.thread: threading.Thread | None = None

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


def ask(questions: Sequence[tuple[Pool, Eval[object], float]]) -> list[object]:
    """Run each call on its pool, within the seconds that come with it.

    Return each one's reply or `InterlockError`.
    """
    if len(questions) == 1:
        return [_reply(*questions[0])]
    now = clock.now()
    replies: list[object] = [None] * len(questions)
    groups = _grouped(questions, now, replies)
    try:
        for group in groups:
            _send(group, replies)
        for group in groups:
            if group.connection is not None:
                _receive(group, group.connection, replies)
    finally:
        for group in groups:
            if group.connection is not None:
                group.pool.take_back(group.connection)
            if group.thread is not None:
                group.thread.join()
    for place, reply in enumerate(replies):
        if isinstance(reply, ServerUnavailableError):
            replies[place] = _second(questions[place], reply, now)
    return replies


def _grouped(
    questions: Sequence[tuple[Pool, Eval[object], float]],
    now: float,
    replies: list[object],
) -> Collection[_Group]:
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
    return groups.values()


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


def _send(group: _Group, replies: list[object]) -> None:
    connection = group.connection = group.pool.idle()
    if connection is None:
        thread = threading.Thread(target=_alone, args=(group, replies))
        try:
            thread.start()
        except RuntimeError:  # too many threads: the other servers have to wait
            _alone(group, replies)
        else:
            group.thread = thread
        return
    try:
        connection.begin(group.calls, group.seconds())
    except InterlockError as error:
        _fail(group, connection, replies, error)


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


def _alone(group: _Group, replies: list[object]) -> None:
    """Run the calls of *group*, in a thread of their own if one can start."""
    try:
        answers = group.pool.batch(group.calls, group.seconds())
    except InterlockError as error:
        answers = [error] * len(group.calls)
    _put(group, answers, replies)
