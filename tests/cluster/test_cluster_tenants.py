"""A tenant in a cluster: its rights cover all keys, channels and cards on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.operations.on_call import find_a_deadlock, operate
from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon
from tests.support.tenant import LOGIN, PREFIX, admit, do_everything, refusals

from interlock import connect

if TYPE_CHECKING:
    import pytest
    from tests.support.cluster import ClusterServers

    from interlock import Client


def test_a_tenant_can_do_everything(
    cluster: ClusterServers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each object does all that it can, and the commands find and break: nothing is refused."""
    admit(cluster.nodes)
    url = cluster.url(*LOGIN)
    do_everything(url)
    operate(f"{url}?prefix={PREFIX}", capsys)
    find_a_deadlock(f"{url}?prefix={PREFIX}")
    assert refusals(cluster.nodes) == []


def test_who_has_no_prefix_reads_no_cards_of_tenants(cluster: ClusterServers) -> None:
    """To an operator of the whole cluster the holders of a tenant are those without a card."""
    with (
        renews_soon(connect(cluster.url(), prefix=PREFIX)) as tenant,
        renews_soon(connect(cluster.url())) as other,
    ):
        held(tenant.lock("x"))
        held(other.lock("y"))

        def told(client: Client) -> dict[str, bool]:
            """Return the names, and of which a card tells the process."""
            infos = list(client.locks())
            assert not any(each.client.doubt for info in infos for each in info.holders)
            return {info.name: info.holders[0].client.pid is not None for info in infos}

        wait_until(lambda: told(tenant) == {"x": True}, GIVE_UP, "its card is written")
        wait_until(lambda: told(other) == {"acme:x": False, "y": True}, GIVE_UP, "so is theirs")
