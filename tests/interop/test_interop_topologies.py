"""Java and Python at a cluster with sharded channels, and at a primary that Sentinels watch."""

from __future__ import annotations

import contextlib
from concurrent import futures
from typing import TYPE_CHECKING

import pytest
from tests.interop.conftest import PAIRS, POLL_CAP
from tests.interop.java import stacks
from tests.interop.pair import PROMPT, Pair, counts_wake
from tests.support.patience import GIVE_UP, wait_until
from tests.support.servers import ClusterServers, SentinelServers

from interlock._links.topology import slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.agent import Agent

LEASE = 10.0
"""Seconds, of holds while a slot moves."""
LANGUAGES = ("java", "sync", "asyncio")
LOCKS = ["lock", "fair", "fenced", "write", "group"]

both_ways = pytest.mark.parametrize("ways", PAIRS)


@pytest.fixture(scope="module")
def nodes(need_java: None) -> Iterator[ClusterServers]:
    with ClusterServers() as servers:
        yield servers


@pytest.fixture(scope="module")
def cluster(
    nodes: ClusterServers, start_agent: Callable[[str], Agent]
) -> Iterator[dict[str, Agent]]:
    with contextlib.ExitStack() as stack:
        agents = {which: stack.enter_context(start_agent(which)) for which in LANGUAGES}
        addresses = [f"redis://127.0.0.1:{node.port}" for node in nodes.nodes]
        agents["java"].connect(mode="cluster", addresses=addresses)
        for face in LANGUAGES[1:]:
            agents[face].connect(url=nodes.url())
        yield agents


@pytest.fixture(scope="module")
def watched(
    need_java: None, start_agent: Callable[[str], Agent]
) -> Iterator[tuple[SentinelServers, dict[str, Agent]]]:
    """Give Sentinels, and an agent of each kind that asks them."""
    with SentinelServers() as servers, contextlib.ExitStack() as stack:
        agents = {which: stack.enter_context(start_agent(which)) for which in LANGUAGES}
        addresses = [f"redis://127.0.0.1:{sentinel.port}" for sentinel in servers.sentinels]
        agents["java"].connect(mode="sentinel", addresses=addresses, service=servers.service)
        for face in LANGUAGES[1:]:
            agents[face].connect(url=servers.url())
        yield servers, agents


def _pair(agents: dict[str, Agent], ways: str, name: str) -> Pair:
    first, second = ways.split(">")
    return Pair(agents[first], agents[second], f"{name}:{ways}")


def _is_woken(pair: Pair, kind: str) -> None:
    holder, waiter = pair.at(kind)
    assert holder.ask("acquire", lease=60)
    waiting = waiter.wait(timeout=30)
    holder.ask("release")
    assert waiting.result(PROMPT).value is True, kind
    assert not holder.ask("acquire", timeout=0), kind
    waiter.ask("release")


@both_ways
@pytest.mark.parametrize("kind", LOCKS)
def test_a_release_in_a_cluster_wakes_the_other_language(
    cluster: dict[str, Agent], ways: str, kind: str
) -> None:
    """Both use the sharded channels of the slot, wherever that is: a release is heard at once."""
    _is_woken(_pair(cluster, ways, "{tagged}:somewhere"), kind)


@both_ways
def test_permits_and_counts_in_a_cluster_wake_the_other_language(
    cluster: dict[str, Agent], ways: str
) -> None:
    """Semaphores of both kinds and latches are shared in a cluster."""
    counts_wake(_pair(cluster, ways, "counted"))


def test_a_failover_is_followed_by_both(watched: tuple[SentinelServers, dict[str, Agent]]) -> None:
    """Replicated locks outlive the primary for both, and both share locks on the next one."""
    servers, agents = watched
    held = [_pair(agents, ways, "kept").of_first("lock") for ways in ("java>sync", "sync>java")]
    for holder in held:
        assert holder.ask("acquire")
    assert servers.primary.execute("WAIT", 2, 5000) == 2
    old = servers.primary
    old.kill()
    servers.wait_for_promotion(old)
    for holder, ways in zip(held, ("java>sync", "sync>java"), strict=True):
        other = _pair(agents, ways, "kept").of_second("lock")
        assert not other.ask("acquire", timeout=0), ways
        holder.ask("release")
        assert other.start("acquire", timeout=20).result(30).value is True, ways
        other.ask("release")
    for ways in ("java>sync", "sync>java"):
        _is_woken(_pair(agents, ways, "after"), "lock")


# The last: when Redisson finds out that a slot has moved, it may miss messages of other slots too.
@pytest.mark.parametrize(
    ("ways", "kind"),
    [
        ("java>sync", "lock"),
        ("java>asyncio", "fair"),
        ("sync>java", "fair"),
        ("asyncio>java", "lock"),
    ],
)
def test_a_lock_whose_slot_moves_is_shared_on(
    nodes: ClusterServers, cluster: dict[str, Agent], ways: str, kind: str
) -> None:
    """A slot moves while one language holds and the other waits: no hold is lost or doubled."""
    pair = _pair(cluster, ways, "moving")
    holder, waiter = pair.at(kind)
    assert holder.ask("acquire", lease=LEASE)
    waiting = waiter.wait(timeout=30)
    slot = slot_of(holder.target["name"])
    source = nodes.owner(slot)
    target = next(node for node in nodes.nodes[:3] if node is not source)
    name = holder.target["name"].encode()

    def listens() -> bool:
        return any(name in channel for channel in source.execute("PUBSUB", "SHARDCHANNELS"))

    # Redisson waits in vain for a subscription that it asked for while the slot was moving.
    wait_until(listens, GIVE_UP, "the waiter has subscribed")
    with nodes.migrate_slot(slot, source, target) as move:
        # All keys are at the target now, which serves only clients that ask. Java's commands wait
        # for the end of the move.
        assert move(10) > 0
        if ways.startswith("java"):
            assert not pair.of_second(kind, "t2").ask("acquire", timeout=0)
        else:
            assert holder.ask("acquire", lease=LEASE)
            holder.ask("release")
    assert not waiting.done(), waiting.result()
    holder.ask("release")
    # Java's subscription stays at the former node: it looks again when the lease that it saw ends.
    patience = LEASE if ways.endswith("java") else POLL_CAP
    _ = futures.wait([waiting], patience + PROMPT)
    left = target.execute("PTTL", holder.target["name"])
    assert waiting.done(), f"PTTL {left}, and the waiter:\n{stacks(waiter.agent)}"
    assert waiting.result().value is True
    assert target.execute("HLEN", holder.target["name"]) == 1, "it alone has the lock"
    waiter.ask("release")
    assert target.execute("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
