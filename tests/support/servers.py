"""Real servers for tests: one alone, a primary with replicas, Sentinel, Cluster.

Every class is a context manager that yields a set-up ready for use and leaves no process behind.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import redis

from tests.support.address import LOOPBACK
from tests.support.binary import binaries, default_binary, main_binary
from tests.support.cluster import ClusterServers
from tests.support.patience import wait_until
from tests.support.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

__all__ = [
    "ClusterServers",
    "RedisServer",
    "ReplicatedServers",
    "SentinelServers",
    "binaries",
    "default_binary",
    "main_binary",
    "reach_replicas",
    "wait_until",
]

_READY_TIMEOUT = 30.0
_SENTINEL_DEBUG_SINCE = (7, 0, 0)


def reach_replicas(primary: redis.Redis, number: int) -> None:
    """Wait until *number* replicas have all that *primary* has executed before.

    WAIT knows of writes of its own connection alone, and returns at once if there are none.
    """
    both = cast("Any", primary).pipeline(transaction=False)
    both.set("in step", 1, px=1)
    both.wait(number, 20_000)
    assert both.execute()[1] == number


class ReplicatedServers:
    """A primary and replicas that are in step with it.

    Attributes:
        primary: The primary at the start.
        replicas: The replicas at the start.
    """

    def __init__(
        self,
        replicas: int = 1,
        *,
        binary: Path | None = None,
        appendonly: bool = False,
        config: Mapping[str, str | int] | None = None,
    ) -> None:
        """Describe the set-up; the options are those of `RedisServer`, for all of them."""
        self._count = replicas
        self._binary = binary
        self._appendonly = appendonly
        self._config = config
        self._stack = contextlib.ExitStack()
        self.primary: RedisServer
        self.replicas: list[RedisServer]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.primary = stack.enter_context(self._server(None))
            self.replicas = [
                stack.enter_context(self._server(self.primary)) for _ in range(self._count)
            ]
            wait_until(self._in_step, _READY_TIMEOUT, "all replicas are in step")
            self._assemble(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*cast("Any", error))

    @property
    def servers(self) -> list[RedisServer]:
        return [self.primary, *self.replicas]

    def _assemble(self, stack: contextlib.ExitStack) -> None:
        """Start what else belongs to the set-up."""

    def _server(self, primary: RedisServer | None) -> RedisServer:
        return RedisServer(
            self._binary, appendonly=self._appendonly, config=self._config, replica_of=primary
        )

    def _in_step(self) -> bool:
        for replica in self.replicas:
            role = cast("list[object]", replica.execute("ROLE"))
            if role[0] != b"slave" or role[3] != b"connected":
                return False
        return True


class SentinelServers(ReplicatedServers):
    """A primary and two replicas under three Sentinels with a quorum of two.

    Attributes:
        sentinels: The three.
        service: The name they know the primary by.
    """

    service = "mymaster"

    def __init__(self, *, down_after: float = 1.0, binary: Path | None = None) -> None:
        """Describe the set-up.

        Args:
            down_after: Seconds of silence after which a Sentinel thinks a server down.
            binary: Of all servers and Sentinels.
        """
        super().__init__(2, binary=binary)
        self._down_after = down_after
        self.sentinels: list[RedisServer]

    def url(self, db: int = 0) -> str:
        hosts = ",".join(f"{LOOPBACK}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.service}/{db}"

    def wait_for_promotion(self, old: RedisServer, timeout: float = 30.0) -> RedisServer:
        """Return the primary after *old*, once a quorum names it and it has taken the role.

        Raises:
            TimeoutError: There was none within *timeout* seconds.
        """
        others = [server for server in self.servers if server is not old]
        return self._primary_among(others, timeout, f"a quorum of Sentinels replaced {old!r}")

    def _primary_among(
        self, candidates: Sequence[RedisServer], timeout: float, what: str
    ) -> RedisServer:
        found: list[RedisServer] = []

        def is_found() -> bool:
            votes = Counter(map(self._primary_port, self.sentinels))
            found[:] = [
                server for server in candidates if votes[server.port] >= 2 and _is_primary(server)
            ]
            return bool(found)

        wait_until(is_found, timeout, what)
        return found[0]

    def heal(self) -> RedisServer:
        """Undo what a test did, as `mend`, and remove all data; return the present primary."""
        primary = self.mend()
        primary.execute("FLUSHALL")
        return primary

    def mend(self) -> RedisServer:
        """Let every server and Sentinel be up and know all others.

        Returns:
            The present primary; the others follow it, whatever they were at the start.
        """
        for server in (*self.servers, *self.sentinels):
            if server.alive:
                server.resume()
            else:
                server.restart(empty=False)
        wait_until(self._mended, _READY_TIMEOUT, "all servers are as they were")
        return self.present_primary()

    def present_primary(self, timeout: float = 30.0) -> RedisServer:
        """Return the server that a quorum names and that has the role.

        Raises:
            TimeoutError: There was none within *timeout* seconds.
        """
        return self._primary_among(self.servers, timeout, "a quorum names a primary")

    def _mended(self) -> bool:
        primary = self.present_primary()
        in_step = True
        for server in self.servers:
            role = cast("list[object]", server.execute("ROLE"))
            if server is primary:
                in_step &= role[0] == b"master"
            elif role[0] != b"slave" or role[2] != primary.port:
                # Sentinels would do the same, some ten seconds later.
                server.execute("REPLICAOF", LOOPBACK, primary.port)
                in_step = False
            else:
                in_step &= role[3] == b"connected"
        return in_step and all(self._content(sentinel, primary) for sentinel in self.sentinels)

    def _content(self, sentinel: RedisServer, primary: RedisServer) -> bool:
        reply = cast("list[list[bytes]]", sentinel.execute("SENTINEL", "REPLICAS", self.service))
        replicas = [dict(zip(fields[::2], fields[1::2], strict=True)) for fields in reply]
        return (
            self._state(sentinel)[b"flags"] == b"master"
            and self._primary_port(sentinel) == primary.port
            and [replica[b"flags"] for replica in replicas] == [b"slave"] * self._count
            and self._acquainted()
        )

    def _assemble(self, stack: contextlib.ExitStack) -> None:
        config: dict[str, str | int] = {
            f"sentinel monitor {self.service}": f"{LOOPBACK} {self.primary.port} 2",
            f"sentinel down-after-milliseconds {self.service}": int(self._down_after * 1000),
            # It is also how long a split vote delays the next one.
            f"sentinel failover-timeout {self.service}": 3000,
            f"sentinel parallel-syncs {self.service}": self._count,
        }
        self.sentinels = [
            stack.enter_context(RedisServer(self._binary, sentinel=True, config=config))
            for _ in range(3)
        ]
        for sentinel in self.sentinels:
            if sentinel.version >= _SENTINEL_DEBUG_SINCE:
                # They find each other, and see a promotion, within tenths of a second.
                sentinel.execute("SENTINEL", "DEBUG", "PUBLISH-PERIOD", 100, "INFO-PERIOD", 200)
        wait_until(self._acquainted, _READY_TIMEOUT, "the Sentinels know everybody")

    def _acquainted(self) -> bool:
        for sentinel in self.sentinels:
            state = self._state(sentinel)
            if int(state[b"num-slaves"]) != self._count or state[b"num-other-sentinels"] != b"2":
                return False
        return True

    def _state(self, sentinel: RedisServer) -> dict[bytes, bytes]:
        reply = cast("list[bytes]", sentinel.execute("SENTINEL", "MASTER", self.service))
        return dict(zip(reply[::2], reply[1::2], strict=True))

    def _primary_port(self, sentinel: RedisServer) -> int | None:
        try:
            reply = sentinel.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        except redis.RedisError:  # this one is down, or paused by the test
            return None
        return int(cast("list[bytes]", reply)[1])


def _is_primary(server: RedisServer) -> bool:
    try:
        return cast("list[object]", server.execute("ROLE"))[0] == b"master"
    except redis.RedisError:  # it is going down as well
        return False
