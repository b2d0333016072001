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
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from interlock._core.insight.card import CARD, INDEX
from interlock._core.model.foreign_text import safe
from interlock._links.redis_client import redis_client
from interlock._links.replies import understood
from interlock.check.acl_probe import try_rights
from interlock.check.facts import Facts, is_sentinel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from interlock._links.endpoint import Endpoint
    from interlock.check.requirements import Requirements

    T = TypeVar("T")

PINGS = 5
SETTINGS = (
    "appendfsync",
    "min-replicas-to-write",
    "save",
    "stop-writes-on-bgsave-error",
    "timeout",
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
MOST_CARDS = 1000
"""Cards that are read for the versions of clients."""
_VERSION = re.compile(r'"version": ?"([^"]{1,40})"')
MOST_UNTOUCHED = 10
"""Names of such ones that are told."""
LOOPBACK = ("localhost", "127.", "::1")


def collect(
    endpoint: Endpoint, name: str | None, requirements: Requirements, timeout: float
) -> Facts:
    """Return what the server at *endpoint* is like.

    Args:
        endpoint: the server.
        name: of an object that it would keep and that nobody uses, to try the rights under; None
            if there is none.
        requirements: what the user must be permitted.
        timeout: seconds for connecting and for each answer.

    Raises:
        ServerUnavailableError: it cannot be reached, the connection failed meanwhile, or an answer
            makes no sense.

    Cost:
        About 30 round trips on up to three connections.
    """
    # This one is made for its errors, which say what to do.
    endpoint.connect(timeout).disconnect()
    client = redis_client(endpoint, timeout)
    with understood(endpoint.where):
        try:
            return _Inquiry(client).facts(endpoint, name, requirements, timeout)
        except (redis.RedisError, OSError) as error:
            raise endpoint.unconnected(error) from error
        finally:
            client.close()


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


class _Inquiry:
    """Asks, and keeps what was not answered."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py's commands are typed as if they might be awaitable.
        self._client: Any = client
        self._silent: dict[str, str] = {}
        self._server = ""

    def facts(
        self, endpoint: Endpoint, name: str | None, requirements: Requirements, timeout: float
    ) -> Facts:
        round_trip = self._round_trip()
        info: dict[str, object] | None = self._ask("INFO", self._client.info)
        sentinel = is_sentinel(info)
        rights, heard = None, None
        library = bool(self._ask("HELLO", self._knows_library))
        requirements = replace(requirements, library=library)
        if not sentinel and name is not None:
            rights, heard = try_rights(self._client, name, requirements, timeout)
        options = endpoint.pool_options(timeout)
        return Facts(
            where=endpoint.where,
            transport="tls" if endpoint.tls else "unix" if "path" in options else "tcp",
            local="path" in options or endpoint.where.startswith(LOOPBACK),
            user=self._ask("ACL WHOAMI", self._client.acl_whoami)
            or options.get("username")
            or "default",
            round_trip=round_trip,
            info=info,
            config={} if sentinel else self._config(),
            clock_offset=self._ask("TIME", self._clock_offset),
            rights=rights,
            heard=heard,
            silent=self._silent,
            library=library,
            server=self._server,
            versions={} if sentinel else self._versions(tells=library),
            untouched=(
                ()
                if sentinel or name is None
                else self._ask("SCAN", partial(self._untouched, requirements.name_pattern)) or ()
            ),
            addresses=() if "path" in options else addresses_of(*endpoint.address),
        )

    def _versions(self, *, tells: bool) -> dict[str, int]:
        """Return the connections by version of interlock; if none *tells* it, clients with cards.

        Before Redis 7.2, no connection can tell its version.
        """
        if tells:
            return self._ask("CLIENT LIST", self._versions_of_connections) or {}
        return self._ask("ZRANGE", self._versions_of_cards) or {}

    def _versions_of_cards(self) -> dict[str, int]:
        clients: list[Any] = self._client.zrange(INDEX, 0, MOST_CARDS - 1)
        asked = self._client.pipeline(transaction=False)
        for client in clients:
            asked.hget(CARD.format(_text(client)), "client")
        told: list[Any] = asked.execute(raise_on_error=False) if clients else []
        lines = [_text(each) for each in told if isinstance(each, str | bytes)]
        found = [_VERSION.search(line) for line in lines]
        return dict(Counter(safe(each[1]) for each in found if each is not None))

    def _versions_of_connections(self) -> dict[str, int]:
        rows: list[dict[str, str]] = self._client.client_list()
        told = [row.get("lib-ver", "") for row in rows if row.get("lib-name") == "interlock"]
        return dict(Counter(told))

    def _untouched(self, pattern: str) -> tuple[str, ...]:
        """Return names of numbers without an expiry that nobody touched for `LONG_IDLE`."""
        found: list[str] = []
        cursor: int = 0
        for _ in range(SCANS):
            told: Any = self._client.scan(cursor, pattern, count=500, _type="string")
            cursor, keys = told
            names = [key for key in map(_text, keys) if not key.startswith(OURS)]
            asked = self._client.pipeline(transaction=False)
            for key in names:
                asked.object("idletime", key)
                asked.strlen(key)
                asked.pttl(key)
            replies: list[Any] = asked.execute(raise_on_error=False) if names else []
            rows = zip(names, replies[::3], replies[1::3], replies[2::3], strict=True)
            for key, idle, size, left in rows:
                known = isinstance(idle, int) and isinstance(size, int) and left == -1
                if known and idle >= LONG_IDLE and size <= len("-9223372036854775808"):
                    value = _text(self._client.get(key) or b"")
                    if value.removeprefix("-").isdecimal():
                        found.append(key)
            if cursor == 0 or len(found) >= MOST_UNTOUCHED:
                break
        return tuple(found[:MOST_UNTOUCHED])

    def _ask(self, command: str, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except redis.ResponseError as error:
            self._silent[command] = str(error)
            return None

    def _knows_library(self) -> bool:
        """Return whether the server knows CLIENT SETINFO. Every user may send HELLO."""
        reply: Any = self._client.execute_command("HELLO")
        told: Any = reply
        if not hasattr(reply, "items"):  # RESP2
            told = dict(zip(reply[::2], reply[1::2], strict=True))
        version = _text(told.get("version") or told[b"version"])
        self._server = _text(told.get("server") or told.get(b"server") or "")
        # Behind the numbers there may be words: 7.2-rc1.
        return tuple(map(int, re.findall(r"\d+", version)[:2])) >= LIBRARY_SINCE

    def _round_trip(self) -> float:
        samples: list[float] = []
        for _ in range(PINGS):
            began = time.perf_counter()
            self._ask("PING", self._client.ping)  # a refusal takes as long
            samples.append(time.perf_counter() - began)
        return statistics.median(samples)

    def _config(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in SETTINGS:
            answer: dict[str, str] | None = self._ask(
                "CONFIG", partial(self._client.config_get, name)
            )
            if answer is None:
                break
            found.update(answer)
        return found

    def _clock_offset(self) -> float:
        began = time.time()
        seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6 - (began + time.time()) / 2)
