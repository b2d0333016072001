"""A connection for messages, which several threads receive by turns.

Rules:

* One thread at a time receives: the one that has the token. It runs no Python code meanwhile, so no
  signal handler, finalizer or exception can strike it there (`receive` in `_exchange.c`).
* `messages` has all that was received and is not handled yet. While it is not empty, nobody
  receives. `meaning` tells what one of them is.
* An error of the connection is put there, too. So it is not raised in a thread of the user.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from interlock._links.connection import Connection
from interlock._links.resp import ParserError, ReplyError, parse_all, why_wrong
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from interlock._links.endpoint import Origin


def meaning(item: Any) -> Any:
    """Return what *item* of `SharedConnection.messages` is: a reply, a message or an exception."""
    if type(item) is bytes:  # not `isinstance`, which is a call
        found = parse_all(item, ReplyError)
        return found[0] if isinstance(found, list) else ParserError(why_wrong(len(item), found[2]))
    if isinstance(item, int):
        return OSError(item, os.strerror(item))
    return cast("tuple[Any]", item)[0] if isinstance(item, tuple) else item


class SharedConnection(Connection):
    """A connection to *endpoint*; arguments and errors as `Connection`.

    Attributes:
        messages: the bytes of replies and messages, in order, or the number of an error. If threads
            cannot take turns, a tuple of the reply, or an exception.
        token: locked while a thread receives.
    """

    def __init__(self, endpoint: Origin, timeout: float) -> None:
        super().__init__(endpoint, timeout)
        self.messages: deque[Any] = deque()
        self._rest: list[bytes | int] = [0]
        self.token = threading.Lock()

    def receive_in_turn(self, seconds: float) -> bool:
        """Receive into `messages`, unless another thread does; return whether it did not.

        It waits for *seconds* at most. It may end early, and without a message: after a signal, for
        example.
        """
        if self._in_turn is None:
            self._receive_alone(seconds)
            return True
        given = self._rest, self.messages, seconds
        return self._in_turn(self.token, None, self._socket, None, *given)

    def _receive_alone(self, seconds: float) -> None:
        try:
            self.set_timeout(seconds)
            self.messages.append((self._read(),))
        except (BlockingIOError, TimeoutError):
            return
        except (OSError, ParserError) as error:
            self.messages.append(error)

    def raise_broken(self, error: Exception) -> None:
        """Raise what *error* means, which was among the messages.

        Raises:
            ServerUnavailableError: always.
        """
        if isinstance(error, ServerUnavailableError):
            raise error
        raise self._broken(error) from error
