"""Find the keys that may be locks: SCAN goes through them in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection.kinds import around, channel_of, name_in, seen
from interlock.inspection.locks import numbers
from interlock.inspection.pattern import glob
from interlock.inspection.service import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.kinds import Sight
    from interlock.inspection.service import Service

OURS = ("redisson_", "interlock_")
"""How keys begin that are no names of locks."""
READ_ENTRY = ":rwlock_timeout:"
"""What is within the keys of readers' entries."""


def scans(
    service: Service, node: Endpoint, pattern: str, kinds: frozenset[str], step: int
) -> Iterator[tuple[list[str], Sight | None]]:
    """Yield keys that may be of *kinds*; with the kind that has them beside the keys of names."""
    matches = glob(pattern)
    wanted = [sight for kind, sight in seen().items() if not kinds or kind in kinds]
    if any(sight.type == "hash" and not sight.apart for sight in wanted):
        for keys in scan(service, node, "hash", pattern, step):
            yield [key for key in keys if not key.startswith(OURS)], None
    # Nobody holds a fair lock while its first waiter takes its time: then there is no hash.
    for queue in [sight.queue for sight in wanted if sight.queue is not None]:
        for keys in scan(service, node, "list", "*".join(around(queue)), step):
            yield [name for key in keys if matches(name := name_in(key, queue))], None
    for sight in [sight for sight in wanted if sight.apart]:
        for keys in scan(service, node, sight.type, "*".join(around(sight.key)), step):
            yield [key for key in keys if matches(sight.name_of(key))], sight
    if not kinds:
        yield _waited_numbers(service, node, pattern), None
    elif not kinds.isdisjoint(numbers()):
        for keys in scan(service, node, "string", pattern, step):
            own = [key for key in keys if READ_ENTRY not in key and not key.startswith(OURS)]
            yield own, None


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
            yield [key.decode() for key in dict.fromkeys(keys) if _is_text(key)]
        cursor = told.decode()
        if cursor == "0":
            return


def _is_text(key: bytes) -> bool:
    """Return whether *key* can be the name of a lock, which is UTF-8."""
    try:
        return bool(key.decode())
    except UnicodeDecodeError:
        return False


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
