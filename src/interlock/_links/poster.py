"""Commands that are sent at once, and whose replies nobody waits for.

Each node has a connection for them, taken from the pool. The replies to earlier commands are
dropped before a later command is sent. If anything is wrong, the connection is given up and
nothing is sent. Such a command only makes something safer, and the caller has another way.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._links.connection import Connection
    from interlock._links.pool import NodePool, Pool


class Poster:
    """Sends such commands for the threads of one client.

    Args:
        pool: the connections of the client.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reset()

    def _reset(self) -> None:
        # Nobody waits for it: a signal handler or finalizer may strike while it is locked.
        self._busy = threading.Lock()
        self._connections: dict[NodePool, Connection] = {}
        self._closed = False

    def post(self, call: Eval[object]) -> bool:
        """Send *call* if that takes no time; return whether it was sent."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            if self._closed:
                return False
            node = self._pool.only or self._pool.serving(call)
            # Taken out meanwhile: after an interruption nobody uses it again.
            connection = self._connections.pop(node, None) or node.spare()
            if connection is None:
                return False
            try:
                sent = connection.post(call)
            except BaseException:
                node.discard(connection)  # else `close` waits for it while the traceback keeps it
                raise
            if not sent:
                node.discard(connection)
                return False
            self._connections[node] = connection
            if self._closed:  # meanwhile
                self.close()
        except InterlockError:
            return False
        else:
            return True
        finally:
            self._busy.release()

    def close(self) -> None:
        """Close all connections, and send nothing any more.

        One that is just being written to is closed after that; the pool waits for it.
        """
        self._closed = True
        while True:
            try:
                node, connection = self._connections.popitem()
            except KeyError:
                return
            node.discard(connection)

    def forget(self) -> None:
        """Close the connections of the parent in a forked child, but send nothing."""
        connections = self._connections
        self._reset()
        for connection in connections.values():
            connection.close()
