"""What `list` and `why` show of the queue."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import make
from tests.operations.on_call import described
from tests.support.servers import wait_until

from interlock import connect
from interlock._core.model.names import lock_channel, waiting_queue
from interlock.cli import main

if TYPE_CHECKING:
    from collections.abc import Generator

    import redis

    from interlock import Client

NAME = "orders"
QUEUE = waiting_queue(lock_channel(NAME))


@contextlib.contextmanager
def waiting(lock: Any, looker: Client, expected: int, name: str = NAME) -> Generator[None]:
    """Let a thread wait for *lock*, so that *expected* wait; at the end it has had the lock."""

    def wait() -> None:
        with lock:
            pass

    thread = threading.Thread(target=wait, name=f"the waiter {expected}")
    thread.start()
    try:
        wait_until(lambda: described(looker, name).waiter_count == expected, 10, "it waits")
        yield
    finally:
        thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("prefix", [None, "shop:"])
def test_the_queue_is_told_in_its_order(
    prefix: str | None, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each waiter is told with its place, and its age, also if no card tells of it."""
    with (
        connect(redis_url, prefix=prefix, card=False) as client,
        connect(redis_url, prefix=prefix, card=False) as one,
        connect(redis_url, prefix=prefix, pubsub="off", card=False) as two,
        contextlib.ExitStack() as waiters,
        client.lock(NAME) as hold,
    ):
        for n, each in enumerate((one, two, one), 1):
            waiters.enter_context(waiting(each.lock(NAME), client, n))
        info = described(client)
        clients = [one.client_id, two.client_id, one.client_id]
        assert [each.holder for each in info.holders] == [hold.holder]
        assert [each.client.client_id for each in info.waiters] == clients
        assert [each.holder.partition(":")[0] for each in info.waiters] == clients
        assert [each.position for each in info.waiters] == [1, 2, 3]
        assert [each.polls for each in info.waiters] == [False, True, False]
        ages = [-1.0 if each.waited is None else each.waited for each in info.waiters]
        assert 60 > ages[0] >= ages[1] >= ages[2] >= 0
        assert info.waiting_clients == 2
        [listed] = client.locks()
        assert [each.holder for each in listed.waiters] == [e.holder for e in info.waiters]
        with_prefix = () if prefix is None else ("--prefix", prefix)
        assert main(["why", NAME, "--url", redis_url, *with_prefix]) == 0
        text = capsys.readouterr().out
        assert "3 wait for it, in 2 clients. In the order of the queue: " in text
        assert text.count(", polling") == 1
        assert [text.count(each.holder) for each in info.waiters] == [1, 1, 1]
        assert main(["list", "--url", redis_url, *with_prefix]) == 0
        assert "3 in 2 clients, first " in capsys.readouterr().out


def test_readers_and_writers_are_told_in_their_order(
    redis_url: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is told once, as what it waits for: by its place, and by its client's card."""
    with (
        connect(redis_url, lease=3) as other,
        contextlib.ExitStack() as waiters,
        make(client, "read", NAME) as hold,
    ):
        for n, side in enumerate(["write", "read", "write"], 1):
            waiters.enter_context(waiting(make(other, side, NAME), client, n))
        wait_until(lambda: all(e.thread for e in described(client).waiters), 10, "cards tell")
        info = described(client)
        assert (info.kind, info.mode) == ("read_write_lock", "read")
        assert [(each.holder, each.mode) for each in info.holders] == [(hold.holder, "read")]
        assert [each.position for each in info.waiters] == [1, 2, 3]
        assert [each.thread[-2] for each in info.waiters] == ["1", "2", "3"]
        writes = [each.holder.endswith(":write") for each in info.waiters]
        assert writes == [True, False, True]
        assert main(["why", NAME, "--url", redis_url]) == 0
        text = capsys.readouterr().out
        assert "3 wait for it, in 1 client. In the order of the queue: " in text
        assert text.count(", to write") == 2


def test_a_holder_is_no_waiter_of_its_own_lock(client: Client, redis_client: redis.Redis) -> None:
    """It keeps its place, marked, until it releases; a mark without a hold is told as what it is."""
    late = f"{client.client_id}:123456789012/500"
    with client.lock(NAME) as first:
        entered, leave = threading.Event(), threading.Event()

        def wait() -> None:
            with client.lock(NAME):
                entered.set()
                leave.wait(20)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: described(client).waiters != (), 10, "it waits")
    assert entered.wait(10)
    [(member, score)] = redis_client.zrange(QUEUE, 0, -1, withscores=True)
    assert score < 0
    info = described(client)
    assert [each.holder for each in info.holders] == [member.decode()] != [first.holder]
    assert (info.waiters, info.waiter_count) == ((), 0)
    redis_client.zadd(QUEUE, {f"{late}?": score + 5e6})
    [told] = described(client).waiters
    assert (told.holder, told.polls, told.waited, told.position) == (late, True, None, 1)
    assert told.granted is not None
    assert told.granted >= 5
    redis_client.zrem(QUEUE, f"{late}?")
    leave.set()
    thread.join()


def test_a_long_queue_is_told_in_part(client: Client, redis_client: redis.Redis) -> None:
    """A list tells the first ones of it, and how many stand there in all."""
    client.lock(NAME).acquire(lease=60)
    members: Any = {f"a:{10**11 + n}": 1.7e15 + n for n in range(1500)}
    redis_client.zadd(QUEUE, members)
    [listed] = client.locks()
    told = described(client)
    assert (len(listed.waiters), listed.waiter_count) == (64, 1500)
    assert (len(told.waiters), told.waiter_count) == (1000, 1500)
    assert [each.holder for each in listed.waiters] == list(members)[:64]


def test_a_queue_of_a_free_lock_is_told(client: Client, redis_client: redis.Redis) -> None:
    """Who waits for a lock that nobody holds now is told, and what is no member is not."""
    redis_client.zadd(QUEUE, {"a:100000000001": 1.7e15, "no member": 1, "a:100000000002": "inf"})
    info = described(client)
    assert (info.kind, info.holders, info.waiter_count) == ("lock", (), 2)
    assert [each.holder for each in info.waiters] == ["a:100000000001", "a:100000000002"]
    redis_client.zadd(QUEUE, {"a:100000000003:write": 1.8e15})
    assert described(client).kind == "read_write_lock"
    redis_client.delete(QUEUE)
    redis_client.rpush(QUEUE, "of another type")
    assert client.describe(NAME) is None
