"""What one server is like, before anybody has judged it."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Mapping  # noqa: TC003 - dataclass fields are read at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import redis

from interlock._links.redis_client import redis_client
from interlock._links.replies import understood

if TYPE_CHECKING:
    from interlock._links.endpoint import Endpoint

PINGS = 5
SETTINGS = ("appendfsync", "min-replicas-to-write", "save", "stop-writes-on-bgsave-error")
"""What is not in INFO."""
LIBRARY_SINCE = (7, 2)
"""The first version of Redis that knows CLIENT SETINFO; those of Valkey are higher."""
LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One server as it was found.

    Attributes:
        where: its address.
        transport: how it was reached; "local" is a way within this machine.
        embedded: whether interlock itself runs it.
        addresses: those that the host's name leads to, of the family that has most of them.
        round_trip: seconds of a PING, the median of some.
        server: what HELLO calls the server.
        library: whether it knows CLIENT SETINFO.
        info: INFO, as redis-py reads it; empty if the server refused it.
        config: those of `SETTINGS` that the server told.
        silent: by the command that was refused, what the server said instead of an answer.
    """

    where: str = ""
    transport: Literal["local", "tls", "plain"] = "local"
    embedded: bool = False
    addresses: tuple[str, ...] = ()
    round_trip: float = 0.0
    server: str = ""
    library: bool = False
    info: Mapping[str, object] = field(default_factory=dict[str, object])
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    silent: Mapping[str, str] = field(default_factory=dict[str, str])

    def number(self, name: str) -> int:
        """Return a number of INFO; 0 when there is none."""
        value = self.info.get(name)
        return value if isinstance(value, int) else 0

    def word(self, name: str) -> str:
        """Return a word of INFO; empty when there is none."""
        return str(self.info.get(name, ""))

    @property
    def is_sentinel(self) -> bool:
        """Return whether it is a Sentinel, for which Valkey 9.1 has another word than Redis."""
        return "sentinel" in (self.info.get("redis_mode"), self.info.get("server_mode"))


def collect(endpoint: Endpoint, timeout: float) -> Facts:
    """Ask the server at *endpoint* for all that is judged, in about 12 round trips.

    A server need not answer: managed ones forbid CONFIG, a locked-down user may not run INFO.

    Raises:
        ServerUnavailableError: it cannot be reached, the connection failed meanwhile, or an answer
            makes no sense.
    """
    # This one is made for its errors, which say what to do.
    endpoint.connect(timeout).disconnect()
    client = redis_client(endpoint, timeout)
    with understood(endpoint.where):
        try:
            return _facts(client, endpoint, "path" in endpoint.pool_options(timeout))
        except (redis.RedisError, OSError) as error:
            raise endpoint.unconnected(error) from error
        finally:
            client.close()


# redis-py's commands are typed as if they might be awaitable.
def _facts(client: Any, endpoint: Endpoint, by_path: bool) -> Facts:
    silent: dict[str, str] = {}

    def ask(command: str, *arguments: str) -> Any:
        try:
            return client.execute_command(command, *arguments)
        except redis.ResponseError as error:
            silent[command] = str(error)
            return {}

    def seconds_of_a_ping() -> float:
        began = time.perf_counter()
        ask("PING")  # a refusal takes as long
        return time.perf_counter() - began

    server, library = greeting(ask("HELLO"))
    config: dict[str, str] = {}
    for name in SETTINGS:  # one by one: Redis 6.2 takes but one
        config |= ask("CONFIG GET", name)
    local = by_path or endpoint.where.startswith(LOOPBACK)
    return Facts(
        where=endpoint.where,
        transport="tls" if endpoint.tls else "local" if local else "plain",
        embedded=endpoint.embedded,
        addresses=() if by_path else addresses_of(*endpoint.address),
        round_trip=statistics.median(seconds_of_a_ping() for _ in range(PINGS)),
        server=server,
        library=library,
        info=ask("INFO"),
        config=config,
        silent=silent,
    )


def greeting(reply: Any) -> tuple[str, bool]:
    """Return what HELLO calls the server, and whether it knows CLIENT SETINFO."""
    if not reply:
        return "", False
    # A list of names and values with RESP2.
    told = reply if hasattr(reply, "items") else dict(zip(reply[::2], reply[1::2], strict=True))
    # Behind the numbers there may be words: 7.2-rc1.
    version = tuple(map(int, re.findall(r"\d+", told["version"])[:2]))
    return told.get("server", ""), version >= LIBRARY_SINCE


def addresses_of(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of *host*, of IPv4 or IPv6, whichever has more; none if unknown.

    One machine often has one of each.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    families: dict[int, set[str]] = {}
    for family, _, _, _, address in found:
        families.setdefault(family, set()).add(str(address[0]))
    return max((tuple(sorted(each)) for each in families.values()), key=len)
