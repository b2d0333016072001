"""Names and kinds that have channels in common do not mix up their waiters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import take_turn, waiters
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

PROMPT = 15
"""Seconds: far below the poll cap of these clients."""
LOCK_CHANNEL = "redisson_lock__channel:{a}"
MAKERS: dict[str, Callable[[interlock.Client, str], Any]] = {
    "lock": lambda client, name: client.lock(name),
    "fenced lock": lambda client, name: client.fenced_lock(name),
    "write lock": lambda client, name: client.read_write_lock(name).write,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[interlock.Client, str], Any]:
    """Give what makes a lock of each kind that has a queue."""
    return MAKERS[request.param]


@pytest.fixture
def two(redis_url: str) -> Iterator[tuple[interlock.Client, interlock.Client]]:
    """Give two clients that hardly ever look by themselves."""
    with (
        interlock.connect(redis_url) as one,
        interlock.connect(redis_url) as other,
    ):
        yield one, other


def listening(server: redis.Redis, channel: str, count: int) -> bool:
    """Return whether *count* clients hear *channel*."""
    return server.pubsub_numsub(channel)[0][1] == count


def test_a_name_in_braces_is_another_lock(
    two: tuple[interlock.Client, interlock.Client],
    redis_client: redis.Redis,
    make: Callable[[interlock.Client, str], Any],
) -> None:
    """A release of `a` makes no waiter for `{a}` the holder, and none of them is stuck."""
    one, other = two
    bare, taken = make(one, "a"), make(other, "{a}")
    with ThreadPoolExecutor(2) as pool:
        bare.acquire()
        taken.acquire()
        braced = pool.submit(take_turn, make(one, "{a}"))
        channel = "redisson_rwlock:{a}" if make is MAKERS["write lock"] else LOCK_CHANNEL
        wait_until(lambda: listening(redis_client, channel, 1), 10, "one waits for {a}")
        rival = pool.submit(take_turn, make(other, "a"))
        wait_until(lambda: listening(redis_client, channel, 2), 10, "one waits for a")
        bare.release()
        assert rival.result(PROMPT)
        assert not braced.done()
        taken.release()
        assert braced.result(PROMPT)


def test_permits_of_a_name_in_braces_are_others(
    two: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """A permit of `a` is given to no waiter for `{a}`, and wakes who waits for `a` behind it."""
    one, other = two
    bare, braced = one.semaphore("a"), one.semaphore("{a}")
    assert bare.try_set_permits(1)
    assert braced.try_set_permits(1)
    bare.acquire()
    braced.acquire()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(one.semaphore("{a}").acquire)
        wait_until(lambda: listening(redis_client, "redisson_sc:{a}", 1), 10, "one waits for {a}")
        second = pool.submit(other.semaphore("a").acquire)
        wait_until(lambda: listening(redis_client, "redisson_sc:{a}", 2), 10, "one waits for a")
        bare.release()
        second.result(PROMPT)
        assert not first.done()
        braced.release()
        first.result(PROMPT)


def test_a_lock_and_a_read_write_lock_of_one_name_are_woken(
    two: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """Waiters for either kind hear that they are next, though the two have one wake channel."""
    one, other = two
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            for make in (MAKERS["lock"], MAKERS["write lock"], MAKERS["lock"]):
                held = make(other, "name")
                held.acquire()
                mine = make(one, "name")

                def turn(mine: Any = mine) -> None:
                    mine.acquire()
                    mine.release()

                waiting = pool.submit(turn)
                wait_until(
                    lambda: (
                        sum(map(redis_client.zcard, redis_client.keys("interlock_*queue:{name}")))
                        == 1
                    ),
                    10,
                    "waits",
                )
                held.release()
                waiting.result(PROMPT)


def test_group_locks_of_two_names_have_two_lines(
    two: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """Who waits for the values of `{a}` does not stand behind who waits for those of `a`."""
    one, other = two
    bare, braced = (other.group_lock(name, ["x"]) for name in ("a", "{a}"))
    bare.acquire()
    braced.acquire()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(take_turn, one.group_lock("a", ["x"]))
        wait_until(lambda: listening(redis_client, LOCK_CHANNEL, 1), 10, "one waits for a")
        second = pool.submit(take_turn, one.group_lock("{a}", ["x"]))
        wait_until(lambda: waiters(one) == 2, 10, "one waits for {a}")
        braced.release()
        assert second.result(PROMPT)
        assert not first.done()
        bare.release()
        assert first.result(PROMPT)


def test_who_reads_a_name_in_braces_reads_on(
    two: tuple[interlock.Client, interlock.Client],
) -> None:
    """A thread that stops reading `a` still reads `{a}`, and keeps writers out of it.

    Their entries differ only in the holder ids.
    """
    one, other = two
    bare, braced = (one.read_write_lock(name).read for name in ("a", "{a}"))
    for first, second in ((bare, braced), (braced, bare)):
        first.acquire()
        second.acquire()
        first.release()
        assert not other.read_write_lock(second.name).write.acquire(timeout=0)
        second.release()
        assert take_turn(other.read_write_lock(second.name).write)


def test_the_end_of_a_term_gives_nobody_the_lock_of_its_name(
    two: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """An election and a lock may have one name, but each has a queue of its own."""
    one, other = two
    queue, candidates = "interlock_queue:{a}", "interlock_queue:interlock_election:{a}"
    held, election = one.lock("a"), one.election("a")
    held.acquire()
    election.acquire()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(take_turn, other.lock("a"))
        wait_until(lambda: redis_client.zcard(queue) == 1, 10, "another client waits for a")
        standing = pool.submit(take_turn, other.election("a"))
        wait_until(lambda: redis_client.zcard(candidates) == 1, 10, "it wants to lead")
        election.release()
        assert standing.result(PROMPT)
        assert redis_client.zcard(queue) == 1
        assert not waiting.done()
        held.release()
        assert waiting.result(PROMPT)


def test_a_client_that_left_one_queue_of_a_name_hears_its_turn_in_the_other(
    two: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """It waited for a read/write lock, and now waits for the lock; both have one wake channel."""
    one, other = two
    held = other.lock("a")
    held.acquire()
    assert not one.read_write_lock("a").write.acquire(timeout=0.1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(take_turn, one.lock("a"))
        wake = f"interlock_wake:{{a}}:{one._driver.state.client_id}"

        def hears_its_turn_only() -> bool:
            left = listening(redis_client, "redisson_rwlock:{a}", 0)
            return left and listening(redis_client, wake, 1)

        wait_until(hears_its_turn_only, 10, "it has left that one, and waits in this one")
        held.release()
        assert first.result(PROMPT)


LAST = """
client = interlock.connect(url)
lock = client.lock("name")
lock.acquire()
threading.Thread(target=client.lock("name").acquire, daemon=True).start()
say("held")
sys.stdin.readline()
"""


def test_a_process_that_exits_gives_itself_no_lock(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """If daemon threads of it wait first in the queue, the next process has the lock at once."""
    queue = "interlock_queue:{name}"
    with (
        interlock.connect(redis_url) as client,
        ThreadPoolExecutor(1) as pool,
        Child(LAST, redis_url) as child,
    ):
        assert child.hear() == "held"
        wait_until(lambda: redis_client.zcard(queue) == 1, 10, "its thread waits")
        lock = client.lock("name")
        waiting = pool.submit(lock.acquire)
        wait_until(lambda: redis_client.zcard(queue) == 2, 10, "another process waits")
        child.tell()
        try:
            assert waiting.result(10 * PROMPT)
            lock.release()
        finally:
            client.close()
