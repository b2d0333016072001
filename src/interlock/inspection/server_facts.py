"""Read what explains missing keys: restarts, flushes and evictions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from interlock._links.resp import ReplyError

if TYPE_CHECKING:
    from interlock.inspection.service import Service

_FLUSHES = re.compile(rb"cmdstat_flush(?:db|all):calls=(\d+)")
_EVICTED = re.compile(rb"evicted_keys:(\d+)")
_UPTIME = re.compile(rb"uptime_in_seconds:(\d+)")
_RUN = re.compile(rb"run_id:(\w+)")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What all primaries of a service tell.

    Attributes:
        runs: an id of each run of a server; empty where the server does not tell.
        flushes: how often all data was deleted.
        evicted: how many keys were evicted.
        uptime: seconds since the last start of a server; None where the server does not tell.
    """

    runs: frozenset[str] = frozenset()
    flushes: int = 0
    evicted: int = 0
    uptime: int | None = None


def read_facts(service: Service) -> ServerFacts:
    """Return the facts.

    Cost:
        A round trip for each primary.
    """
    runs, flushes, evicted, uptimes = set[str](), 0, 0, list[int]()
    sections = [("INFO", section) for section in ("server", "stats", "commandstats")]
    for node in service.nodes:
        for reply in service.ask(node, sections):
            text = b"" if isinstance(reply, ReplyError) else cast("bytes", reply)
            runs.update(found.decode() for found in _RUN.findall(text))
            uptimes += map(int, _UPTIME.findall(text))
            flushes += sum(map(int, _FLUSHES.findall(text)))
            evicted += sum(map(int, _EVICTED.findall(text)))
    return ServerFacts(frozenset(runs), flushes, evicted, min(uptimes, default=None))


def story_of(before: ServerFacts, after: ServerFacts) -> str:
    """Return why keys may be missing since the reading before; an empty text for no reason."""
    if before.runs and after.runs and not after.runs <= before.runs:
        return "a server was restarted or replaced"
    if after.flushes > before.flushes:
        return "all data was deleted (FLUSHDB or FLUSHALL)"
    if after.evicted > before.evicted:
        return f"the server was full and evicted {after.evicted - before.evicted} keys"
    return ""
