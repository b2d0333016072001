"""Multi and red locks, where a rule is theirs alone: parts, queues, endings."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.strikes import strike
from tests.support.patience import wait_until

from interlock._core.locks import red_lock, together
from interlock._drivers.flow import current_owner
from interlock.errors import NotHeldError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import redis

    import interlock


PROMPT = 2.5
"""Seconds for what takes milliseconds; no lease and no poll helps within that time."""
NAMES = ("a", "b", "c")
pytestmark = pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
STRIDE = 29
"""Opcodes between two strikes."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the servers of red locks waited for: a busy machine may not run them in time."""
    monkeypatch.setattr(together, "LINGER", 5.0)
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", 5.0)
    monkeypatch.setattr(red_lock, "MOST_PATIENCE", 5.0)


def locks(client: Any) -> list[Any]:
    return [client.lock(name) for name in NAMES]


def multi(client: Any) -> Any:
    return client.multi_lock(*locks(client))


def left(*clients: Any) -> list[object]:
    """Return what *clients* still have, but for what nobody can tell them of any more."""
    states = [each._driver.session for each in clients]
    mine = [hold for hold in current_owner().table.values() if hold.lock.session in states]
    waiting = [w for state in states for line in state.lines.values() for w in line.waiters]
    return [*mine, *waiting, *[hold for state in states for hold in state.live]]


def turn(lock: Any) -> bool:
    with lock:
        return True


def test_one_script_takes_all_and_one_frees_them(
    client: interlock.Client, redis_client: redis.Redis
) -> None:
    """Of plain locks of one client; each part has an id of its own."""
    lock = multi(client)
    with lock:
        pass
    before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    with lock as hold:
        assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 1
        assert sorted(redis_client.keys("?")) == [b"a", b"b", b"c"]
        assert len({redis_client.hkeys(name)[0] for name in NAMES}) == len(NAMES)
        assert 80 < hold.remaining <= 90
    assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 2
    assert redis_client.keys("?") == []


def test_a_member_that_the_owner_releases_is_a_loss_of_the_whole(
    client: interlock.Client, redis_client: redis.Redis
) -> None:
    """Its release says so, and frees the others."""
    a, b = client.lock("a"), client.lock("b")
    lock: Any = client.multi_lock(a, b)
    assert lock.acquire()
    b.release()
    assert not lock.hold.valid
    with pytest.raises(NotHeldError):
        lock.release()
    assert redis_client.keys("?") == []
    assert lock.acquire(timeout=0)
    lock.release()


@pytest.mark.parametrize("factory", ["multi_lock", "red_lock"])
def test_a_reentry_asks_no_server(client: interlock.Client, factory: str) -> None:
    """It counts here, unless it is for a longer lease."""
    lock = getattr(client, factory)(*locks(client))
    assert lock.acquire(lease=30)
    hold = lock.hold
    assert lock.acquire(lease=60)
    assert hold.depth == 2
    assert hold.remaining > 50
    assert lock.acquire()
    assert hold._hold.renewed
    for _ in range(3):
        lock.release()
    assert not hold
    assert lock.hold is None


def test_a_waiter_has_the_members_before_and_a_place_in_the_queue(
    client: interlock.Client,
    other: interlock.Client,
    redis_client: redis.Redis,
    pool: ThreadPoolExecutor,
) -> None:
    """So a member that is never free does not starve it: it comes in its turn."""
    theirs = other.lock("b")
    with theirs:
        waits = pool.submit(turn, multi(client))
        wait_until(lambda: redis_client.zcard("interlock_queue:{b}") == 1, 10, "it waits")
        assert redis_client.exists("a")
        assert not redis_client.exists("c")
        began = time.monotonic()
    assert waits.result(20)
    assert time.monotonic() < began + PROMPT


def test_a_release_gives_each_member_to_its_first_waiter(
    client: interlock.Client, other: interlock.Client, pool: ThreadPoolExecutor
) -> None:
    """The script for all leaves alone those that others wait for."""
    lock, began = multi(client), 0.0
    with lock:
        waits = [pool.submit(turn, other.lock(name)) for name in ("a", "c")]
        state = other._driver.session
        wait_until(lambda: len(state.queues.places) == 2, 10, "both wait")
        wait_until(
            lambda: all(h.place.refused for h in list(state.queues.places.values())),
            10,
            "they stand",
        )
        began = time.monotonic()
    assert [each.result(20) for each in waits] == [True, True]
    assert time.monotonic() < began + PROMPT


def test_own_leases_are_whole_at_the_end(
    client: interlock.Client, other: interlock.Client, pool: ThreadPoolExecutor
) -> None:
    """The first members have used up some of theirs when the last one is held."""

    def remaining() -> float:
        lock = multi(client)
        assert lock.acquire(lease=10)
        left: float = lock.hold.remaining
        lock.release()
        return left

    with other.lock("c"):
        waits = pool.submit(remaining)
        wait_until(other.lock("b").locked, 10, "it has the first two")
        time.sleep(1.0)
    assert 9 < waits.result(20) <= 10


@pytest.mark.parametrize("factory", ["multi_lock", "red_lock"])
@pytest.mark.parametrize("waits", [False, True], ids=["free", "waits"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a struck socket
def test_a_strike_anywhere_leaves_nothing(
    client: interlock.Client, other: interlock.Client, factory: str, waits: bool
) -> None:
    """In an acquire or a release: others get all members at once."""
    lock = getattr(client, factory)(*locks(client))
    theirs, holder = multi(other), other.lock("b")
    second = other.lock("c")
    state = client._driver.session

    def use() -> None:
        with lock.trying(0.02 if waits else 20):
            pass

    use()
    at = 1
    while True:
        taken = ExitStack()
        if waits:
            taken.enter_context(holder)
            taken.enter_context(second)
        with taken:
            struck = strike(use, at)
        assert theirs.acquire(timeout=PROMPT), at
        theirs.release()
        wait_until(lambda: left(client) == [], 5, f"nothing is left after {at}")
        state.garbage.dead.clear()  # an unanswered try is released for a whole lease
        if not struck:
            break
        at += STRIDE
    assert at > 10 * STRIDE
