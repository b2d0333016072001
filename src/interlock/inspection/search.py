"""Find the keys that may be locks: SCAN goes through them in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock._core.kinds import around, channel_of, name_in, seen
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection.lock_reply import OURS, READ_ENTRY, is_text, numbers
from interlock.inspection.pattern import glob
from interlock.inspection.service import code_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from interlock._core.kinds import Sight
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.service import Service


def scans(
    service: Service, node: Endpoint, pattern: str, kinds: frozenset[str], step: int
) -> Iterator[tuple[list[str], Sight | None]]:
    """Yield keys that may be of *kinds*; with the kind that has them beside the keys of names."""
    matches = glob(pattern)
    wanted = {kind: sight for kind, sight in seen().items() if not kinds or kind in kinds}
    for keys in _locks(service, node, pattern, wanted.values(), step):
        yield keys, None
    for sight in wanted.values():
        if sight.apart:
            for keys in scan(service, node, sight.type, "*".join(around(sight.key)), step):
                yield [key for key in keys if matches(sight.name_of(key))], sight
    if kinds and not kinds.isdisjoint(numbers()):
        for keys in scan(service, node, "string", pattern, step):
            own = [key for key in keys if READ_ENTRY not in key and not key.startswith(OURS)]
            yield own, None
    elif not kinds:
        yield _waited_numbers(service, node, pattern), None


def _locks(
    service: Service, node: Endpoint, pattern: str, wanted: Collection[Sight], step: int
) -> Iterator[list[str]]:
    """Yield keys that may be *wanted* locks, held or awaited."""
    matches = glob(pattern)
    if any(sight.type == "hash" and not sight.apart for sight in wanted):
        for keys in scan(service, node, "hash", pattern, step):
            yield [key for key in keys if not key.startswith(OURS)]
    for sight in wanted:
        if sight.queue is not None:
            # Nobody holds the lock while its first waiter takes its time: then there is no hash.
            for keys in scan(service, node, "list", "*".join(around(sight.queue)), step):
                waited = [name_in(key, sight.queue) for key in keys]
                yield [name for name in waited if matches(name)]


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
    begins = [channel_of(kind, "{}").rstrip("{}:") for kind in numbers()]
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
