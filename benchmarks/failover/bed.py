"""Servers for many failovers: a primary, a replica behind a slow line, and a Sentinel."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self, cast

from tests.support.address import LOOPBACK
from tests.support.servers import RedisServer, wait_until

from benchmarks.failover.link import Link

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = "mymaster"
_DOWN_AFTER = 500
"""Milliseconds; less, and a busy machine makes a Sentinel think a server dead that is not."""
_NEVER = 600_000
"""Milliseconds after which a Sentinel would reconfigure a replica.

The replica follows its primary through the link, which a Sentinel takes for a wrong address.
"""
_TIMEOUT = 20.0
# PING-PERIOD is short too, because a Sentinel connects anew once in such a period. With the usual
# second it would find the new primary silent.
_PERIODS = ("PING-PERIOD", 200, "INFO-PERIOD", 50, "ASK-PERIOD", 50, "PUBLISH-PERIOD", 50)


class Bed:
    """Two servers that take turns as primary and replica, and one Sentinel whose word is enough.

    More Sentinels would take longer to agree and then do the same.

    Attributes:
        primary: At present.
        replica: At present.
        sentinel: Who decides.
    """

    def __init__(self, binary: Path | None = None) -> None:
        self._binary = binary
        self._stack = contextlib.ExitStack()
        self._link = Link()
        self.primary: RedisServer
        self.replica: RedisServer
        self.sentinel: RedisServer

    def __enter__(self) -> Self:
        """Start everything."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._link)
            self.primary = stack.enter_context(RedisServer(self._binary))
            self.replica = stack.enter_context(RedisServer(self._binary))
            config: dict[str, str | int] = {
                f"sentinel monitor {SERVICE}": f"{LOOPBACK} {self.primary.port} 1",
                f"sentinel down-after-milliseconds {SERVICE}": _DOWN_AFTER,
                f"sentinel failover-timeout {SERVICE}": _NEVER,
            }
            self.sentinel = stack.enter_context(
                RedisServer(self._binary, sentinel=True, config=config)
            )
            self.sentinel.execute("SENTINEL", "DEBUG", *_PERIODS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self._stack.close()

    @property
    def url(self) -> str:
        """What clients are told."""
        return f"redis+sentinel://{LOOPBACK}:{self.sentinel.port}/{SERVICE}"

    def prepare(self, delay: float) -> None:
        """Empty the primary and wait until the replica is in step.

        From then on the replica hears of everything *delay* seconds late.
        """
        self._link.delay = 0.0
        if self._link.target != self.primary.port:
            self._link.target = self.primary.port
            if not self.replica.alive:
                self.replica.restart()
            self.replica.execute("REPLICAOF", LOOPBACK, self._link.port)
        self.primary.execute("FLUSHALL")
        wait_until(self._ready, _TIMEOUT, "primary, replica and Sentinel know each other")
        self._link.delay = delay

    def fail(self) -> None:
        """Kill the primary with all that it has not told yet."""
        self._link.sever()
        self.primary.kill()
        self.primary, self.replica = self.replica, self.primary

    def promoted(self) -> bool:
        """Tell whether the Sentinel has made a primary of the replica."""
        return self._named() == self.primary.port and self._role(self.primary)[0] == b"master"

    def _ready(self) -> bool:
        role = self._role(self.replica)
        if role[0] != b"slave" or role[3] != b"connected" or not self.promoted():
            return False
        if role[4] != self._role(self.primary)[1]:
            return False
        reply = cast("list[list[bytes]]", self.sentinel.execute("SENTINEL", "REPLICAS", SERVICE))
        replicas = [dict(zip(fields[::2], fields[1::2], strict=True)) for fields in reply]
        return [
            (each[b"port"], each[b"flags"], each[b"master-link-status"]) for each in replicas
        ] == [(str(self.replica.port).encode(), b"slave", b"ok")]

    def _named(self) -> int:
        reply = self.sentinel.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(cast("list[bytes]", reply)[1])

    @staticmethod
    def _role(server: RedisServer) -> list[object]:
        return cast("list[object]", server.execute("ROLE"))
