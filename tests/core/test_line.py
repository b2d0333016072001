"""The server's queue, where no face can see a rule."""

from __future__ import annotations

import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock._core.locks.release import Release
from interlock._core.model.hold import ENDED
from interlock._core.scripts.locks import ASK, RELEASE, lock_query
from interlock._core.upkeep.session import Answers, Work
from interlock._core.upkeep.watchdog import Renewal
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    import redis
    from tests.support.servers import RedisServer

NAME = "the name"
QUEUE, HELD = f"interlock_queue:{{{NAME}}}", "another:000000000001"
CHANNEL = f"redisson_lock__channel:{{{NAME}}}"
PROMPT = 1.0
"""Seconds within which nobody looks who listens."""


def test_a_mark_does_not_outlive_an_ask(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """Who let a grant end, and asks while another one holds the lock, stands at the end, unmarked."""
    redis_client.hset(NAME, HELD, 1)
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        got = pool.submit(lock.acquire, timeout=60)
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        ((member, came),) = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        wait_until(lambda: lock._core.session.lines[lock._core.channel].heard, 10, "it listens")
        redis_client.zadd(QUEUE, {member: -came}, xx=True)
        wake = f"interlock_wake:{{{NAME}}}:{lock._core.session.client_id}"
        redis_client.publish(wake, member.partition(b":")[2])
        wait_until(lambda: redis_client.zscore(QUEUE, member) > came, 10, "it has joined again")
        redis_client.delete(NAME)
        redis_client.publish(wake, member.partition(b":")[2])
        assert got.result(20)


def _turns(redis_client: redis.Redis, clients: Sequence[Any], kind: str = "lock") -> float:
    """Let one hold the lock while each of *clients* joins; return the longest hand-over.

    Each has its turn before those after it.
    """
    locks = [getattr(client, kind)(NAME) for client in clients]
    flows = [ThreadPoolExecutor(1) for _ in locks]
    assert flows[0].submit(locks[0].acquire).result(20)
    waits: list[Future[bool]] = []
    for flow, lock in zip(flows[1:], locks[1:], strict=True):
        waits.append(flow.submit(lock.acquire, timeout=60))
        wait_until(lambda: redis_client.zcard(QUEUE) == len(waits), 10, "it stands in the queue")
    longest = 0.0
    for number, wait in enumerate(waits):
        began = time.monotonic()
        flows[number].submit(locks[number].release).result(20)
        assert wait.result(20)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.2)
        assert not any(each.done() for each in waits[number + 1 :])
    flows[-1].submit(locks[-1].release).result(20)
    assert redis_client.keys("*") in ([], [f"redisson_lock_token:{{{NAME}}}".encode()])
    return longest


def test_a_client_without_rights_to_channels_waits_in_turn(
    server: RedisServer, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Who may neither subscribe nor publish acquires and releases in turn; a line of the log says why."""
    caplog.set_level(logging.WARNING, "interlock")
    redis_client.flushall()
    server.execute("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels")
    url = server.url(0, "mute", "secret")
    try:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(interlock.connect(url, card=False)) for _ in range(3)]
            assert _turns(redis_client, [*clients, clients[1]]) < PROMPT
            time.sleep(0.2)
    finally:
        server.execute("ACL", "DELUSER", "mute")
    told = [each for each in caplog.records if getattr(each, "event", "") == "messages.refused"]
    assert 1 <= len(told) <= len(clients)
    assert all("user app on >secret " in each.getMessage() for each in told)


def test_the_server_sets_the_pace_of_who_cannot_listen(redis_client: redis.Redis) -> None:
    """A refusal says to ask again after a quarter of the time for which the lock has been held."""
    script = ASK["PUBLISH"].text

    def ask() -> int:
        return redis_client.eval(script, 2, NAME, QUEUE, 30000, "c:1", CHANNEL, "?")[0]

    redis_client.hset(NAME, HELD, 1)
    assert ask() == 5
    assert ask() < 20
    (member,) = redis_client.zrange(QUEUE, 0, -1)
    assert member == b"c:1?"
    redis_client.zincrby(QUEUE, -200_000, member)
    assert 50 <= ask() < 90
    redis_client.zincrby(QUEUE, -1_000_000, member)
    assert ask() == 100
    seconds, rest = redis_client.time()
    redis_client.zadd(QUEUE, {HELD: -(seconds * 10**6 + rest)})
    assert ask() < 20, "by the grant, not by the wait"
    redis_client.pexpire(NAME, 2)
    assert -2 <= ask() <= 2


def test_who_cannot_be_told_is_not_granted_the_lock(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """A client without messages hands on to such as itself; in front of a listener it frees the lock."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        redis_client.hset(NAME, HELD, 1)
        got = pool.submit(lock.acquire, timeout=60)
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        redis_client.zadd(QUEUE, {"deaf:000000000001?": 1})
        script = RELEASE[""].text
        assert redis_client.eval(script, 2, NAME, QUEUE, HELD, 0, CHANNEL) == 1
        assert redis_client.hkeys(NAME) == [b"deaf:000000000001"]
        assert redis_client.eval(script, 2, NAME, QUEUE, "deaf:000000000001", 0, CHANNEL) == 1
        assert not redis_client.exists(NAME)
        assert redis_client.zrange(QUEUE, 0, -1, withscores=True)[0][1] > 0
        assert got.result(20)


def test_a_dead_client_that_could_not_listen_costs_its_grant(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """All its places are gone after the first one that let its grant pass."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        ours: Any = client.lock(NAME)
        theirs: Any = other.lock(NAME)
        assert ours.acquire()
        redis_client.zadd(QUEUE, {f"dead:{number:012}?": number for number in (1, 2, 3)})
        got = pool.submit(theirs.acquire, timeout=60)
        wait_until(lambda: redis_client.zcard(QUEUE) == 4, 10, "it stands in the queue")
        began = time.monotonic()
        ours.release()
        assert got.result(20)
        assert 2.5 < time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["lock", "fenced_lock"])
@pytest.mark.parametrize(
    ("lacking", "event", "latest", "lines"),
    [
        (["-publish"], "messages.refused", 6.0, 1),
        (["resetkeys", "~the?name", "~*token*"], "keys.refused", PROMPT, 2),
    ],
    ids=["publish", "queue"],
)
def test_a_client_does_without_a_right(
    server: RedisServer,
    redis_client: redis.Redis,
    pool: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    lacking: Sequence[str],
    event: str,
    latest: float,
    lines: int,
) -> None:
    """Without the queue's key its release wakes all; without PUBLISH others find out by looks.

    Each client logs the line that gives the right, once; that it may not publish, if it waits.
    """

    def told() -> list[str]:
        found = [each for each in caplog.records if getattr(each, "event", "") == event]
        return [each.getMessage() for each in found]

    caplog.set_level(logging.WARNING, "interlock")
    redis_client.flushall()
    server.execute("ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", *lacking)
    url = server.url(0, "poor", "secret")
    try:
        with (
            interlock.connect(url, card=False) as client,
            interlock.connect(url, card=False) as other,
        ):
            ours: Any = getattr(client, kind)(NAME)
            theirs: Any = getattr(other, kind)(NAME)
            for _ in range(2):
                assert ours.acquire()
                got = pool.submit(_acquired_and_released, theirs)
                wait_until(lambda: _hears(theirs), 10, "it listens")
                time.sleep(0.2)
                began = time.monotonic()
                ours.release()
                assert got.result(20)
                assert time.monotonic() - began < latest
            for lock in (ours, theirs):
                lock._core.session.wake(None)  # or a client may log it after the end of this test
            wait_until(lambda: len(told()) >= lines, 20, "it is logged")
            time.sleep(0.2)
    finally:
        server.execute("ACL", "DELUSER", "poor")
    assert len(told()) == lines
    assert all("user app on >secret " in text for text in told())


def _hears(lock: Any) -> bool:
    return any(line.heard for line in list(lock._core.session.lines.values()))


def _acquired_and_released(lock: Any) -> bool:
    got: bool = lock.acquire(timeout=60)
    lock.release()
    return got


@pytest.mark.parametrize("who", ["call", "upkeep"])
def test_a_release_is_sent_again_after_a_failure(
    redis_url: str, redis_client: redis.Redis, who: str
) -> None:
    """A server that took over without a release does not keep the lock until its lease ends."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        assert lock.acquire()
        (holder,) = redis_client.hkeys(NAME)
        lock.release()
        redis_client.hset(NAME, holder, 1)  # as the next server has it
        redis_client.pexpire(NAME, 30_000)
        state = lock._core.session
        failure = ServerUnavailableError("", transient=True)
        if who == "call":
            trial = state.persist(lock_query(NAME), state.clock() + 60)
            next(trial)
            trial.throw(failure)
        else:
            renewal = Renewal(lock_query(NAME), [], state.clock())
            state.wake(Answers(Work([], [renewal]), [failure], None))
        wait_until(lambda: not redis_client.exists(NAME), 5, "it is released there")


def test_a_release_is_sent_again_after_a_lost_subscription(
    server: RedisServer, redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """The next acquire of the same client, or of a waiter, gets the lock soon."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        other: Any = client.lock("another")
        assert lock.acquire()
        (holder,) = redis_client.hkeys(NAME)
        lock.release()
        redis_client.hset("another", HELD, 1)
        waiting = pool.submit(other.acquire, timeout=60)
        wait_until(lambda: _hears(other), 10, "it listens")
        redis_client.hset(NAME, holder, 1)
        redis_client.pexpire(NAME, 30_000)
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
        assert lock.acquire(timeout=10)
        lock.release()
        redis_client.delete("another")
        assert waiting.result(20)


@pytest.mark.parametrize("kind", ["lock", "fenced_lock"])
def test_a_lost_connection_costs_no_place(
    server: RedisServer,
    redis_url: str,
    redis_client: redis.Redis,
    pool: ThreadPoolExecutor,
    kind: str,
) -> None:
    """Who was passed over because his client did not listen for a moment stands where he stood."""
    redis_client.hset(NAME, HELD, 1)
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        lock: Any = getattr(client, kind)(NAME)
        later: Any = getattr(other, kind)(NAME)
        waits = [pool.submit(lock.acquire, timeout=60)]
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        ((member, came),) = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        waits.append(pool.submit(later.acquire, timeout=60))
        wait_until(lambda: redis_client.zcard(QUEUE) == 2, 10, "both stand in the queue")
        redis_client.zrem(QUEUE, member)
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
        wait_until(
            lambda: redis_client.zscore(QUEUE, member) is not None, 10, "it has joined again"
        )
        assert redis_client.zscore(QUEUE, member) == came
        wait_until(lambda: _hears(lock), 10, "it listens")
        redis_client.delete(NAME)
        assert waits[0].result(20)
        assert not waits[1].done()
        redis_client.delete(NAME)
        assert waits[1].result(20)


def test_a_release_that_was_sent_again_meanwhile_is_no_loss(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Another thread's command has failed, so the background releases the same id, and is first."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        assert lock.acquire()
        driver, step = lock._driver, Release().of(lock.hold._hold)
        assert step.begin() is not None
        driver.session.resend()
        redis_client.delete(NAME)
        assert not step.done(None)
        driver.run(step.rest(None))
        assert step.hold.over is ENDED
