"""Ask the servers how many clients listen for the releases of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from interlock._core.kinds import channel_of, sight_of
from interlock._links.resp import ReplyError
from interlock.inspection.lock_reply import heard_kinds, key_of
from interlock.inspection.service import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import LockInfo
    from interlock.inspection.service import Service


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
    asking = "SHARDNUMSUB" if service.sharded else "NUMSUB"
    # Plain channels of a cluster are counted by each node for its own clients.
    asked = [node] if service.sharded or len(service.nodes) == 1 else service.nodes
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for each in asked:
        [reply] = service.ask(each, [("PUBSUB", asking, *channels)])
        if isinstance(reply, ReplyError):
            return None
        flat = cast("list[Any]", reply)
        for channel, count in zip(map(text_of, flat[::2]), map(int, flat[1::2]), strict=True):
            key = channels.get(channel, "")
            counts[key] = counts.get(key, 0) + count
            if count and channel in twins:
                found[key] = twins[channel]
    return counts, found
