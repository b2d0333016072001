"""Stacks on request, behind Sentinel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import connect
from interlock._links.urls import open_url
from interlock.inspection.reader import Reader
from interlock.options import Options

if TYPE_CHECKING:
    from tests.support.servers import SentinelServers


def test_a_holder_behind_sentinel_tells_its_stack(bed: SentinelServers) -> None:
    """An operator who finds the primary by Sentinel gets the stack of a holder."""
    url = bed.url()
    with renews_soon(connect(url)) as client, connect(url) as other:
        with other.lock("busy"):
            assert not client.lock("busy").acquire(timeout=2)
        with client.lock("orders"), Reader(open_url(url), Options()) as reader:

            def told() -> bool:
                info = reader.describe("orders")
                assert info is not None
                [stack] = reader.stacks(info)
                return any("test_sentinel_stacks.py" in call for call in stack.calls)

            wait_until(told, GIVE_UP, "it answers")
