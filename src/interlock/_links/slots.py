"""Hash slots: the slot of a key, and the node that serves a slot."""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from interlock._links.replies import understood
from interlock.errors import ServerUnavailableError

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
    nodes: Iterable[Endpoint], timeout: float, remap: Remap
) -> tuple[Mapping[int, Address], Iterable[Address]]:
    """Ask *nodes* one after another, in any order, until they have told about all slots.

    Args:
        nodes: where to ask.
        timeout: seconds for each of them.
        remap: turns an address that a node tells into one that can be reached from here.

    Returns:
        The primary of each slot that has one, and all nodes there are.

    Raises:
        ServerUnavailableError: no node answered; it is the error of the last one.
    """
    primaries: dict[int, Address] = {}
    found: dict[Address, None] = {}
    failure: ServerUnavailableError | None = None
    for node in nodes:
        try:
            connection = node.connect(timeout)
            ranges = node.ask(connection, "CLUSTER", "SLOTS")
            connection.disconnect()
            with understood(node.where):
                for first, last, *serving in ranges:
                    addresses = [remap(_address(each, node)) for each in serving]
                    primaries |= dict.fromkeys(range(first, last + 1), addresses[0])
                    found |= dict.fromkeys(addresses)
        except ServerUnavailableError as error:
            failure = error
        if len(primaries) == SLOTS:
            break
    if failure is not None and not found:
        raise failure
    return primaries, found


def _address(told: Any, asked: Endpoint) -> Address:
    """Return the address of a node, as the node that was *asked* has *told* it.

    A server that does not know the host leaves it out, or writes a question mark where it should
    have a name. Then it is the address in the node's further data (since Redis 7), or else the host
    that was asked.

    Source: https://redis.io/docs/latest/commands/cluster-slots/
    """
    more: list[list[Any]]
    host, port, _, *more = told
    if host == b"?":
        data = more[0] if more else []
        host = dict(zip(data[::2], data[1::2], strict=True)).get(b"ip")
    return host.decode() if host else asked.address[0], int(port)
