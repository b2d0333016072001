"""What one accident may not do, each in the scene that showed it: to waits, and to locks of several."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock import ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.support.servers import RedisServer

    from interlock import Client

PROMPT = 20.0
"""Seconds that a busy machine may take."""


def test_a_refused_wait_keeps_the_lock(fresh_server: RedisServer) -> None:
    """A full server refuses it; a connection that is lost later releases nothing."""
    url = fresh_server.url()
    with interlock.connect(url) as client, interlock.connect(url) as other:
        condition = client.condition("jobs")
        with condition:
            fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(ServerUnavailableError, match="out of memory"):
                condition.wait(timeout=5)
            fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
            client._driver.session.resend()
            time.sleep(0.5)  # whatever is sent again is sent within this time
            assert other.lock("jobs").locked()
            assert condition.hold is not None
            assert condition.hold.valid


def test_a_member_of_a_multi_lock_waits_for_no_condition(client: Client) -> None:
    """That would break the multi lock; its members are free afterwards."""
    with interlock.MultiLock(client.lock("a"), client.lock("b")):
        condition = client.condition(client.lock("a"))
        with pytest.raises(ConfigError, match="several members"):
            condition.wait(timeout=1)
    assert not client.lock("a").locked()
    assert not client.lock("b").locked()


@pytest.mark.filterwarnings("ignore:3 members on 1 servers")
@pytest.mark.parametrize("force_first", [True, False])
def test_a_red_lock_tells_of_its_loss_by_the_end_of_a_client(
    redis_url: str, other: Client, *, force_first: bool
) -> None:
    """Whether a member is forced before another one's client is closed, or after that."""
    clients = [interlock.connect(redis_url, lease=3) for _ in range(3)]
    told: list[str] = []
    acts: list[Callable[[], object]] = [lambda: other.lock("z").force_release(), clients[1].close]
    try:
        red = interlock.RedLock(
            *[client.lock(name) for client, name in zip(clients, "xyz", strict=True)]
        )
        hold = red.acquire() and red.hold
        assert hold
        hold.on_lost(lambda: told.append("lost"))
        for act in acts if force_first else reversed(acts):
            assert not told
            act()
            if force_first and not told:
                wait_until(
                    lambda: not clients[2].lock("z").locked(), PROMPT, "the first one has acted"
                )
        wait_until(lambda: told == ["lost"], PROMPT, "it is told")
        with pytest.raises(interlock.HoldLostError):
            red.release()
    finally:
        for client in clients:
            client.close()


def test_a_full_server_throws_out_nobody_who_waits(
    fresh_server: RedisServer, pool: ThreadPoolExecutor
) -> None:
    """Whoever waits already looks on, and has its turn: a release needs no memory."""
    url = fresh_server.url()
    with interlock.connect(url) as client, interlock.connect(url) as holder:
        reads, writes = client.read_write_lock("rw"), holder.read_write_lock("rw")
        held: list[Any] = [
            holder.lock("lock"),
            holder.fair_lock("fair"),
            holder.fenced_lock("fenced"),
            writes.write,
            holder.limited("limited", 1),
            holder.leased_semaphore("leased", permits=1),
        ]
        permits = [each.acquire() for each in held]
        waiting: list[Any] = [
            pool.submit(client.lock("lock").acquire, timeout=60),
            pool.submit(client.fair_lock("fair").acquire, timeout=60),
            pool.submit(client.fenced_lock("fenced").acquire, timeout=60),
            pool.submit(reads.read.acquire, timeout=60),
            pool.submit(client.limited("limited", 1).acquire, timeout=60),
            pool.submit(client.leased_semaphore("leased", permits=1).acquire, timeout=60),
            pool.submit(client.barrier("barrier", 2).wait, 60),
        ]
        session = client._driver.session
        wait_until(lambda: len(session.queues.places) == 7, PROMPT, "all wait")
        time.sleep(0.5)  # until each has asked once
        fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
        time.sleep(5)  # two looks
        assert not [each for each in waiting if each.done()]
        for each, permit in zip(held, permits, strict=True):
            (each if permit is True else permit).release()
        assert all(each.result(PROMPT) is not None for each in waiting[:-1])
        fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
        assert holder.barrier("barrier", 2).wait(PROMPT) == 1
        assert waiting[-1].result(PROMPT) == 0


def test_two_threads_end_the_same_call(redis_url: str) -> None:
    """A client that closes and the task that waits there may leave its owner at the same time."""

    class Struck(dict[str, Any]):
        """A table that another thread changes as soon as one has looked."""

        def get(self, key: str, _: object = None) -> Any:
            return self.pop(key, None)

    with interlock.connect(redis_url) as client, client.lock("name") as hold:
        owner = hold._hold.owner()
        assert owner is not None
        former, owner.table = owner.table, Struck(owner.table)
        hold._hold.leave_owner()
        assert not owner.table
        owner.table = former


def test_an_observer_looks_before_the_server_has_room_for_its_messages(
    fresh_server: RedisServer,
) -> None:
    """It is told who leads, and of changes by looks, while no connection for messages is taken."""
    url, told = fresh_server.url(), list[object]()
    with (
        interlock.connect(url) as client,
        interlock.connect(url) as other,
        fresh_server.client() as operator,
    ):
        election = client.election("led", candidate="b")
        assert other.election("led", candidate="a").acquire()
        assert election.leader() is not None
        operator.config_set("maxclients", len(operator.client_list()))
        with election.observe(lambda found: told.append(found and found.candidate)):
            wait_until(lambda: told == ["a"], PROMPT, "it is told who leads")
            other.election("led").release()
            wait_until(lambda: told == ["a", None], PROMPT, "it is told that nobody does")


def test_a_wait_for_a_condition_ends_though_the_server_has_no_room_for_its_messages(
    fresh_server: RedisServer,
) -> None:
    """Its time counts before it has released the lock, which is held as before, too."""
    with (
        interlock.connect(fresh_server.url(), command_timeout=1) as client,
        fresh_server.client() as operator,
    ):
        condition = client.condition("jobs")
        with condition:
            operator.config_set("maxclients", len(operator.client_list()))
            room = threading.Timer(PROMPT, operator.config_set, ["maxclients", 100])
            room.start()
            assert not condition.wait(timeout=2)
            assert room.is_alive()
            room.cancel()
            hold, session = condition.hold, client._driver.session
            assert hold is not None
            assert hold.valid
            assert not session.queues.places
            operator.config_set("maxclients", 100)
        assert not client.lock("jobs").locked()
