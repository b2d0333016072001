"""Ask the servers how many clients listen for the releases of locks, and which want permits.

Theory. Cards tell which threads and tasks wait, after a second. For permits, the server also has a
queue of the clients that wait, with the time when each came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from interlock._core.kinds import channel_of, queues_permits, sight_of
from interlock._core.model import names
from interlock._links.resp import ReplyError
from interlock.inspection.info import ClientInfo, WaiterInfo
from interlock.inspection.lock_reply import heard_kinds, key_of
from interlock.inspection.service import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import LockInfo
    from interlock.inspection.service import Service

LONGEST_MEMBER = 100
"""Characters of a member of a queue for permits: a client's id, and how many it wants."""


def listeners_of(
    service: Service, node: Endpoint, page: Sequence[LockInfo]
) -> tuple[dict[str, int], dict[str, str]] | None:
    """Return how many clients listen for each key of *page*, and what that tells of its kind.

    None if the server does not tell.
    """
    channels: dict[str, str] = {}
    twins: dict[str, str] = {}
    for info in page:
        sight = sight_of(info.kind)
        if sight.queue is None:
            channels[channel_of(info.kind, info.name)] = key_of(info)
        for kind in heard_kinds(sight):
            channel = channel_of(kind, info.name)
            channels[channel], twins[channel] = info.name, kind
    if not channels or service.options.pubsub == "off":
        return {}, {}
    heard = count_listeners(service, node, channels)
    if heard is None:
        return None
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for channel, count in heard.items():
        key = channels.get(channel, "")
        counts[key] = counts.get(key, 0) + count
        if count and channel in twins:
            found[key] = twins[channel]
    return counts, found


def count_listeners(
    service: Service, node: Endpoint, channels: Iterable[str]
) -> dict[str, int] | None:
    """Return how many clients listen to each of *channels*; None if the server does not tell."""
    asking = "SHARDNUMSUB" if service.sharded else "NUMSUB"
    # Plain channels of a cluster are counted by each node for its own clients.
    asked = [node] if service.sharded or len(service.nodes) == 1 else service.nodes
    counts: dict[str, int] = {}
    for each in asked:
        [reply] = service.ask(each, [("PUBSUB", asking, *channels)])
        if isinstance(reply, ReplyError):
            return None
        flat = cast("list[Any]", reply)
        for channel, count in zip(map(text_of, flat[::2]), map(int, flat[1::2]), strict=True):
            counts[channel] = counts.get(channel, 0) + count
    return counts


def permit_waiters(
    service: Service, node: Endpoint, awaited: Iterable[LockInfo], limit: int
) -> dict[str, tuple[WaiterInfo, ...]]:
    """Return by key the clients in the queues for the permits of *awaited*, at most *limit*.

    The first one that came is the first. Java has no place there, nor has a client without the
    right to the queue. A client that wants one permit, and also two, comes twice.

    Cost:
        Two round trips if *awaited* has a semaphore.
    """
    asked = {
        key_of(info): channel_of(info.kind, info.name)
        for info in awaited
        if queues_permits(info.kind)
    }
    if not asked:
        return {}
    commands = [
        ("ZRANGE", names.waiting_queue(each), 0, limit - 1, "WITHSCORES") for each in asked.values()
    ]
    time, *replies = service.ask(node, [("TIME",), *commands])
    # The user may lack the right, and another program may have put anything there.
    if isinstance(time, ReplyError):
        return {}
    seconds, micros = map(int, cast("list[bytes]", time))
    found: dict[str, list[tuple[str, WaiterInfo]]] = {}
    for (key, channel), reply in zip(asked.items(), replies, strict=True):
        flat = [] if isinstance(reply, ReplyError) else cast("list[bytes]", reply)
        for member, came in zip(map(text_of, flat[::2]), map(float, flat[1::2]), strict=True):
            client_id = member.partition(":")[0]
            # A claim begins with "+". Its client has a place, or has been given its permits.
            if came > 0 and len(member) <= LONGEST_MEMBER:
                waited = max(seconds + micros / 1e6 - came / 1000, 0.0)
                waiter = WaiterInfo(member, ClientInfo(client_id), waited)
                found.setdefault(key, []).append((names.wake_channel(channel, client_id), waiter))
    # One that has died stands in the queue until its turn comes.
    channels = dict.fromkeys(wake for each in found.values() for wake, _ in each)
    heard = (count_listeners(service, node, channels) if channels else None) or {}
    return {
        key: tuple([waiter for wake, waiter in each if heard.get(wake)])
        for key, each in found.items()
    }
