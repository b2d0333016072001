"""What one accident may not do, each in the scene that showed it: to waits, and to locks of several."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock import ConfigError, ServerUnavailableError
from interlock._core.objects.condition import WaitFor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import RedisServer

    from interlock import Client

PROMPT = 20.0
"""Seconds that a busy machine may take."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Return a client that seldom renews: nothing else lets its upkeep come."""
    with interlock.connect(redis_url, lease=300) as made:
        yield made


@pytest.fixture
def other(redis_url: str) -> Iterator[Client]:
    """Return another client."""
    with interlock.connect(redis_url, lease=300) as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Return threads that wait."""
    with ThreadPoolExecutor(16) as made:
        yield made


def test_the_grant_of_a_notified_waiter_becomes_a_lease(
    client: Client, other: Client, pool: ThreadPoolExecutor
) -> None:
    """Also if two of an idle client wait: nobody but the first makes its upkeep come."""

    def wait() -> float | None:
        condition = client.condition("jobs")
        with condition:
            assert condition.wait(timeout=60)
            assert condition.hold is not None
            return other.lock("jobs").remaining()

    def stands(count: int) -> Callable[[], bool]:
        def stood() -> bool:
            lines = list(client._driver.session.lines.values())
            places = [each.place for line in lines for each in list(line.waiters)]
            return sum(bool(each and each.aside and each.sent) for each in places) == count

        return stood

    first = pool.submit(wait)
    wait_until(lambda: bool(client._driver.session.lines), PROMPT, "it waits")
    wait_until(stands(1), PROMPT, "the first one stands there")
    second = pool.submit(wait)
    wait_until(stands(2), PROMPT, "the second one stands there")
    news = other.condition("jobs")
    with news:
        news.notify()
    wait_until(first.done, PROMPT, "it was notified")
    with news:
        news.notify()
    assert second.result(PROMPT)
    assert client._driver.session.due < client._driver.session.clock() + 2


def test_a_wait_that_was_not_answered_is_no_release(client: Client) -> None:
    """So nothing sends that release before the wait, or for a lock that stays held."""
    condition = client.condition("jobs")
    session = client._driver.session
    with condition:
        hold = condition.hold
        assert hold is not None
        core: Any = condition._core
        owner = hold._hold.owner()
        assert owner is not None
        step = WaitFor(core, owner, session.clock() + 1)
        if step.begin() is None:
            _ = step._depart()
        assert all(packed != hold._hold.packed for _, _, packed in session.recent)
        step.give_up()


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
    acts: list[Callable[[], object]] = [
        lambda: other.lock("z").force_release(),
        clients[1].close,
    ]
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


def test_members_that_are_held_for_longer_keep_no_listener(client: Client) -> None:
    """Nor does a hold that is entered again and again."""
    member = client.lock("a")
    with member as hold:
        for _ in range(3):
            with interlock.MultiLock(client.lock("a"), client.lock("b")) as whole:
                whole.on_lost(lambda: None)
        assert not hold._hold.listeners


def test_a_full_server_throws_out_nobody_who_waits(
    fresh_server: RedisServer, pool: ThreadPoolExecutor
) -> None:
    """Whoever waits already looks on, and has its turn when there is memory again."""
    url = fresh_server.url()
    with interlock.connect(url) as client, interlock.connect(url) as holder:
        reads, writes = client.read_write_lock("rw"), holder.read_write_lock("rw")
        held: list[Any] = [
            holder.lock("lock"),
            holder.fenced_lock("fenced"),
            writes.write,
            holder.limited("limited", 1),
            holder.leased_semaphore("leased", permits=1),
        ]
        permits = [each.acquire() for each in held]
        waiting: list[Any] = [
            pool.submit(client.lock("lock").acquire, timeout=60),
            pool.submit(client.fenced_lock("fenced").acquire, timeout=60),
            pool.submit(reads.read.acquire, timeout=60),
            pool.submit(client.limited("limited", 1).acquire, timeout=60),
            pool.submit(client.leased_semaphore("leased", permits=1).acquire, timeout=60),
            pool.submit(client.barrier("barrier", 2).wait, 60),
        ]
        session = client._driver.session
        wait_until(lambda: len(session.lines) == 6, PROMPT, "all wait")
        time.sleep(0.5)  # until each has asked once
        fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
        time.sleep(5)  # two looks
        fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
        assert not [each for each in waiting if each.done()]
        for each, permit in zip(held, permits, strict=True):
            (each if permit is True else permit).release()
        assert holder.barrier("barrier", 2).wait(PROMPT) == 1
        assert all(each.result(PROMPT) is not None for each in waiting)


def test_a_permit_that_ends_by_itself_costs_its_client_no_place(
    client: Client, other: Client, pool: ThreadPoolExecutor
) -> None:
    """Its lease was one of its own: nobody has stood still."""
    order: list[str] = []

    def work(who: str, permits: Any) -> None:
        with permits.acquire(timeout=60):
            order.append(who)

    _ = client.leased_semaphore("name", permits=1).acquire(lease=2.0)
    waiting = [pool.submit(work, "first", client.leased_semaphore("name", permits=1))]
    wait_until(lambda: _waiters(client) == 1, PROMPT, "the first one stands there")
    waiting.append(pool.submit(work, "second", other.leased_semaphore("name", permits=1)))
    for each in waiting:
        each.result(PROMPT)
    assert order == ["first", "second"]


def _waiters(client: Client) -> int:
    return sum(len(line.waiters) for line in client._driver.session.lines.values())


def test_a_small_wish_asks_behind_a_bigger_one(client: Client, pool: ThreadPoolExecutor) -> None:
    """One permit is free: who wants three does not keep it from who wants one."""
    semaphore = client.semaphore("name", permits=3)
    assert semaphore.acquire(2)
    big = pool.submit(semaphore.acquire, 3, timeout=60)
    wait_until(lambda: _waiters(client) == 1, PROMPT, "the big one waits")
    time.sleep(0.2)  # until it has asked
    began = time.monotonic()
    assert semaphore.acquire(timeout=60)
    assert time.monotonic() - began < 0.9, "a look of its own comes after a second and more"
    semaphore.release()
    semaphore.release(2)
    assert big.result(PROMPT)
