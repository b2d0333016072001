"""Fencing tokens in a cluster: no failover and no move of a slot repeats one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest
import redis
from tests.support.patience import wait_until
from tests.support.servers import ClusterServers, RedisServer, main_binary

import interlock
import interlock.asyncio
from interlock._links.topology import slot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "report"
SLOT = slot_of(NAME)
COUNTER = "redisson_lock_token:{report}"
QUEUE = "interlock_queue:{report}"


@pytest.fixture(scope="module")
def failing() -> Iterator[ClusterServers]:
    """Give a cluster with replicas whose primaries are changed."""
    with ClusterServers(replicas=True, binary=main_binary()) as servers:
        yield servers


def token(servers: ClusterServers, factory: str = "fenced_lock") -> int:
    """Return the token of a hold of a new client, which remembers none."""
    with interlock.connect(servers.url()) as client, getattr(client, factory)(NAME) as hold:
        drawn: int = hold.token
        return drawn


def test_a_failover_that_lost_the_counters(failing: ClusterServers) -> None:
    """A client that has seen no token draws a larger one from a new primary without the counter."""
    last = {factory: token(failing, factory) for factory in ("fenced_lock", "election")}
    assert last["fenced_lock"] < token(failing, "fenced_lock")
    # A replica that lags has not seen them.
    failing.owner(SLOT).execute("DEL", COUNTER, "redisson_lock_token:interlock_election:{report}")
    failing.promote(SLOT)
    for factory, before in last.items():
        assert before + 1 < token(failing, factory)


def test_a_connection_that_outlives_failovers(failing: ClusterServers) -> None:
    """A client that never noticed two failovers draws a larger token than those in between."""
    with interlock.connect(failing.url()) as client:
        lock = client.fenced_lock(NAME)
        with lock as hold:
            before = hold.token
        # Without an election: primaries do not vote twice within seconds.
        failing.promote(SLOT, "TAKEOVER")
        between = token(failing)
        failing.owner(SLOT).execute("DEL", COUNTER)
        failing.promote(SLOT, "TAKEOVER")
        with lock as hold:
            assert before < between < hold.token


def test_a_slot_that_moves(failing: ClusterServers) -> None:
    """A counter moves with its slot, to whichever node has which epoch."""
    last = token(failing)
    first = failing.owner(SLOT)
    second, third = [node for node in failing.nodes if _is_other_primary(node, first)]
    for source, target in ((first, second), (second, third), (third, first)):
        with failing.migrate_slot(SLOT, source, target) as move:
            move(1)
        assert last < (last := token(failing))


def _is_other_primary(node: RedisServer, owner: RedisServer) -> bool:
    role = cast("list[Any]", node.execute("ROLE"))
    return role[0] == b"master" and node is not owner


@pytest.fixture(scope="module")
def constant() -> Iterator[RedisServer]:
    """Give a cluster that always tells the epoch 1, as Dragonfly does."""
    config = {"cluster-enabled": "yes", "cluster-require-full-coverage": "no"}
    with RedisServer(main_binary(), config=config) as server:
        server.execute("CLUSTER", "SET-CONFIG-EPOCH", 1)
        server.execute("CLUSTER", "ADDSLOTS", SLOT)
        wait_until(lambda: _serves(server), 10, "it served the slot")
        yield server


def _serves(server: RedisServer) -> bool:
    return b"cluster_state:ok" in _info(server)


def _info(server: RedisServer) -> bytes:
    return cast("bytes", server.execute("CLUSTER", "INFO"))


def _url(server: RedisServer) -> str:
    return f"redis+cluster://127.0.0.1:{server.port}"


@pytest.mark.parametrize("factory", ["fenced_lock", "election"])
def test_a_constant_epoch_is_none(
    constant: RedisServer, factory: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a true epoch tokens follow the server's clock; the log tells that once."""
    last = 0
    with interlock.connect(_url(constant)) as client:
        for _ in range(3):
            constant.execute("DEL", COUNTER, "redisson_lock_token:interlock_election:{report}")
            before = _microseconds(constant)
            with getattr(client, factory)(NAME) as hold:
                assert last < before < hold.token < 2**53
                assert hold.token_source == "clock"
                last = hold.token
    lacks = [record for record in caplog.records if "epoch" in record.getMessage()]
    assert [record.__dict__["event"] for record in lacks] == ["token.source"]


def test_a_waiter_is_told_all_digits_of_such_a_token(constant: RedisServer) -> None:
    """A release draws the token of the next holder, who starts with it and need not ask for one."""

    def take(client: interlock.Client) -> int | None:
        with client.fenced_lock(NAME) as hold:
            return hold.token

    with (
        interlock.connect(_url(constant), pubsub="plain") as client,
        interlock.connect(_url(constant), pubsub="plain") as other,
        redis.Redis(port=constant.port) as listener,
        ThreadPoolExecutor(1) as threads,
    ):
        heard = listener.pubsub(ignore_subscribe_messages=True)
        heard.psubscribe("interlock_wake:{report}:*")
        with client.fenced_lock(NAME):
            taken = threads.submit(take, other)
            wait_until(lambda: constant.execute("EXISTS", QUEUE) == 1, 10, "the other one waited")
        granted = taken.result(10)
        messages: list[Any] = [heard.get_message(timeout=1) for _ in range(3)]
        told = [each["data"] for each in messages if each and isinstance(each["data"], bytes)]
        assert told[-1].split(b"|")[2] == str(granted).encode()


def _microseconds(server: RedisServer) -> int:
    seconds, rest = cast("list[bytes]", server.execute("TIME"))
    return int(seconds) * 1_000_000 + int(rest)


def test_the_first_epoch_of_a_true_cluster() -> None:
    """A cluster that can fail over has true epochs, even if the first one is 1 everywhere.

    A clock's tokens would be above those of all its later epochs.
    """
    config = {"cluster-enabled": "yes", "cluster-require-full-coverage": "no"}
    with (
        RedisServer(main_binary(), config=config) as primary,
        RedisServer(main_binary(), config=config) as replica,
    ):
        primary.execute("CLUSTER", "SET-CONFIG-EPOCH", 1)
        primary.execute("CLUSTER", "ADDSLOTS", SLOT)
        replica.execute("CLUSTER", "MEET", "127.0.0.1", primary.port)
        wait_until(lambda: _serves(primary), 10, "it served the slot")
        wait_until(lambda: b"ping_sent:" in _info(primary), 10, "it knew the other node")
        assert b"cluster_my_epoch:1\r\n" in _info(primary)
        assert b"cluster_current_epoch:1\r\n" in _info(primary)
        with interlock.connect(_url(primary)) as client, client.fenced_lock(NAME) as hold:
            assert (hold.token, hold.token_source) == (2**32 + 1, "epoch")
