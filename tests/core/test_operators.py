"""What users and operators see of holds: cards, errors, the list."""

from __future__ import annotations

import inspect
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.making import SIDES, make, rival
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from interlock import Client
    from interlock.inspection import LockInfo

HERE = Path(__file__).name
FACTORIES = ("lock", "fair_lock", "fenced_lock", "group_lock", "spin_lock", *SIDES)


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Return a client whose holds last soon."""
    with connect(redis_url, lease=3) as made:
        yield made


@pytest.fixture
def other(redis_url: str) -> Iterator[Client]:
    """Return another client, which knows no more than the server."""
    with connect(redis_url) as made:
        yield made


def described(client: Client, until: Callable[[LockInfo], object]) -> LockInfo:
    """Return what is known of the lock ``"name"`` as soon as that is *until*."""

    def found() -> bool:
        info = client.describe("name")
        return info is not None and bool(until(info))

    wait_until(found, 10, "the list tells it")
    info = client.describe("name")
    assert info is not None
    return info


def told(info: LockInfo) -> bool:
    """Return whether a card tells of the holder."""
    return bool(info.holders) and bool(info.holders[0].place)


def line_above() -> str:
    """Return the line before the one that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{HERE}:{frame.f_back.f_lineno - 1}"


def test_errors_know_the_holds_of_their_own_client(client: Client) -> None:
    """The line of a hold of this client is known without a card."""
    lock = client.lock("name", timeout=0)
    seen: list[BaseException] = []

    def elsewhere() -> None:
        for act in (lock.__enter__, lock.release):
            try:
                act()
            except interlock.InterlockError as error:
                seen.append(error)

    with client.lock("name") as hold:
        line = line_above()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [type(each) for each in seen] == [
            interlock.AcquireTimeoutError,
            interlock.NotHeldError,
        ]
        assert all(f"{line} ({hold.holder})" in str(each) for each in seen)


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_card_tells_who_waits(factory: str, client: Client, other: Client) -> None:
    """A wait is told while it lasts, with its thread; then the hold is."""
    lock = make(client, factory, "name")
    first = make(other, rival(factory), "name")

    def wait() -> None:
        with lock:
            held.set()
            go.wait(20)

    held, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait, name="the waiter")
    with first:
        thread.start()
        info = described(other, lambda info: info.waiters and info.waiters[0].thread)
        [waiter] = info.waiters
        assert "the waiter" in waiter.thread
        assert waiter.client.pid == os.getpid()
    assert held.wait(10)
    info = described(other, told)
    assert info.holders[0].holder == waiter.holder
    assert not info.waiters
    go.set()
    thread.join()


def test_a_loss_names_a_failover(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has left a note, and the client knows that another server has taken over."""
    session = client._driver.session
    monkeypatch.setattr(session, "outside", session.outside._replace(took_over=lambda _key: 0.0))
    lock = client.lock("name")
    lock.acquire()
    redis_client.delete("name")
    with pytest.raises(interlock.HoldLostError, match="another server took over 0 s ago"):
        lock.release()


def test_a_loss_says_that_its_reason_could_not_be_read(
    client: Client, redis_client: redis.Redis
) -> None:
    """Something else stands where an operator's note would."""
    lock = client.lock("name")
    lock.acquire()
    redis_client.rpush(f"interlock_forced:{{name}}:{lock.hold.holder}", "x")
    redis_client.delete("name")
    with pytest.raises(interlock.HoldLostError, match="deleted, evicted, released by force, or"):
        lock.release()
