"""The write lock's queue on the server: claims, writers, and readers in the queue and beside it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import resting
from tests.read_write.wire import CHANNEL
from tests.support.patience import GIVE_UP
from tests.support.scripts import run_script
from tests.support.servers import wait_until

import interlock
from interlock._core.scripts import read_write_lock as scripts
from interlock._core.scripts.script import stand_in_queue

if TYPE_CHECKING:
    import redis
    from tests.read_write.wire import Wire

    from interlock._core.model.effects import Eval

QUEUE = "interlock_queue:{name}"
PROMPT = 10
"""Seconds: far below the poll cap of these clients."""


@pytest.fixture
def store(redis_client: redis.Redis) -> redis.Redis:
    """Give a real server."""
    return redis_client


def run(store: Any, call: Eval[Any]) -> Any:
    """Run a script there."""
    return run_script(store.eval, call)


def writes(number: int, client: str = "me", *, others_wait: bool = False) -> Eval[Any]:
    """Return the acquire of a writer whose client has a place."""
    call = scripts.write_lock_acquire("name", 30, f"{client}:{number}:write", 1)
    stand_in_queue(call, client, queue=QUEUE, others_wait=others_wait, keep=10)
    return call


def reads(number: int, client: str = "me") -> Eval[Any]:
    """Return the acquire of a reader whose client has a place."""
    call = scripts.read_lock_acquire(
        *("name", "{name}:", 30, f"{client}:{number}", 1, ""), publish="PUBLISH"
    )
    stand_in_queue(call, client, queue=QUEUE, others_wait=False, keep=10)
    scripts.tell_readers(call, CHANNEL)
    return call


def test_a_writer_that_is_refused_stands_in_the_queue(store: Any) -> None:
    """A refused writer stands in the queue once, and leaves it when it has the lock."""
    reader = scripts.read_lock_acquire("name", "{name}:", 30, "a:1", 1, "")
    run(store, reader)
    for _ in range(2):
        assert 0 < run(store, writes(1)) <= 30_000
    assert store.zrange(QUEUE, 0, -1) == [b"me"]
    store.hdel("name", "a:1", "mode")
    assert run(store, writes(1)) is None
    assert store.zcard(QUEUE) == 0
    assert store.hgetall("name") == {b"mode": b"write", b"me:1:write": b"1"}


def test_who_leaves_others_behind_stays_in_the_queue(store: Any) -> None:
    """A client whose other threads wait stands at the end of the queue again."""
    store.zadd(QUEUE, {"me": 1})
    assert run(store, writes(1, others_wait=True)) is None
    assert run(store, writes(1, "you")) > 29_000
    assert store.zrange(QUEUE, 0, -1) == [b"me", b"you"]


def test_a_claim_is_a_writers_once(store: Any) -> None:
    """A claim becomes the hold of one writer of its client, for its lease; nobody else gets it."""
    claim(store)
    for other in (writes(1, "you"), reads(1, "you")):
        assert 0 < run(store, other) <= 20_000
    assert run(store, writes(1)) is None
    assert run(store, writes(1)) is None, "sent twice"
    assert run(store, writes(2)) > 29_000
    assert store.hgetall("name") == {b"mode": b"write", b"me:1:write": b"1"}
    assert store.pttl("name") > 29_000


def test_a_claim_is_read_from_by_the_first_of_its_client(store: Any) -> None:
    """A client whose first waiter wants to read makes its claim a reader's, and others may read."""
    claim(store)
    assert run(store, reads(1)) is None
    assert run(store, reads(1)) is None, "sent twice"
    assert store.hgetall("name") == {b"mode": b"read", b"me:1": b"1"}
    assert store.pttl("name") > 29_000
    assert store.pttl("{name}:me:1:rwlock_timeout:1") > 29_000
    assert run(store, reads(2, "you")) is None
    assert run(store, writes(2)) > 29_000


def test_a_claim_that_is_read_from_is_announced_once(wire: Wire) -> None:
    """A reader that makes its client's claim its own tells those who wait to read, once."""
    claim(wire.redis)
    assert run(wire.redis, reads(1)) is None
    assert wire.heard() == ["01"]
    assert run(wire.redis, reads(1)) is None, "sent twice"
    assert run(wire.redis, reads(2, "you")) is None
    assert wire.heard() == []


def claim(store: Any, client: str = "me") -> None:
    """Give the lock to *client*."""
    words = ("mode", "write", f"{client}:0:write", "1")
    store.eval("redis.call('hset', KEYS[1], unpack(ARGV))", 1, "name", *words)
    store.pexpire("name", 20_000)  # a busy machine must not end the claim


def test_what_was_left_free_is_not_a_newcomers(store: Any) -> None:
    """A client that comes when the lock is left to others stands in the queue first."""
    store.eval("redis.call('zadd', KEYS[1], 1, 'first')", 1, QUEUE)
    assert run(store, writes(1)) == 20
    assert run(store, reads(1, "you")) == 20
    assert store.zrange(QUEUE, 0, -1) == [b"first", b"me", b"you"]
    assert run(store, reads(1, "you")) is None
    assert store.zrange(QUEUE, 0, -1) == [b"first", b"me"]


def test_a_claim_is_shown_and_can_be_taken_away(redis_url: str, wire: Wire) -> None:
    """A claim is a writer's to everybody else: to Redisson, to a look, to an operator."""
    with interlock.connect(redis_url) as client:
        client.read_write_lock("name").read.locked()
        claim(wire.redis, "abc")
        assert 0 < wire.java_reads() <= 20_000
        assert 0 < wire.java_writes() <= 20_000
        lock = client.read_write_lock("name")
        assert lock.write.locked()
        assert not lock.read.locked()
        shown = client.describe("name")
        assert shown is not None
        assert (shown.kind, shown.mode) == ("read_write_lock", "write")
        assert [(each.holder, each.mode) for each in shown.holders] == [("abc:0:write", "write")]
        assert lock.write.force_release()
        assert wire.heard() == ["1"]


HEARD = (CHANNEL, "interlock_waiting:{name}", "interlock_wake:{name}:me")
"""What a client *me* listens to while it has a place."""


def hold(store: Any, side: str) -> Eval[Any]:
    """Take the lock on a side; return its release."""
    if side == "write":
        run(store, scripts.write_lock_acquire("name", 30, "a:1:write", 1))
        return scripts.write_lock_release("name", "a:1:write", 0, "PUBLISH", CHANNEL)
    run(store, scripts.read_lock_acquire("name", "{name}:", 30, "a:1", 1, ""))
    return scripts.read_lock_release("name", "{name}:", "a:1", 0, 1, "PUBLISH", CHANNEL)


def told(ears: Any, count: int = 2) -> list[bytes]:
    """Return the next *count* messages."""
    messages: list[bytes] = []
    until = time.monotonic() + 10
    while len(messages) < count and time.monotonic() < until:
        message = ears.get_message(timeout=0.1)
        messages += [] if message is None else [message["data"]]
    return messages


@pytest.mark.parametrize("side", ["write", "read"])
def test_a_release_is_a_claim_of_the_first_who_listens(
    redis_client: redis.Redis, wire: Wire, side: str
) -> None:
    """A release passes over who does not listen, and a claim that is given up is passed on."""
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(*HEARD)
        wait_until(lambda: redis_client.pubsub_numsub(HEARD[2])[0][1] == 1, 5, "it listens")
        wire.close()  # it would count as one of those who stand in no queue
        wait_until(lambda: redis_client.pubsub_numsub(CHANNEL)[0][1] == 1, 5, "it is gone")
        future = 2 * time.time_ns() // 10**6  # who only looks had a turn
        redis_client.zadd(QUEUE, {"dead": 1, "me": 2, ":left": future})
        call = hold(redis_client, side)
        with redis_client.pipeline() as pipe:  # one transaction: a claim lasts 250 ms
            pipe.eval(call.script.text, len(call.keys), *call.keys, *call.args)
            pipe.hgetall("name")
            pipe.pttl("name")
            done, claimed, left = pipe.execute()
        assert done == 3
        assert claimed == {b"mode": b"write", b"me:0:write": b"1"}
        assert 0 < left <= 250
        assert redis_client.zrange(QUEUE, 0, -1) == [b":left"]
        leaving = scripts.write_lock_release(
            *("name", "me:0:write", 0, "PUBLISH", CHANNEL), leaving=("me",)
        )
        assert run(redis_client, leaving) == 1
        assert redis_client.exists("name") == 0
        assert told(ears) == [b"0", b"1"]


@pytest.mark.parametrize("side", ["write", "read"])
def test_a_release_makes_the_writer_that_waits_alone_the_holder(
    redis_client: redis.Redis, side: str
) -> None:
    """The message has its number, the time and the side; the key is never gone in between."""
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(*HEARD)
        wait_until(lambda: redis_client.pubsub_numsub(HEARD[2])[0][1] == 1, 5, "it listens")
        call = hold(redis_client, side)
        waits = scripts.write_lock_acquire("name", 30, "me:7:write", 1)
        stand_in_queue(waits, "me", queue=QUEUE, others_wait=False, keep=10, starts=True)
        left, refused_at = run(redis_client, waits)
        assert 0 < left <= 30_000
        # Who only looks had a turn.
        redis_client.zadd(QUEUE, {":left": 2 * time.time_ns() // 10**6})
        with redis_client.pipeline() as pipe:  # one transaction: a claim lasts 250 ms
            pipe.eval(call.script.text, len(call.keys), *call.keys, *call.args)
            pipe.hgetall("name")
            pipe.pttl("name")
            done, held, ends_in = pipe.execute()
        assert done == 3
        assert held == {b"mode": b"write", b"me:7:write": b"1"}
        assert 0 < ends_in <= 250
        [message] = told(ears, 1)
        number, at, needs = message.split(b":")
        assert (number, needs) == (b"=7", b"write")
        assert int(at) > int(refused_at)


@pytest.mark.parametrize(("side", "message"), [("write", b"01"), ("read", b"00")])
def test_every_other_release_is_left_to_those_who_only_listen(
    redis_client: redis.Redis, side: str, message: bytes
) -> None:
    """While somebody listens without a place, one release in two leaves the lock free."""
    with (
        redis_client.pubsub(ignore_subscribe_messages=True) as ears,
        redis_client.pubsub(ignore_subscribe_messages=True) as other,
    ):
        ears.subscribe(*HEARD)
        other.subscribe(CHANNEL)
        wait_until(lambda: redis_client.pubsub_numsub(CHANNEL)[0][1] == 2, 5, "both listen")
        redis_client.zadd(QUEUE, {"me": 1, ":turns": 1})
        run(redis_client, hold(redis_client, side))
        assert redis_client.exists("name") == 0
        assert told(ears) == [message, b"20"]
        call = hold(redis_client, side)
        with redis_client.pipeline() as pipe:  # as above
            pipe.eval(call.script.text, len(call.keys), *call.keys, *call.args)
            pipe.hgetall("name")
            _, claimed = pipe.execute()
        assert claimed == {b"mode": b"write", b"me:0:write": b"1"}


class Crowd:
    """Clients that wait for one read/write lock until they are let in, each in a thread."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        self._url = url
        self._stack = stack
        self._pool = stack.enter_context(ThreadPoolExecutor(10))
        self.clients: list[interlock.Client] = []

    def client(self) -> interlock.Client:
        """Return a client that seldom looks by itself."""
        client = self._stack.enter_context(interlock.connect(self._url, poll_cap=30))
        self.clients.append(client)
        return client

    def enter(self, side: Any) -> Any:
        """Wait for *side* in a thread."""
        return self._pool.submit(side.acquire)


@pytest.fixture
def crowd(redis_url: str) -> Any:
    """Give who waits."""
    with ExitStack() as stack:
        yield Crowd(stack, redis_url)


def _listening(redis_client: redis.Redis, crowd: Crowd, count: int) -> None:
    wait_until(
        lambda: redis_client.pubsub_numsub(CHANNEL)[0][1] == count, 5, "they hear the channel"
    )
    wait_until(resting(*crowd.clients), 10, "they have looked after that")


def test_the_last_reader_gives_the_lock_to_the_first_writer(
    crowd: Crowd, redis_client: redis.Redis
) -> None:
    """The release of the last reader wakes the first writer in the queue, and nobody else."""
    readers = [crowd.client().read_write_lock("name").read for _ in range(2)]
    for reader in readers:
        reader.acquire()
    writers, waits = [], []
    for number in range(2):
        writers.append(crowd.client().read_write_lock("name").write)
        waits.append(crowd.enter(writers[-1]))
        wait_until(lambda n=number: redis_client.zcard(QUEUE) > n, 5, "it stands in the queue")
    _listening(redis_client, crowd, 2)
    readers[0].release()
    assert not any(wait.done() for wait in waits)
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.psubscribe("*")
        ears.get_message(timeout=1)
        readers[1].release()
        waits[0].result(PROMPT)
        heard: Any = ears.get_message(timeout=1)
        assert heard["channel"].startswith(b"interlock_wake:{name}:")
        assert ears.get_message(timeout=0.1) is None
    assert not waits[1].done()
    writers[0].release()
    waits[1].result(PROMPT)
    writers[1].release()


def test_all_readers_come_in_together(crowd: Crowd, redis_client: redis.Redis) -> None:
    """A writer's release lets in all readers at once, of clients with a place and without."""
    mixed, plain = crowd.client(), crowd.client()
    holder = crowd.client().read_write_lock("name").write
    holder.acquire()
    # A client that has waited to write has a place; its readers wait in the queue.
    assert not mixed.read_write_lock("name").write.acquire(timeout=0.2)
    waits = [crowd.enter(c.read_write_lock("name").read) for c in (mixed, mixed, plain, plain)]
    _listening(redis_client, crowd, 2)
    holder.release()
    for wait in waits:
        wait.result(PROMPT)
    assert redis_client.hlen("name") == 5


def test_a_downgrade_lets_readers_in_past_writers_in_the_queue(
    crowd: Crowd, redis_client: redis.Redis
) -> None:
    """A writer that goes on reading lets in readers with and without a place, and no writer."""
    mixed, plain, third = (crowd.client() for _ in range(3))
    lock = crowd.client().read_write_lock("name")
    lock.write.acquire()
    lock.read.acquire()
    assert not mixed.read_write_lock("name").write.acquire(timeout=0.2)
    reading = [crowd.enter(each.read_write_lock("name").read) for each in (mixed, plain)]
    writer = third.read_write_lock("name").write
    writing = crowd.enter(writer)
    _listening(redis_client, crowd, 3)
    lock.write.release()
    for wait in reading:
        wait.result(PROMPT)
    assert not writing.done()
    assert redis_client.hlen("name") == 4
    lock.read.release()


def test_a_writer_behind_a_reader_of_its_client_hears_of_its_turn(
    crowd: Crowd, redis_client: redis.Redis
) -> None:
    """A client that first waited to read, and then to write, is woken for both."""
    client = crowd.client()
    reader, writer = (client.read_write_lock("name") for _ in "12")
    holder = crowd.client().read_write_lock("name").write
    holder.acquire()
    reading = crowd.enter(reader.read)
    _listening(redis_client, crowd, 1)
    writing = crowd.enter(writer.write)
    wait_until(lambda: redis_client.zcard(QUEUE) == 1, 5, "the client stands in the queue")
    holder.release()
    reading.result(PROMPT)
    assert not writing.done()
    reader.read.release()
    writing.result(PROMPT)


def test_readers_and_writers_all_have_their_turns(crowd: Crowd) -> None:
    """Clients that only write, only read, or do both all get the lock, and nobody has to poll."""
    until = time.monotonic() + GIVE_UP
    names = ("writes 1", "writes 2", "writes 3", "reads 1", "reads 2", "both 1", "both 2")
    waits: dict[str, list[float]] = {name: [] for name in names}

    def work(name: str, *sides: Any) -> None:
        mine = waits[name]
        while min(map(len, waits.values())) <= 20 and time.monotonic() < until:
            for side in sides:
                began = time.monotonic()
                side.acquire()
                mine.append(time.monotonic() - began)
                side.locked()
                side.release()

    working = []
    with ThreadPoolExecutor(7) as pool:
        for name in names:
            lock = crowd.client().read_write_lock("name")
            sides = {"w": [lock.write], "r": [lock.read], "b": [lock.read, lock.write]}[name[0]]
            working.append(pool.submit(work, name, *sides))
        for each in working:
            each.result(2 * GIVE_UP)
    for name, mine in waits.items():
        assert len(mine) > 20, name
        assert max(mine) < PROMPT, name


FLEET = """
import redis
client = interlock.connect(url, poll_cap=30)
lock, server = client.read_write_lock("name").write, redis.Redis.from_url(url)
server.ping()
say("ready")
for _ in range(int(sys.stdin.readline())):
    with lock:
        server.rpush("turns", os.getpid())
say("done")
sys.stdin.readline()
"""


def test_a_fleet_of_writers_shares_evenly(redis_url: str, redis_client: redis.Redis) -> None:
    """Processes that all want to write take turns, for three commands and one message each."""
    turns = 80
    with ExitStack() as stack:
        fleet = [stack.enter_context(Child(FLEET, redis_url)) for _ in range(5)]
        for child in fleet:
            assert child.hear() == "ready"
        client = stack.enter_context(interlock.connect(redis_url))
        with client.read_write_lock("name").write:
            redis_client.config_resetstat()
            for child in fleet:
                child.tell(str(turns))
            wait_until(lambda: redis_client.zcard(QUEUE) == len(fleet), 30, "all of them wait")
        for child in fleet:
            assert child.hear(GIVE_UP) == "done"
        calls = redis_client.info("commandstats")
        order = [int(pid) for pid in redis_client.lrange("turns", 0, -1)]
    assert len(order) == turns * len(fleet)
    for child in fleet:
        own = [at for at, pid in enumerate(order) if pid == child.pid]
        # A process that has no processor between two turns misses some. Most often all want one.
        assert median(after - at for at, after in pairwise(own)) == len(fleet)
    assert calls["cmdstat_evalsha"]["calls"] <= 3.2 * len(order) + 20
    assert calls["cmdstat_publish"]["calls"] <= 1.1 * len(order) + 20
