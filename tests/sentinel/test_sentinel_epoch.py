"""The epoch of fencing tokens: it is that of the primary that connections lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._links.sentinel_origin import from_sentinel_url

if TYPE_CHECKING:
    from interlock._links.sentinel_endpoint import SentinelEndpoint


def told(servers: SentinelEndpoint, host: str, epoch: int) -> None:
    """Act as a Sentinel that names *host* as the primary of *epoch*."""
    state = {"flags": "master", "ip": host, "port": "1", "num-other-sentinels": "2"}
    state["config-epoch"] = str(epoch)
    asked = servers.sentinels._turns(1.0)
    next(asked)
    with pytest.raises(StopIteration):
        asked.send([word.encode() for pair in state.items() for word in pair])


def test_a_new_epoch_begins_when_the_former_primary_is_left() -> None:
    """While connections to the former primary are open, it draws no tokens of the next epoch."""
    servers = from_sentinel_url("redis+sentinel://sentinel/mymaster")
    told(servers, "first", 8)
    assert servers.epoch() == 0
    servers._arrived(("first", 1))
    assert servers.epoch() == 8
    told(servers, "second", 9)
    assert servers.epoch() == 8
    seen: list[int] = []
    servers.left = lambda: seen.append(servers.epoch())  # the connections have just been cut
    servers._arrived(("second", 1))
    assert (seen, servers.epoch()) == ([8], 9)
