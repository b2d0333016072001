"""Watches a fleet for failovers: only these may lose what a primary has acknowledged.

Replication is asynchronous. A promoted replica may lack the last writes of its primary. A former
primary that comes back grants locks until it is demoted, and the demotion drops them all. So data
may be lost between two looks at a fleet that is in order, if its primaries are other ones. Servers
tell this themselves: each promotion and each start of a primary gives its data a new replication id
(``INFO replication``).

A primary that stands still for a moment and stays the primary loses nothing, and excuses nothing.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import redis

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from tests.support.servers import RedisServer

    from .history import Recorder

PERIOD = 0.1
"""Seconds between two looks."""
_TIMEOUT = 0.3
"""Seconds after which a server that does not answer counts as stopped."""
GRACE = 3.0
"""Seconds after a failover in which its other consequences are excused."""

Roles = frozenset[str]
"""The replication ids of all primaries of a fleet that is in order."""


class Watch:
    """Looks at *servers* in the background and writes failovers into a history.

    Args:
        servers: All of the fleet.
        primaries: How many of them are primaries when it is in order.
        note: The history.
    """

    def __init__(self, servers: Sequence[RedisServer], primaries: int, note: Recorder) -> None:
        self._servers = servers
        self._primaries = primaries
        self._note = note
        self._known: Roles | None = None
        self._since = 0.0
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; if the fleet is not in order then, data may have been lost."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error  # what it would have seen must excuse nothing
        now = time.monotonic()
        if self._known is not None and self._since < now - 1:
            self._tell(now)

    def _run(self) -> None:
        try:
            while not self._over.wait(PERIOD):
                began = time.monotonic()
                roles = self._roles()
                if roles is not None:
                    if self._known not in (None, roles):
                        self._tell(time.monotonic())
                    self._known, self._since = roles, began
        except Exception as error:  # noqa: BLE001 - raised at the end
            self._error = error

    def _tell(self, over: float) -> None:
        """Note that data may have been lost since the last look at a fleet in order."""
        fault = {"end": over + GRACE, "over": over, "what": "failover seen", "loses": True}
        self._note.note("fault", t=self._since, **fault)

    def _roles(self) -> Roles | None:
        """Return the replication ids of all primaries, None if the fleet is not in order."""
        try:
            answers = [_ask(server) for server in self._servers]
        except (OSError, redis.RedisError):
            return None
        primaries = frozenset(
            str(answer["master_replid"]) for answer in answers if answer["role"] == "master"
        )
        followers = [answer for answer in answers if answer["role"] != "master"]
        in_order = (
            len(primaries) == self._primaries
            and len(followers) == len(answers) - self._primaries
            and all(answer["master_link_status"] == "up" for answer in followers)
            and all(str(answer["master_replid"]) in primaries for answer in followers)
        )
        return primaries if in_order else None


def _ask(server: RedisServer) -> dict[str, object]:
    with redis.Redis(unix_socket_path=str(server.unix_path), socket_timeout=_TIMEOUT) as client:
        return cast("dict[str, object]", client.info("replication"))
