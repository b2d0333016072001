"""Renewals in C (`renew_in="process"`) when another server takes the place of the primary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.drivers.test_native_renewal import HOLDER, last_renewal
from tests.lock.children import Child
from tests.support.servers import (
    ClusterServers,
    RedisServer,
    SentinelServers,
    main_binary,
    reach_replicas,
    wait_until,
)

import interlock
from interlock._drivers.background import native_renewal
from interlock._links.slots import slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.needs("gcc")

NAME = "name"
SLOT = slot_of(NAME)
LEASE = 20
"""Seconds; a failover on a busy machine takes less."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterServers]:
    """Give a cluster with replicas whose primaries are changed."""
    with ClusterServers(replicas=True, binary=main_binary()) as servers:
        yield servers


def follows(url: str, take_over: Callable[[], RedisServer], patch: pytest.MonkeyPatch) -> bool:
    """Return whether the thread in C renews a lock on the server that *take_over* promotes."""
    with interlock.connect(url, renew_in="process", lease=LEASE) as client:
        session, lock = client._driver.session, client.lock(NAME)
        backup = session.backup
        assert isinstance(backup, native_renewal.NativeRenewal)
        with lock as hold:
            new = take_over()

            def is_there() -> bool:
                kept = next(iter(backup._kept.values()), (None,))[0]
                ports = [
                    server.address[1] for server, line in backup._lines.items() if line is kept
                ]
                return ports == [new.port]

            wait_until(is_there, 60, "the hold is renewed on the new primary")
            patch.setattr(session.watchdog, "due", lambda *_: [])  # as if it had no turn
            before = last_renewal(backup)
            wait_until(lambda: last_renewal(backup) > before, 60, "a renewal in C")
            return hold.valid and bool(new.execute("EXISTS", NAME))


def test_a_failover_in_a_cluster_is_followed(
    cluster: ClusterServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first renewal of Python on, the thread in C asks the new primary."""
    assert follows(cluster.url(), lambda: cluster.promote(SLOT, timeout=30), monkeypatch)


def test_a_failover_under_sentinel_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The primary is killed, and the thread in C renews on the one that Sentinel promotes."""
    with SentinelServers(down_after=2.0) as bed:

        def take_over() -> RedisServer:
            old = bed.present_primary()
            with old.client() as seen:
                reach_replicas(seen, 2)
            old.kill()
            return bed.wait_for_promotion(old)

        assert follows(bed.url(), take_over, monkeypatch)


def test_a_failover_while_python_stands_still(cluster: ClusterServers) -> None:
    """The thread in C follows no failover. The hold ends with its lease, and its owner is told."""
    program = (
        HOLDER.replace("LEASE = 8.0", "LEASE = 3.0")
        + """
try:
    with client.lock("name") as hold:
        say("in")
        stay()
        say(hold.valid)
except interlock.HoldLostError:
    say("lost")
"""
    )
    with (
        Child(program, cluster.url()) as child,
        interlock.connect(cluster.url()) as other,
    ):
        assert child.hear() == "in"
        cluster.promote(SLOT, timeout=30)
        with other.lock(NAME, timeout=60):
            child.tell()
            assert child.hear() == "False"
            assert child.hear() == "lost"
