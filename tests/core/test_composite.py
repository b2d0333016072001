"""Multi and red locks, where a rule is theirs alone: parts, queues, endings."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import joint
from tests.core.strikes import strike
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

import interlock
import interlock.asyncio
from interlock._core.locks import multi_lock, red_lock, together
from interlock._core.locks.composite import CompositeHold
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.red_lock import RedLock
from interlock._drivers.flow import current_owner
from interlock.errors import HoldLostError, NotHeldError, QuorumError, ReentryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

PROMPT = 2.5
"""Seconds for what takes milliseconds; no lease and no poll helps within that time."""
NAMES = ("a", "b", "c")
pytestmark = pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the servers of red locks waited for: a busy machine may not run them in time."""
    monkeypatch.setattr(together, "LINGER", 5.0)
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", 5.0)
    monkeypatch.setattr(red_lock, "MOST_PATIENCE", 5.0)


@pytest.fixture
def client(redis_url: str) -> Iterator[interlock.Client]:
    """Return a client."""
    with interlock.connect(redis_url, lease=90) as client:
        yield client


@pytest.fixture
def other(redis_url: str) -> Iterator[interlock.Client]:
    """Return another client."""
    with interlock.connect(redis_url, lease=90) as client:
        yield client


@pytest.fixture(scope="module")
def servers() -> Iterator[Sequence[RedisServer]]:
    """Give three servers."""
    with ExitStack() as stack:
        yield [stack.enter_context(RedisServer()) for _ in range(3)]


@pytest.fixture
def clients(servers: Sequence[RedisServer]) -> Iterator[list[interlock.Client]]:
    """Return a client of each of three servers."""
    with ExitStack() as stack:
        for server in servers:
            server.execute("FLUSHALL")
        yield [stack.enter_context(interlock.connect(each.url(), lease=90)) for each in servers]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads that wait."""
    with ThreadPoolExecutor() as pool:
        yield pool


def locks(client: Any, *names: str) -> list[Any]:
    """Return the plain locks *names* of *client*."""
    return [client.lock(name) for name in names or NAMES]


def multi(client: Any, *names: str) -> Any:
    """Return the multi lock of *names*."""
    return joint(MultiLock, *locks(client, *names))


def left(*clients: Any) -> list[object]:
    """Return what *clients* still have, but for what nobody can tell them of any more."""
    states = [each._over.session for each in clients]
    mine = [hold for hold in current_owner().table.values() if hold.lock.session in states]
    waiting = [w for state in states for line in state.lines.values() for w in line.waiters]
    return [*mine, *waiting, *[hold for state in states for hold in state.live]]


def turn(lock: Any) -> bool:
    """Acquire *lock* for a moment."""
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


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "spin_lock"])
def test_a_member_and_the_whole_enter_each_other(
    client: interlock.Client, pool: ThreadPoolExecutor, kind: str
) -> None:
    """They are holds of one owner; what both have is free when both are left, in any order."""
    member = getattr(client, kind)("b")
    lock = joint(MultiLock, client.lock("a"), member)
    with lock, member as hold:
        assert hold.depth == 2
    with member, lock as whole:
        assert whole.depth == 1
    assert lock.acquire()
    assert member.acquire()
    lock.release()
    assert pool.submit(turn, client.lock("a")).result()
    assert not pool.submit(member.acquire, timeout=0).result()
    member.release()
    assert pool.submit(turn, lock).result()


def test_a_member_that_the_owner_releases_is_a_loss_of_the_whole(
    client: interlock.Client, redis_client: redis.Redis
) -> None:
    """Its release says so, and frees the others."""
    a, b = locks(client, "a", "b")
    lock = joint(MultiLock, a, b)
    assert lock.acquire()
    b.release()
    assert not lock.hold.valid
    with pytest.raises(NotHeldError):
        lock.release()
    assert redis_client.keys("?") == []
    assert lock.acquire(timeout=0)
    lock.release()


@pytest.mark.parametrize("make", [MultiLock, RedLock])
def test_a_reentry_asks_no_server(client: interlock.Client, make: Any) -> None:
    """It counts here, unless it is for a longer lease."""
    lock = joint(make, *locks(client))
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


def test_members_that_are_not_reentrant(client: interlock.Client) -> None:
    """The whole is not either; and nothing is left of a try that is refused for that."""
    once = client.lock("b", reentrant=False)
    lock = joint(MultiLock, client.lock("a"), once)
    with lock, pytest.raises(ReentryError):
        lock.acquire()
    with once, pytest.raises(ReentryError):
        lock.acquire()
    assert left(client) == []


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


def test_a_round_just_before_the_end_of_an_acquire_takes_no_part(
    client: interlock.Client, other: interlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acquired long before the last member is not taken for what nobody acquires."""
    lock, (last,), ended = multi(client), locks(other, "c"), CompositeHold.stop_listening

    def ends(hold: CompositeHold) -> None:
        session = hold.lock.session
        for part in hold.parts:
            part.sent_at -= 40  # more than a third of the lease ago
        _ = session.watchdog._round(session.clock())
        ended(hold)

    assert last.acquire()
    threading.Timer(0.2, last.hold.release).start()
    monkeypatch.setattr(CompositeHold, "stop_listening", ends)
    assert lock.acquire(timeout=20)
    assert lock.hold.valid
    lock.release()


def test_a_release_gives_each_member_to_its_first_waiter(
    client: interlock.Client, other: interlock.Client, pool: ThreadPoolExecutor
) -> None:
    """The script for all leaves alone those that others wait for."""
    lock, began = multi(client), 0.0
    with lock:
        waits = [pool.submit(turn, other.lock(name)) for name in ("a", "c")]
        state = other._over.session
        wait_until(lambda: len(state.queues.places) == 2, 10, "both wait")
        wait_until(
            lambda: all(h.place.refused for h in list(state.queues.places.values())),
            10,
            "they stand",
        )
        began = time.monotonic()
    assert [each.result(20) for each in waits] == [True, True]
    assert time.monotonic() < began + PROMPT


def test_locks_that_overlap_never_wait_in_a_ring(
    client: interlock.Client, other: interlock.Client, pool: ThreadPoolExecutor
) -> None:
    """Whatever the order of their members; and all have turns."""
    wholes = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "b", "a")]
    inside = dict.fromkeys(NAMES, 0)

    def play(number: int) -> None:
        names = wholes[number % 4]
        lock = multi((client, other)[number % 2], *names)
        for _ in range(25):
            with lock:
                for name in names:
                    inside[name] += 1
                    assert inside[name] == 1
                for name in names:
                    inside[name] -= 1

    began = time.monotonic()
    for each in [pool.submit(play, number) for number in range(8)]:
        each.result(60)
    print(f"took {time.monotonic() - began:.2f} s")
    assert left(client, other) == []


def test_who_takes_members_in_another_order_is_given_way(
    client: interlock.Client, other: interlock.Client, pool: ThreadPoolExecutor, monkeypatch: Any
) -> None:
    """Nobody waits for ever."""
    monkeypatch.setattr(multi_lock, "MEMBER_BUDGET", 0.2)
    a, b = locks(other, "a", "b")
    with b:
        waits = pool.submit(turn, multi(client, "a", "b"))
        wait_until(a.locked, 10, "it has the first")
        with a:
            pass
    assert waits.result(20)


def test_a_member_that_is_lost_at_the_end(
    client: interlock.Client, other: interlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are acquired anew if one is lost just as the leases are made whole."""
    lock, (last,), extend, ended = multi(client), locks(other, "c"), MultiLock.extend_parts, []

    def extends(self: MultiLock, hold: CompositeHold, lease: float) -> Any:
        if not ended:
            ended.append(hold.parts[0])
            client._over.session.watchdog.lose(hold.parts[0], "expired")
        return extend(self, hold, lease)

    monkeypatch.setattr(MultiLock, "extend_parts", extends)
    assert last.acquire()
    threading.Timer(0.2, last.hold.release).start()
    assert lock.acquire(timeout=20, lease=30)
    assert ended
    assert lock.hold.valid
    lock.release()


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


@pytest.mark.parametrize("make", [MultiLock, RedLock])
def test_members_of_several_clients(
    clients: list[interlock.Client],
    servers: Sequence[RedisServer],
    pool: ThreadPoolExecutor,
    make: Any,
) -> None:
    """All are asked at once; a waiter is woken by a release; nothing is left."""
    members = [client.lock("name") for client in clients]
    lock = joint(make, *members)
    with lock as hold:
        assert hold.valid
        assert [server.execute("EXISTS", "name") for server in servers] == [1, 1, 1]
        waits = pool.submit(turn, joint(make, *members))
        assert not pool.submit(lock.acquire, timeout=0.1).result()
        assert not waits.done()
        began = time.monotonic()
    assert waits.result(20)
    assert time.monotonic() < began + PROMPT
    wait_until(lambda: not any(each.locked() for each in members), 10, "all are free")
    wait_until(lambda: left(*clients) == [], 10, "nothing is left here")


@pytest.mark.parametrize(("make", "lost"), [(MultiLock, 1), (RedLock, 2)])
def test_a_loss(
    clients: list[interlock.Client], servers: Sequence[RedisServer], make: Any, lost: int
) -> None:
    """Too few parts are a loss, told once; the release says so, and frees the others."""
    members, told = [client.lock("name") for client in clients], list[str]()
    lock = joint(make, *members)
    hold = lock.__enter__()
    hold.on_lost(lambda: told.append("lost"))
    for number in range(lost):
        assert hold.valid
        part: Any = members[number].hold
        assert members[number].force_release(part.holder, "by hand")
    assert hold.lost.wait(PROMPT)
    wait_until(lambda: told == ["lost"], 10, "it is told")
    with pytest.raises(HoldLostError, match="by hand") as caught:
        lock.release()
    assert caught.value.reason == "force-released"
    assert [server.execute("EXISTS", "name") for server in servers] == [0, 0, 0]
    assert lock.acquire(timeout=PROMPT)
    lock.release()


def test_a_red_lock_without_a_majority(clients: list[interlock.Client]) -> None:
    """A minority of others is no matter; with a majority nothing is left of the try."""
    members = [client.lock("name") for client in clients]
    lock = joint(RedLock, *members)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(members[0].acquire).result()
        with lock as hold:
            assert len(hold._hold.parts) == 2
        assert pool.submit(members[1].acquire).result()
        assert not lock.acquire(timeout=0)
        for member in members[:2]:
            pool.submit(member.release).result()
    wait_until(lambda: not members[2].locked(), PROMPT, "it is given back")
    assert left(*clients[2:]) == []


def test_a_red_lock_whose_servers_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minority costs little time; a majority is an error that names them."""
    monkeypatch.setattr(together, "LINGER", 0.01)
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", 0.5)
    monkeypatch.setattr(red_lock, "MOST_PATIENCE", 0.5)
    with ExitStack() as stack:
        servers = [stack.enter_context(RedisServer()) for _ in range(3)]
        clients = [
            stack.enter_context(interlock.connect(each.url(), outage_timeout=0.3))
            for each in servers
        ]
        lock = joint(RedLock, *[client.lock("name") for client in clients])
        with lock:
            pass
        servers[0].pause()
        began = time.monotonic()
        for _ in range(3):
            with lock as hold:
                assert hold.valid
        assert time.monotonic() < began + 2 * PROMPT
        servers[1].pause()
        with pytest.raises(QuorumError) as caught:
            lock.acquire(timeout=0)
        assert len(caught.value.causes) == 2
        for server in servers[:2]:
            server.resume()
        wait_until(lambda: not any(each.execute("EXISTS", "name") for each in servers), 10, "free")


def test_a_client_that_is_closed(clients: list[interlock.Client]) -> None:
    """What is left is no hold any more, and a release frees the others."""
    members = [client.lock("name") for client in clients]
    lock = joint(MultiLock, *members)
    assert lock.acquire()
    hold = lock.hold
    clients[1].close()
    assert not hold
    with pytest.raises(NotHeldError):
        lock.release()
    assert not members[0].locked()
    assert not members[2].locked()


@pytest.mark.parametrize("make", [MultiLock, RedLock])
@pytest.mark.filterwarnings("ignore:.*was never released:UserWarning")
def test_what_nobody_can_release_any_more(
    client: interlock.Client, other: interlock.Client, make: Any
) -> None:
    """A block that is dropped, and a thread that ends, free all members soon."""
    lock, theirs = joint(make, *locks(client)), multi(other)

    def block() -> Iterator[None]:
        with lock:
            yield

    dropped = block()
    next(dropped)
    del dropped
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert theirs.acquire(timeout=PROMPT)
        theirs.release()
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        del thread
        assert theirs.acquire(timeout=PROMPT)
        theirs.release()
    assert left(client, other) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_holds_nothing(client: interlock.Client) -> None:
    """Its parent's hold is over there, and keeps it out."""
    lock = multi(client)
    with lock as hold:
        child = os.fork()
        if child == 0:
            fine = False
            try:
                fine = not hold.valid and lock.hold is None and not lock.acquire(timeout=0)
            finally:
                os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert hold.valid


STRIDE = 29
"""Opcodes between two strikes."""


@pytest.mark.parametrize("make", [MultiLock, RedLock])
@pytest.mark.parametrize("waits", [False, True], ids=["free", "waits"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a struck socket
def test_a_strike_anywhere_leaves_nothing(
    client: interlock.Client, other: interlock.Client, make: Any, waits: bool
) -> None:
    """In an acquire or a release: others get all members at once."""
    lock, theirs, holder = joint(make, *locks(client)), multi(other), other.lock("b")
    second = other.lock("c")
    state = client._over.session

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
        state.garbage.unreleased.clear()
        if not struck:
            break
        at += STRIDE
    assert at > 10 * STRIDE


async def test_tasks_of_several_clients(servers: Sequence[RedisServer]) -> None:
    """They wait for each other, and a cancelled one leaves nothing."""
    clients = [interlock.asyncio.connect(server.url(), lease=90) for server in servers]
    for make in (MultiLock, RedLock):
        lock = joint(make, *[client.lock("name") for client in clients])

        async def once(lock: Any = lock) -> bool:
            async with lock as hold:
                return bool(hold.valid)

        async with lock:
            waiting = [asyncio.create_task(once()) for _ in range(3)]
            await asyncio.sleep(0.2)
            _ = waiting[1].cancel()
        assert await asyncio.wait_for(waiting[0], 20)
        assert await asyncio.wait_for(waiting[2], 20)
        with pytest.raises(asyncio.CancelledError):
            await waiting[1]
        assert await once()
    for client in clients:
        await client.close()
