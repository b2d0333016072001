"""A hold that an operator breaks: who waits is served at once, nothing is left."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import SIDES, make
from tests.support.faults import drop_reply, drop_request
from tests.support.servers import wait_until

from interlock import HoldLostError, connect
from interlock._core.model.names import forced_note, lock_channel, read_write_channel, waiting_queue
from interlock.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import redis
    from tests.support.faults import Matcher
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

    from interlock import Client

NAME = "orders"
QUEUE = waiting_queue(lock_channel(NAME))
SIDES_QUEUE = waiting_queue(read_write_channel(NAME))
FAIR_QUEUE = f"redisson_lock_queue:{{{NAME}}}"
SOON = 0.5
"""Seconds in which the next one has the lock."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with connect(redis_url, lease=3) as made:
        yield made


def _have(lock: Any, got: SimpleQueue[tuple[float, str]], leave: threading.Event) -> None:
    """Acquire *lock*, tell when and as whom, and release it when told."""
    with lock as hold:
        got.put((time.monotonic(), hold.holder))
        assert leave.wait(20)


def _by_command(client: Client, holder: str, factory: str, url: str) -> bool:
    words = ["break", NAME, "--holder", holder, "--reason", "stuck", "--url", url]
    return main(words) == 0


def _by_lock(client: Client, holder: str, factory: str, url: str) -> bool:
    lock: Any = make(client, factory, NAME)
    return bool(lock.force_release(holder=holder, reason="stuck"))


def _all_by_lock(client: Client, holder: str, factory: str, url: str) -> bool:
    return bool(make(client, factory, NAME).force_release())


WAYS = (_by_command, _by_lock, _all_by_lock)


class Victim:
    """A thread that acquires *lock* after *holder* has released it; its loss is noted."""

    def __init__(self, lock: Any, holder: Any, queued: Any) -> None:
        self._lock, self._leave = lock, threading.Event()
        self.hold: Any = None
        self.told = ""
        with holder:
            self._thread = threading.Thread(target=self._work)
            self._thread.start()
            wait_until(queued, 10, "it waits")
        wait_until(lambda: self.hold is not None, 10, "it has the lock")

    def _work(self) -> None:
        with pytest.raises(HoldLostError, match="force-released") as caught, self._lock:
            self.hold = self._lock.hold
            assert self._leave.wait(20)
        self.told = str(caught.value)

    def end(self) -> None:
        wait_until(self.hold.lost.is_set, 10, "the victim is told")
        self._leave.set()
        self._thread.join(20)


@pytest.mark.parametrize("factory", ["lock", "fenced_lock", "spin_lock"])
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_has_the_lock_soon(
    way: Any,
    factory: str,
    client: Client,
    redis_url: str,
    redis_client: redis.Redis,
    pool: ThreadPoolExecutor,
) -> None:
    """The mark of a victim that was granted the lock goes too, so that its client keeps its places."""
    lock: Any = make(client, factory, NAME)
    stands, got, leave = factory != "spin_lock", SimpleQueue[Any](), threading.Event()

    def members() -> list[tuple[bytes, float]]:
        found: Any = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        return list(found)

    with connect(redis_url) as operator, connect(redis_url) as third:
        first = operator.lock(NAME)
        victim = Victim(lock, first, lambda: len(members()) == 1 or not stands)
        marks = [(victim.hold.holder.encode(), True)] if stands else []
        assert [(member, score < 0) for member, score in members()] == marks
        theirs = pool.submit(_have, make(third, factory, NAME), got, leave)
        wait_until(lambda: len(members()) == 2 or not stands, 20, "it waits")
        time.sleep(0 if stands else 2)  # nothing shows that it tries
        own = pool.submit(_use, lock)
        wait_until(lambda: len(members()) == 3 or not stands, 10, "the victim's client waits")
        assert way(operator, victim.hold.holder, factory, redis_url)
        ended = time.monotonic()  # a command may take long to start
        at, holder = got.get(timeout=5)
        assert at - ended < SOON
        if stands:
            front, last = members()
            assert (front[0], front[1] < 0, last[1] < 0) == (holder.encode(), True, False)
        leave.set()
        victim.end()
        theirs.result(20)
        own.result(20)
    assert ("stuck" in victim.told) == (not way.__name__.startswith("_all"))
    assert not redis_client.exists(NAME, QUEUE, forced_note(NAME, victim.hold.holder))


def first(holder: str, copies: list[tuple[bytes, ...]], at_once: Callable[[], object]) -> Matcher:
    """Return a condition: is this the first break of *holder*? If so, it is kept, and *at_once* done."""

    def is_first(args: Sequence[bytes]) -> bool:
        if copies or args[0] != b"EVALSHA" or not {holder.encode(), b"-"} <= set(args):
            return False
        copies.append(tuple(args))
        with ThreadPoolExecutor(1) as outside:  # this is an event loop
            outside.submit(at_once).result()
        return True

    return is_first


@pytest.mark.parametrize("factory", ["lock", "fair_lock", "fenced_lock", "group_lock", *SIDES])
def test_a_break_whose_reply_was_lost_counts(
    factory: str, client: Client, proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """The copy tells what the first one did, and the note stays for the victim."""
    lock: Any = make(client, factory, NAME)
    with connect(proxy.url(), command_timeout=1) as operator:
        breaking = make(operator, factory, NAME)
        lock.acquire()
        assert breaking.force_release()  # the server knows the script from now on
        with pytest.raises(HoldLostError):
            lock.release()
        lock.acquire(lease=60)
        holder = lock.hold.holder
        proxy.on_request(first(holder, [], bool), drop_reply)
        assert breaking.force_release(holder=holder, reason="stuck")
    assert redis_client.get(forced_note(NAME, holder)) == b"stuck"
    with pytest.raises(HoldLostError, match="force-released: stuck"):
        lock.release()


def test_no_copy_of_a_break_that_found_nothing_breaks_the_next_hold(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """Java holds again by the same id."""
    holder, copies = "java:1", list[tuple[bytes, ...]]()
    redis_client.hset(NAME, holder, 1)
    with connect(proxy.url(), card=False) as operator:
        ends = partial(redis_client.delete, NAME)
        proxy.on_request(first(holder, copies, ends), drop_request)
        assert not operator.lock(NAME).force_release(holder=holder)
        redis_client.hset(NAME, holder, 1)
        _ = redis_client.execute_command(*copies[0])
        assert redis_client.hgetall(NAME) == {holder.encode(): b"1"}


@pytest.mark.parametrize("factory", ["lock", "fair_lock", "fenced_lock", *SIDES])
def test_a_full_server_keeps_no_hold_from_being_broken(
    factory: str, fresh_server: RedisServer
) -> None:
    """It takes no note; who waits is served all the same."""
    url = fresh_server.url()
    with connect(url, lease=3) as client, connect(url) as operator, fresh_server.client() as seen:
        lock: Any = make(client, factory, NAME)
        lock.acquire()
        hold = lock.hold
        rival = make(operator, "write" if factory == "read" else factory, NAME)
        thread = threading.Thread(target=_use, args=[rival])
        thread.start()
        line = SIDES_QUEUE if factory in SIDES else QUEUE
        wait_until(lambda: seen.zcard(line) + seen.llen(FAIR_QUEUE) == 1, 10, "it waits")
        fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
        breaking: Any = make(operator, factory, NAME)
        assert breaking.force_release(holder=hold.holder, reason="stuck")
        thread.join(SOON)
        assert not thread.is_alive()
        fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
        with pytest.raises(HoldLostError):
            lock.release()


def _use(lock: Any) -> None:
    with lock:
        pass
