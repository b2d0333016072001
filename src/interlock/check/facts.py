"""What one server is like, before anybody has judged it."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Mapping  # noqa: TC003 - dataclass fields are read at run time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from interlock._links.connection import Connection
from interlock._links.replies import error_code, refusal, understood
from interlock._links.resp import ReplyError, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._links.endpoint import Endpoint

PINGS = 5
FOR_ALL = {"NOAUTH", "LOADING"}
"""Errors that a server answers to whatever it is asked."""
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
        info: INFO; empty if the server refused it.
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


def collect(endpoint: Endpoint, timeout: float, messages: Sequence[tuple[str, ...]] = ()) -> Facts:
    """Ask the server at *endpoint* for all that is judged, in about 14 round trips.

    *messages* are commands that send and hear them on a channel that nobody uses.

    A server need not answer: managed ones forbid CONFIG, a locked-down user may not run INFO.

    Raises:
        ServerUnavailableError: it cannot be reached, the connection failed meanwhile, or an answer
            makes no sense.
    """
    with (
        understood(endpoint.where),
        closing(Connection(endpoint, timeout)) as connection,
    ):
        return _facts(connection, endpoint, timeout, messages)


def _facts(
    connection: Connection, endpoint: Endpoint, timeout: float, messages: Sequence[tuple[str, ...]]
) -> Facts:
    silent: dict[str, str] = {}

    def ask(command: str, *arguments: str) -> list[str] | str:
        packed = pack((*command.split(), *arguments))
        [reply] = connection.exchange([packed], timeout)
        if isinstance(reply, ReplyError):
            if error_code(str(reply)) in FOR_ALL:
                raise refusal(str(reply), None, endpoint.where)
            silent[command] = str(reply)
            return ""
        if isinstance(reply, list):
            return [_text(each) for each in cast("list[object]", reply)]
        return _text(reply)

    def seconds_of_a_ping() -> float:
        began = time.perf_counter()
        ask("PING")  # a refusal takes as long
        return time.perf_counter() - began

    greeting = ask("HELLO")
    told = dict(zip(greeting[::2], greeting[1::2], strict=True))
    # Behind the numbers there may be words: 7.2-rc1.
    version = tuple(map(int, re.findall(r"\d+", told.get("version", ""))[:2]))
    config: dict[str, str] = {}
    for name in SETTINGS:  # one by one: Redis 6.2 takes but one
        setting = ask("CONFIG GET", name)
        config |= zip(setting[::2], setting[1::2], strict=True)
    round_trip = statistics.median(seconds_of_a_ping() for _ in range(PINGS))
    info = _read_info(str(ask("INFO")))
    for command in messages:  # last: who subscribes may do nothing else
        ask(*command)
    local = endpoint.by_path or endpoint.where.startswith(LOOPBACK)
    return Facts(
        where=endpoint.where,
        transport="tls" if endpoint.tls else "local" if local else "plain",
        embedded=endpoint.embedded,
        addresses=() if endpoint.by_path else addresses_of(*endpoint.address),
        round_trip=round_trip,
        server=told.get("server", ""),
        library=version >= LIBRARY_SINCE,
        info=info,
        config=config,
        silent=silent,
    )


def _text(reply: object) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)


def _read_info(text: str) -> dict[str, object]:
    """Return what INFO tells: numbers, words, and tables such as that of a replica."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: _read_value(value) for name, colon, value in lines if colon}


def _read_value(text: str) -> object:
    if "=" in text:
        parts = (part.partition("=") for part in text.split(","))
        return {name: _read_value(value) for name, _, value in parts}
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


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
