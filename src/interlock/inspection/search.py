"""Find the keys that may be locks: SCAN goes through them in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock._core.model import names
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection.lock_reply import (
    ELECTION,
    KINDS,
    LEASES,
    NUMBERS,
    OURS,
    QUEUE,
    READ_ENTRY,
    election_of,
    is_text,
    queued_of,
    semaphore_of,
)
from interlock.inspection.pattern import glob
from interlock.inspection.service import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.service import Service


def scans(
    service: Service, node: Endpoint, pattern: str, kinds: frozenset[str], step: int
) -> Iterator[tuple[list[str], bool]]:
    """Yield keys that may be of *kinds*, and whether they are those of permits' leases."""
    matches = glob(pattern)
    for keys in _locks(service, node, pattern, kinds, step):
        yield keys, False
    if not kinds or "election" in kinds:
        for keys in scan(service, node, "hash", f"{ELECTION}*", step):
            yield [key for key in keys if matches(election_of(key))], False
    if not kinds or "leased_semaphore" in kinds:
        for keys in scan(service, node, "zset", f"*{LEASES}", step):
            yield [key for key in keys if matches(semaphore_of(key))], True
    if kinds & NUMBERS:
        for keys in scan(service, node, "string", pattern, step):
            own = [key for key in keys if READ_ENTRY not in key and not key.startswith(OURS)]
            yield own, False
    elif not kinds:
        yield _waited_numbers(service, node, pattern), False


def _locks(
    service: Service, node: Endpoint, pattern: str, kinds: frozenset[str], step: int
) -> Iterator[list[str]]:
    """Yield keys that may be locks, held or awaited."""
    matches = glob(pattern)
    if not kinds or kinds & set(KINDS[:5]):
        for keys in scan(service, node, "hash", pattern, step):
            yield [key for key in keys if not key.startswith(OURS)]
    if not kinds or "fair_lock" in kinds:
        # Nobody holds the lock while its first waiter takes its time: then there is no hash.
        for keys in scan(service, node, "list", f"{QUEUE}*", step):
            yield [name for name in map(queued_of, keys) if matches(name)]


def scan(
    service: Service, node: Endpoint, kind: str, pattern: str, step: int
) -> Iterator[list[str]]:
    """Yield the keys of type *kind* that match *pattern*, some at a time."""
    cursor = "0"
    while True:
        command = ("SCAN", cursor, "MATCH", pattern, "COUNT", step, "TYPE", kind)
        [reply] = service.ask(node, [command])
        if isinstance(reply, ReplyError):
            raise ServerUnavailableError(f"{node.where} refused SCAN: {reply}", code=code_of(reply))
        told, keys = cast("tuple[bytes, list[bytes]]", reply)
        if keys:
            yield [key.decode() for key in dict.fromkeys(keys) if is_text(key)]
        cursor = told.decode()
        if cursor == "0":
            return


def _waited_numbers(service: Service, node: Endpoint, pattern: str) -> list[str]:
    """Return the semaphores and latches that a client listens for."""
    asking = "SHARDCHANNELS" if service.sharded else "CHANNELS"
    first, second = names.semaphore_channel(""), names.latch_channel("")
    begins = [begin.removesuffix("{}").rstrip(":") for begin in (first, second)]
    commands = [("PUBSUB", asking, f"{begin}*") for begin in begins]
    matches, found = glob(pattern), dict[str, None]()
    for begin, reply in zip(begins, service.ask(node, commands), strict=True):
        for channel in () if isinstance(reply, ReplyError) else cast("list[bytes]", reply):
            name = channel.decode(errors="replace").removeprefix(begin).removeprefix(":")
            inner = name[1:-1] if name.startswith("{") and name.endswith("}") else name
            if matches(inner):
                found[inner] = None
    if isinstance(service.servers, Cluster):
        return [key for key in found if service.servers.owner(key) is node]
    return list(found)
