"""What the renewal thread sends by: one connection to each server, used by one thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._links.connection import Connection
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Eval
    from interlock._links.endpoint import Endpoint


class Courier:
    """Brings batches to one server, by a connection that is made when it is needed, and again when it was lost."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def batch(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[object]:
        """Run *calls* in one write; return each one's reply or `InterlockError`.

        Args:
            calls: the scripts.
            timeout: seconds of silence after which the server is given up.
            patience: seconds for connecting, from which nothing can be looked up.
            meanwhile: called again and again while nothing comes; what it raises is what becomes of all *calls*.
        """
        try:
            return self._connected(patience).batch(calls, timeout, meanwhile)
        except InterlockError as error:
            self.drop()
            return [error] * len(calls)
        except BaseException:
            # It may owe replies, which nobody else must read.
            self.drop()
            raise

    def ask(self, call: Eval[object], timeout: float, patience: float) -> object:
        """Run *call* on a node that is just taking its slot over; arguments and result as `batch`."""
        try:
            return self._connected(patience).ask(call, timeout)
        except InterlockError as error:
            self.drop()
            return error

    def _connected(self, patience: float) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._endpoint, patience)
        return self._connection

    def drop(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
