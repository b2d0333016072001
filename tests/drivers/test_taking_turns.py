"""Threads that wait take turns at receiving the messages of their client, and nobody is forgotten.

The clients look only every `FOREVER` seconds. A client that gets the lock before that was told by a
message.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import waiters
from tests.support.patience import GIVE_UP
from tests.support.servers import wait_until

import interlock
from interlock._drivers import threads
from interlock._drivers.background import subscriber
from interlock._drivers.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    import redis

    from interlock._drivers.background.subscriber import NodeSubscriber

FOREVER = 100.0
PROMPT = 10.0
"""Seconds: far below `FOREVER`, and far above what a message takes."""

pytestmark = pytest.mark.needs("gcc")  # without the part in C no thread takes turns


class Room:
    """A client whose threads wait, and another one that holds the locks."""

    def __init__(self, url: str, pool: ThreadPoolExecutor) -> None:
        self.client = interlock.connect(url, poll_cap=FOREVER, lease=FOREVER)
        self.other = interlock.connect(url, lease=FOREVER)
        self.pool = pool

    @property
    def lane(self) -> NodeSubscriber:
        """The subscriber of the client's only server."""
        whole: Any = self.client._driver._subscriber
        [lane] = whole._lanes.values()
        return lane

    def wait(self, name: str, timeout: float | None = None) -> Future[bool]:
        """Start a thread that waits for *name*, which is held; return when it waits."""
        waits = self.lane._waits if self.subscribed else 0
        future = self.pool.submit(self._acquire, name, timeout)
        wait_until(lambda: self.subscribed and self.lane._waits > waits, 10, "it waits")
        wait_until(self.receiving, 10, "somebody receives")
        return future

    @property
    def subscribed(self) -> bool:
        """Whether the client has a connection for messages."""
        whole: Any = self.client._driver._subscriber
        return any(lane.hearing for lane in whole._lanes.values())

    def receiving(self) -> bool:
        """Whether a thread receives."""
        connection = self.lane._connection
        return connection is not None and connection.token.locked()

    def _acquire(self, name: str, timeout: float | None) -> bool:
        lock = self.client.lock(name)
        got = lock.acquire() if timeout is None else lock.acquire(timeout=timeout)
        if got:
            lock.release()
        return got

    def settle(self) -> None:
        """Let one message pass. After that, a thread that waits alone receives its messages."""
        with self.other.lock("first"):
            future = self.wait("first")
        assert future.result(PROMPT)
        wait_until(lambda: not self.receiving(), 10, "the subscriber's thread rests")

    def receives_alone(self) -> None:
        """Check that the thread that waits receives, and not the subscriber's."""
        wait_until(lambda: self.receiving() and not self.lane._asleep, 10, "it receives")


@pytest.fixture
def room(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Room]:
    """Give a room where neither the waiting threads nor the subscriber's look unless called."""
    del redis_client
    monkeypatch.setattr(subscriber, "IDLE_INTERVAL", FOREVER)
    monkeypatch.setattr(subscriber, "PING_INTERVAL", FOREVER)
    monkeypatch.setattr(threads, "MEND_INTERVAL", FOREVER)
    with ThreadPoolExecutor(10) as pool:
        room = Room(redis_url, pool)
        yield room
        room.client.close()
        room.other.close()


def test_who_waits_alone_receives(room: Room) -> None:
    """After the first message it is the waiting thread that receives; and it gets the lock."""
    room.settle()
    with room.other.lock("name"):
        future = room.wait("name")
        room.receives_alone()
    assert future.result(PROMPT)


def test_who_stops_calls_the_thread(room: Room) -> None:
    """One receives and one sleeps; when the first has its lock, the second still hears of its."""
    room.settle()
    second_lock = room.other.lock("b")
    second_lock.acquire()
    with room.other.lock("a"):
        first = room.wait("a")
        room.receives_alone()
        second = room.wait("b")
        wait_until(lambda: bool(room.lane._asleep), 10, "the second sleeps")
    assert first.result(PROMPT)
    wait_until(room.receiving, 10, "the thread receives now")
    second_lock.release()
    assert second.result(PROMPT)


def test_who_gives_up_calls_the_thread(room: Room) -> None:
    """The same when the time of the first is over."""
    room.settle()
    second_lock = room.other.lock("b")
    second_lock.acquire()
    with room.other.lock("a"):
        first = room.wait("a", 1.0)
        second = room.wait("b")
        assert not first.result(PROMPT)
        second_lock.release()
        assert second.result(PROMPT)


def test_the_lock_is_handed_over_to_who_receives(room: Room) -> None:
    """A release by another thread of the client wakes the thread that receives."""
    room.settle()
    lock = room.client.lock("name")
    lock.acquire()
    future = room.wait("name")
    room.receives_alone()
    lock.release()
    assert future.result(PROMPT)


def test_a_lost_connection_is_replaced(room: Room, redis_client: redis.Redis) -> None:
    """If the connection ends while a waiting thread receives, another one is opened."""
    room.settle()
    with room.other.lock("name"):
        future = room.wait("name")
        room.receives_alone()
        before = room.lane._connection
        redis_client.client_kill_filter(_type="pubsub")
        wait_until(lambda: room.lane._connection not in (before, None), 10, "it is replaced")
        wait_until(lambda: room.lane.hearing, 10, "it is heard")
        wait_until(
            lambda: redis_client.pubsub_numsub("redisson_lock__channel:{name}")[0][1] == 1,
            10,
            "it is subscribed",
        )
    assert future.result(PROMPT)


@pytest.mark.parametrize(
    "nonsense",
    [b"*0\r\n", b"*1\r\n+message\r\n", b"*3\r\n+message\r\n:1\r\n+0\r\n", b":7\r\n"],
    ids=repr,
)
def test_nonsense_is_left_to_the_thread(
    room: Room, monkeypatch: pytest.MonkeyPatch, nonsense: bytes
) -> None:
    """The thread that waits raises nothing; the other one reports it, and connects anew."""
    reports: list[Exception] = []
    monkeypatch.setattr(subscriber, "report", lambda _, error: reports.append(error))
    room.settle()
    with room.other.lock("name"):
        future = room.wait("name")
        room.receives_alone()
        before = room.lane._connection
        assert before is not None
        assert before.bell is not None
        before.messages.append(nonsense)
        before.bell[0].send(b"!")
        wait_until(lambda: bool(reports), 10, "it is reported")
        wait_until(lambda: room.lane._connection not in (before, None), 10, "there is another")
    assert future.result(PROMPT)
    assert len(reports) == 1


def test_a_pong_is_no_reason_to_stop(room: Room) -> None:
    """The thread that waits goes on to receive after the answer to a PING."""
    room.settle()
    with room.other.lock("name"):
        future = room.wait("name")
        room.receives_alone()
        heard, connection = room.lane._heard_at, room.lane._connection
        assert connection is not None
        connection.send("PING")
        wait_until(lambda: room.lane._heard_at > heard, 10, "it is heard")
        room.receives_alone()
    assert future.result(PROMPT)


def test_close_ends_who_receives(room: Room) -> None:
    """A thread that receives gets ClosedError at once, and nothing is left open."""
    room.settle()
    with room.other.lock("name"):
        future = room.wait("name")
        room.receives_alone()
        began = time.monotonic()
        connection = room.lane._connection
        assert connection is not None
        assert connection.bell is not None
        room.client.close()
        with pytest.raises(interlock.ClosedError):
            future.result(PROMPT)
        assert time.monotonic() - began < PROMPT
    assert connection.bell is None


def test_many_threads_and_many_locks(room: Room) -> None:
    """Each of many waiting threads gets its lock again and again, no matter who receives."""
    names = [f"name{number}" for number in range(4)]
    until = time.monotonic() + GIVE_UP
    counts = dict.fromkeys(itertools.product((room.client, room.other), names), 0)

    def turns(client: interlock.Client, name: str) -> None:
        while min(counts.values()) <= 20 and time.monotonic() < until:
            with client.lock(name):
                counts[client, name] += 1

    with ThreadPoolExecutor(len(counts)) as pool:
        for done in [pool.submit(turns, *each) for each in counts]:
            done.result(2 * GIVE_UP)
    assert min(counts.values()) > 20, counts


HANDLER = """
client = interlock.connect(url, poll_cap=100, lease=100)
first, second = client.lock("a"), client.lock("b")
with client.lock("first"):  # the threads start
    pass

second_has_it = threading.Event()

def elsewhere():
    second.acquire()
    say("second has it")
    second_has_it.set()

def handler(*_):
    say("in the handler")
    ENDS

signal.signal(signal.SIGUSR1, handler)
thread = threading.Thread(target=elsewhere, daemon=True)
thread.start()
say("ready")
try:
    first.acquire()
except KeyboardInterrupt:
    say("interrupted")
    thread.join(30)
else:
    say("first has it")
client.close()
say("over")
"""


HANGS = 'say("told meanwhile" if second_has_it.wait(60) else "not told")'


@pytest.mark.parametrize("ends", [HANGS, "raise KeyboardInterrupt"], ids=["hangs", "raises"])
def test_a_signal_handler_stops_nobody_else(
    redis_client: redis.Redis, redis_url: str, ends: str
) -> None:
    """While the handler runs in the thread that received, or raises there, others are told."""
    with interlock.connect(redis_url, lease=FOREVER) as holder:
        locks = [holder.lock(name) for name in "ab"]
        for lock in locks:
            lock.acquire()
        with Child(HANDLER.replace("ENDS", ends), redis_url) as child:
            assert child.hear() == "ready"
            channels = [f"redisson_lock__channel:{{{name}}}" for name in "ab"]
            wait_until(
                lambda: [n for _, n in redis_client.pubsub_numsub(*channels)] == [1, 1],
                10,
                "they are subscribed",
            )
            child.signal(signal.SIGUSR1)
            assert child.hear() == "in the handler"
            if ends != HANGS:
                assert child.hear() == "interrupted"
            locks[1].release()
            assert child.hear() == "second has it"
            if ends == HANGS:
                assert child.hear() == "told meanwhile"
            locks[0].release()
            if ends == HANGS:
                assert child.hear() == "first has it"
            assert child.hear() == "over"


@pytest.mark.parametrize("kind", [Exception, TimeoutError, OSError, BaseException])
def test_what_a_signal_handler_raises_comes_out(
    redis_url: str, redis_client: redis.Redis, kind: type[BaseException]
) -> None:
    """An alarm ends the acquire that receives or sleeps, whatever its class, and harms nothing."""
    del redis_client

    class AlarmError(kind):  # type: ignore[misc, valid-type]
        pass

    def strike(*_: object) -> None:
        if waiters(client):  # else the alarm comes again
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise AlarmError

    former = signal.signal(signal.SIGALRM, strike)
    try:
        with (
            interlock.connect(redis_url, poll_cap=FOREVER) as client,
            interlock.connect(redis_url) as other,
        ):
            lock, theirs = client.lock("name"), other.lock("name")
            for _ in range(3):
                with theirs:
                    for seconds in (0.02, 0.3, 1.3):
                        with pytest.raises(AlarmError):
                            signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
                            lock.acquire(timeout=GIVE_UP)
                    whole: Any = client._driver._subscriber
                    [lane] = whole._lanes.values()
                    before = lane._connection
                    with ThreadPoolExecutor(1) as pool:
                        future = pool.submit(lock.acquire)
                        wait_until(lambda: waiters(client) == 1, 10, "it waits")
                        theirs.release()
                        assert future.result(PROMPT)
                        pool.submit(lock.release).result(PROMPT)
                    assert lane._connection is before, "it went on with the same connection"
                    assert theirs.acquire(timeout=PROMPT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _ = signal.signal(signal.SIGALRM, former)


def test_a_reply_before_the_poll_is_handled(room: Room) -> None:
    """If somebody has received and left a reply, the thread does not wait for the next one."""
    room.settle()
    connection = room.lane._connection
    assert connection is not None
    connection.messages.append(b"*2\r\n+pong\r\n+\r\n")
    began = time.monotonic()
    assert connection.receive_in_turn(None, FOREVER)
    assert time.monotonic() - began < PROMPT
    connection.messages.clear()


def test_a_ring_before_the_poll_is_heard(room: Room) -> None:
    """A wake-up that rang before its thread had the token ends the wait, without the bell."""
    room.settle()
    connection = room.lane._connection
    assert connection is not None
    wakeup = Wakeup()
    wakeup()
    began = time.monotonic()
    assert connection.receive_in_turn(wakeup.lock, FOREVER)
    assert time.monotonic() - began < PROMPT


def test_a_finished_thread_leaves_nothing(room: Room) -> None:
    """After many waits nobody is asleep, and no message is left."""
    for _ in range(20):
        room.settle()
    lane = room.lane
    assert not lane._asleep
    assert lane._connection is not None
    assert not lane._connection.messages
    assert threading.active_count() < 30
