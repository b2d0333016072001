"""What was learnt of one server, before anybody has judged it."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclass fields are read at run time
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One server as it was found.

    A fact that could not be found out is None or missing, and `silent` says why.

    Attributes:
        where: its address.
        transport: how it was reached.
        local: whether that is on this machine.
        round_trip: seconds of a PING, the median of some.
        info: INFO, as redis-py reads it.
        config: those settings that were told.
        clock_offset: seconds by which the server's clock is ahead of this machine's.
        silent: why the server did not answer, by the command it was asked.
        library: whether it knows CLIENT SETINFO.
        server: what HELLO calls the server.
        versions: connections by the version of interlock that CLIENT LIST shows.
        untouched: names of numbers, which semaphores and latches are, that are idle for days.
        addresses: those that the host's name leads to, of the family that has most of them.
    """

    where: str = ""
    transport: Literal["tcp", "tls", "unix"] = "tcp"
    local: bool = True
    round_trip: float = 0.0
    info: Mapping[str, object] | None = None
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    clock_offset: float | None = None
    silent: Mapping[str, str] = field(default_factory=dict[str, str])
    library: bool = False
    server: str = ""
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    untouched: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    def number(self, name: str) -> int:
        """Return a number of INFO; 0 when there is none."""
        value = (self.info or {}).get(name, 0)
        return value if isinstance(value, int) else 0

    def word(self, name: str) -> str:
        """Return a word of INFO; empty when there is none."""
        value = (self.info or {}).get(name)
        return "" if value is None else str(value)

    def setting(self, name: str) -> int | None:
        """Return a number of the configuration; None when it was not told."""
        value = self.config.get(name, "")
        return int(value) if value.isdigit() else None


def is_sentinel(info: Mapping[str, object] | None) -> bool:
    """Return whether INFO is that of a Sentinel. Valkey 9.1 has another word for it than Redis."""
    return info is not None and "sentinel" in (info.get("redis_mode"), info.get("server_mode"))
