"""Ask one server for everything that `rules` looks at; nothing of it is changed.

A server need not answer: managed ones forbid CONFIG, a locked-down user may not run INFO. That is
a fact like another. Only a connection that fails ends the asking.
"""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from interlock._core.model.foreign_text import safe
from interlock._links.redis_client import redis_client
from interlock._links.replies import understood
from interlock.check.facts import Facts, is_sentinel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from interlock._links.endpoint import Endpoint

    T = TypeVar("T")

PINGS = 5
SETTINGS = (
    *("appendfsync", "min-replicas-to-write", "save", "stop-writes-on-bgsave-error", "timeout"),
)
"""What is not in INFO."""
LIBRARY_SINCE = (7, 2)
"""The first version of Redis that knows CLIENT SETINFO; those of Valkey are higher."""
LONG_IDLE = 7 * 86400
"""Seconds without a touch after which a semaphore or a latch may be a leftover."""
OURS = ("redisson_", "interlock_")
"""How keys begin that are no names."""
SCANS = 20
"""Steps of SCAN that look for such ones, of 500 keys each."""
MOST_UNTOUCHED = 10
"""Names of such ones that are told."""
LOOPBACK = ("localhost", "127.", "::1")


def collect(endpoint: Endpoint, pattern: str, timeout: float) -> Facts:
    """Return what the server at *endpoint* is like.

    Args:
        endpoint: the server.
        pattern: of the names that the application uses, as the server sees them.
        timeout: seconds for connecting and for each answer.

    Raises:
        ServerUnavailableError: it cannot be reached, the connection failed meanwhile, or an answer
            makes no sense.

    Cost:
        About 20 round trips on two connections, and the steps of SCAN.
    """
    # This one is made for its errors, which say what to do.
    endpoint.connect(timeout).disconnect()
    client = redis_client(endpoint, timeout)
    with understood(endpoint.where):
        try:
            return _facts(client, endpoint, pattern, timeout)
        except (redis.RedisError, OSError) as error:
            raise endpoint.unconnected(error) from error
        finally:
            client.close()


# redis-py's commands are typed as if they might be awaitable.
def _facts(client: Any, endpoint: Endpoint, pattern: str, timeout: float) -> Facts:
    silent: dict[str, str] = {}

    def ask(command: str, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except redis.ResponseError as error:
            silent[command] = str(error)
            return None

    options = endpoint.pool_options(timeout)
    # Every user may send HELLO.
    server, library = ask("HELLO", lambda: greeting(client.execute_command("HELLO"))) or ("", False)
    info: dict[str, object] | None = ask("INFO", client.info)
    data = not is_sentinel(info)
    return Facts(
        where=endpoint.where,
        transport="tls" if endpoint.tls else "unix" if "path" in options else "tcp",
        local="path" in options or endpoint.where.startswith(LOOPBACK),
        round_trip=_round_trip(partial(ask, "PING", client.ping)),
        info=info,
        config=(ask("CONFIG", partial(_config, client)) or {}) if data else {},
        clock_offset=ask("TIME", partial(_clock_offset, client)),
        silent=silent,
        library=library,
        server=server,
        versions=(ask("CLIENT LIST", partial(_versions, client)) or {}) if data and library else {},
        untouched=(ask("SCAN", partial(_untouched, client, pattern)) or ()) if data else (),
        addresses=() if "path" in options else addresses_of(*endpoint.address),
    )


def greeting(reply: Any) -> tuple[str, bool]:
    """Return what HELLO calls the server, and whether it knows CLIENT SETINFO."""
    if not hasattr(reply, "items"):  # RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    told = {_text(name): _text(value) for name, value in reply.items()}
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


def _text(value: object) -> str:
    return safe(value.decode(errors="replace") if isinstance(value, bytes) else str(value))


def _round_trip(ping: Callable[[], object]) -> float:
    samples: list[float] = []
    for _ in range(PINGS):
        began = time.perf_counter()
        ping()  # a refusal takes as long
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


def _clock_offset(client: Any) -> float:
    began = time.time()
    seconds, microseconds = client.time()
    return float(seconds + microseconds / 1e6 - (began + time.time()) / 2)


def _config(client: Any) -> dict[str, str]:
    # One by one: Redis 6.2 takes but one.
    return {name: value for each in SETTINGS for name, value in client.config_get(each).items()}


def _versions(client: Any) -> dict[str, int]:
    rows = [row for row in client.client_list() if row.get("lib-name") == "interlock"]
    return dict(Counter(row.get("lib-ver", "") for row in rows))


def _untouched(client: Any, pattern: str) -> tuple[str, ...]:
    """Return names of numbers without an expiry that nobody touched for `LONG_IDLE`."""
    found: list[str] = []
    cursor = 0
    for _ in range(SCANS):
        cursor, keys = client.scan(cursor, pattern, count=500, _type="string")
        names = [key for key in map(_text, keys) if not key.startswith(OURS)]
        asked = client.pipeline(transaction=False)
        for key in names:  # none of these touches the key
            asked.object("idletime", key)
            asked.object("encoding", key)
            asked.pttl(key)
        replies: list[Any] = asked.execute(raise_on_error=False) if names else []
        for key, idle, encoding, left in zip(
            names, replies[::3], replies[1::3], replies[2::3], strict=True
        ):
            number = encoding == "int" and left == -1
            if number and isinstance(idle, int) and idle >= LONG_IDLE:
                found.append(key)
        if cursor == 0 or len(found) >= MOST_UNTOUCHED:
            break
    return tuple(found[:MOST_UNTOUCHED])
