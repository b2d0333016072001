"""The answers that the tasks of one event loop wait for, in C or in Python.

The part in C takes a reply from the bytes to its task without Python code. If many answers come at
once, one callback of the loop wakes all their tasks.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock._links.resp import ReplyError, parse_all_in_python

if TYPE_CHECKING:
    from collections.abc import Callable

    Then = Callable[[object], None]

_in_c: Any = None
with suppress(ImportError):  # there was no compiler, or the C part is older than its source
    from interlock._links._exchange import Answers as AnswersInC

    _in_c = AnswersInC


class _Answer(asyncio.Future[object]):
    """The answer to one command."""

    then: Then | None = None

    def set_exception(self, error: type[BaseException] | BaseException, /) -> None:
        """Raise *error* in the place of the reply."""
        if self.then is not None and not self.done():
            self.then(error)
        super().set_exception(error)


class Answers:
    """The answers that are to come on one connection, in the order of the commands.

    The part in C does the same.

    Args:
        loop: the running one.
        error: the class of the server's errors.

    Attributes:
        came: how many replies have come.
        served: whether any of them was no error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, error: type[Exception]) -> None:
        self._loop = loop
        self._error = error
        self._slots: deque[_Answer] = deque()
        self.came = 0
        self.served = False

    def __len__(self) -> int:
        """Return how many are to come."""
        return len(self._slots)

    def expect(self, then: Then | None, /) -> asyncio.Future[object]:
        """Return the answer to the command that is sent next.

        *then* is called with the reply, or with the error in its place, before who waits goes on;
        not if nobody waits any more.
        """
        slot = _Answer(loop=self._loop)
        slot.then = then
        self._slots.append(slot)
        return slot

    def take(self, data: bytes, /) -> list[object] | tuple[list[object], int, int]:
        """Give each whole reply in *data* to the answer whose turn it is.

        Return what `resp.parse_all` does, without these replies.

        Raises:
            IndexError: nobody waits for a reply.
        """
        found = parse_all_in_python(data, self._error)
        for reply in found if isinstance(found, list) else found[0]:
            self._give(reply)
        return [] if isinstance(found, list) else ([], *found[1:])

    def _give(self, reply: object) -> None:
        slot = self._slots.popleft()
        self.came += 1
        self.served = self.served or not isinstance(reply, self._error)
        if slot.done():
            return
        try:
            if slot.then is not None:
                slot.then(reply)
            with suppress(asyncio.InvalidStateError):  # a signal handler may have cancelled it
                slot.set_result(reply)
            slot.then = None
        except BaseException:
            # A Ctrl-C struck: `forget` returns it, too.
            if not slot.done():
                self._slots.appendleft(slot)
            raise

    def forget(self) -> list[asyncio.Future[object]]:
        """Return all that are to come, and wait for none of them any more."""
        slots: list[asyncio.Future[object]] = list(self._slots)
        self._slots.clear()
        return slots


def answers(loop: asyncio.AbstractEventLoop) -> Answers:
    """Return the answers of a new connection of *loop*."""
    # In its debug mode asyncio tells which task is slow, if each one has its own callback.
    if _in_c is None or loop.get_debug():
        return Answers(loop, ReplyError)
    made: Answers = _in_c(
        loop,
        ReplyError,
        contextvars.copy_context,
        asyncio.CancelledError,
        asyncio.InvalidStateError,
    )
    return made
