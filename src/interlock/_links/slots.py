"""Hash slots: the slot of a key, and the node that serves a slot. redis-py asks the cluster."""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from interlock._links.endpoint import Endpoint

    Address = tuple[str, int]
    Remap = Callable[[Address], Address]

SLOTS = 1 << 14


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    """Return the slot of *key* (or of a sharded channel).

    Source: the cluster specification of redis.io: CRC16 (XMODEM) of the hash tag, or of all.
    """
    whole = key.encode()
    begin = whole.find(b"{") + 1
    end = whole.find(b"}", begin) if begin else -1
    return crc_hqx(whole[begin:end] if end > begin else whole, 0) % SLOTS


def ask_who_serves(
    nodes: Iterable[Endpoint], timeout: float, remap: Remap | None
) -> tuple[Mapping[int, Address], list[Address]]:
    """Ask *nodes* one after another, in any order, until one tells which node serves which slot.

    Args:
        nodes: where to ask.
        timeout: seconds for each of them.
        remap: turns an address that a node tells into one that can be reached from here.

    Returns:
        The primary of each slot that has one, and all nodes there are.

    Raises:
        Exception: no node answered; it is the error of the last one.
    """
    # These take long to load.
    from redis.cluster import ClusterNode, NodesManager  # noqa: PLC0415
    from redis.exceptions import RedisClusterException  # noqa: PLC0415

    node_of, manager_of = cast("Any", ClusterNode), cast("Any", NodesManager)
    asked = list(nodes)
    try:
        manager = manager_of(
            [node_of(*node.address) for node in asked],
            from_url=True,
            address_remap=remap,
            **asked[0].pool_options(timeout),
        )
    except RedisClusterException as error:
        raise _root(error, RedisClusterException) from error
    try:
        primaries = {slot: served[0] for slot, served in manager.slots_cache.items()}
        all_nodes = manager.nodes_cache.values()
        return (
            {slot: (node.host, int(node.port)) for slot, node in primaries.items()},
            [(node.host, int(node.port)) for node in all_nodes],
        )
    finally:
        manager.close()


def _root(error: Exception, wrapper: type[Exception]) -> Exception:
    """Return the error of a node that redis-py has wrapped in errors of the class *wrapper*."""
    seen: list[BaseException] = []
    while isinstance(error, wrapper):
        seen.append(error)
        cause = error.__cause__ or error.__context__
        if not isinstance(cause, Exception) or cause in seen:
            return ConnectionError(str(error))
        error = cause
    return error
