"""What cannot be held together, and what had better not be."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.patience import let_others_run
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock._core.locks.lock_base import Acquire
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis
    from tests.composite.table import Table
    from tests.support.servers import RedisServer

MADE = ["MultiLock", "RedLock"]


@pytest.mark.parametrize("made", MADE)
async def test_no_members(table: Table, made: str) -> None:
    """Nothing cannot be held."""
    with pytest.raises(ConfigError, match="needs members"):
        getattr(table.face.module, made)()


@pytest.mark.parametrize("made", MADE)
async def test_the_same_lock_twice(table: Table, made: str) -> None:
    """A lock cannot be a member twice, not even by another client or as another kind of lock."""
    one, two = table.client(), table.client()
    make = getattr(table.face.module, made)
    for twin in (one.lock("name"), two.lock("name"), two.fair_lock("name"), one.spin_lock("name")):
        with pytest.raises(ConfigError, match="'name' is a member twice"):
            make(one.lock("other"), twin, one.lock("name"))


@pytest.mark.parametrize("made", MADE)
async def test_both_faces(table: Table, made: str) -> None:
    """Locks of sync and of asyncio clients cannot be held as one, whichever face is asked."""
    with interlock.connect(table.url) as sync:
        async with interlock.asyncio.connect(table.url) as tasks:
            for locks in ((sync.lock("a"), tasks.lock("b")), (tasks.lock("a"), sync.lock("b"))):
                for module in (interlock, interlock.asyncio):
                    with pytest.raises(ConfigError, match="sync and of asyncio"):
                        getattr(module, made)(*locks)
            with pytest.raises(ConfigError, match="a member must be a lock"):
                interlock.MultiLock(sync.lock("a"), "b")  # type: ignore[arg-type]


async def test_nested(table: Table) -> None:
    """Locks that are several themselves cannot be members."""
    client = table.client()
    inner = table.multi(client, "a", "b")
    with pytest.raises(ConfigError, match="several locks itself"):
        client.multi_lock(inner, client.lock("c"))


async def test_owner_words(table: Table) -> None:
    """It belongs to whom its members belong to by owner=, if that is one and the same."""
    a, b = table.clients()[:2]
    lock = table.face.module.MultiLock(a.lock("x", owner="job"), b.lock("x", owner="job"))
    same = table.face.module.MultiLock(b.lock("x", owner="job"), a.lock("x", owner="job"))
    nobody = table.face.module.MultiLock(a.lock("x"), b.lock("x"))
    one, two = table.owner(), table.owner()
    await one.do(lock.acquire)
    assert await two.do(same.acquire, timeout=0) is True
    assert await two.do(nobody.acquire, timeout=0) is False
    await one.do(same.release)
    await two.do(lock.release)
    assert table.stored() == [[], [], []]
    for other in (b.lock("x", owner="another"), b.lock("x")):
        with pytest.raises(ConfigError, match="owner="):
            table.face.module.MultiLock(a.lock("x", owner="job"), other)


@pytest.mark.parametrize("made", MADE)
def test_a_signal_just_after_a_member_was_entered(
    servers: Sequence[RedisServer], made: str
) -> None:
    """A Ctrl-C just after a shared owner has entered a member gives it back."""
    struck: list[int] = []

    def strike(frame: Any, event: str, entered: object) -> Any:
        ending = frame.f_code is Acquire.done.__code__ and event == "return"
        if ending and entered is True and not struck:
            struck.append(frame.f_lineno)
            raise KeyboardInterrupt
        return strike

    urls = [server.url() for server in servers[:3]]
    with ExitStack() as stack:
        clients = [stack.enter_context(interlock.connect(url)) for url in urls]
        members = [client.lock("struck", owner="job") for client in clients]
        lock = getattr(interlock, made)(*members)
        former = sys.gettrace()
        sys.settrace(strike)
        try:
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()
        finally:
            sys.settrace(former)
        assert struck
        # A red lock goes on without a server that is slow: the background releases it there.
        wait_until(lambda: not any(member.locked() for member in members), 10, "all are free")


@pytest.mark.parametrize("made", MADE)
async def test_a_cancelled_task_takes_nothing_from_its_word(tasks: Table, made: str) -> None:
    """What another task of the word holds stays when an acquire under it is cancelled."""
    clients, others = tasks.clients(), tasks.clients()

    def lock() -> Any:
        members = [client.lock("x", owner="job") for client in clients]
        return getattr(interlock.asyncio, made)(*members)

    blocking = [client.lock("x") for client in others]
    for client, other in zip(clients, blocking, strict=True):
        await other.acquire()
        assert await client.lock("x").locked()  # the client has begun
    one, two = lock(), lock()
    first, second = [asyncio.create_task(which.acquire(timeout=30)) for which in (one, two)]
    await let_others_run()  # both have looked what their word holds
    for other in blocking:
        await other.release()
    assert await first
    second.cancel()
    [outcome] = await asyncio.gather(second, return_exceptions=True)
    # A red lock that tried before the last release is held by two of three members.
    least = 2 if made == "RedLock" else 3
    for held in [one, two] if outcome is True else [one]:
        assert sum([await other.locked() for other in blocking]) >= least
        await held.release()
    assert tasks.stored() == [[], [], []]


@pytest.mark.parametrize("ended", ["cancelled", "failed"])
async def test_an_acquire_that_ends_leaves_what_others_of_its_word_entered(
    tasks: Table, ended: str
) -> None:
    """A member that another task of the word entered meanwhile goes down by one depth."""
    client, other = tasks.client(), tasks.client()
    blocking = other.lock("b")
    await blocking.acquire()
    both = client.multi_lock(client.lock("a", owner="job"), client.lock("b", owner="job"))
    first = asyncio.create_task(both.acquire(timeout=30))
    await until(lambda: tasks.servers[0].execute("EXISTS", "a"), 5, "the first one has a")
    entered = client.lock("a", owner="job")
    await entered.acquire()
    if ended == "cancelled":
        first.cancel()
    else:
        _ = tasks.servers[0].execute("SET", "b", "something else")
    [outcome] = await asyncio.gather(first, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError | interlock.WrongTypeError)
    assert tasks.servers[0].execute("HVALS", "a") == [b"1"]
    assert not await other.lock("a").acquire(timeout=0)
    await entered.release()
    assert not await other.lock("a").locked()


def test_a_member_that_was_waited_for_behind_its_word_is_given_back(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """A multi lock in vain gives back a member that another thread of its word acquired first."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        foreign = [other.lock("a"), other.lock("b")]
        for lock in foreign:
            lock.acquire()
        mine = client.lock("a", owner="job")
        both = client.multi_lock(client.lock("a", owner="job"), client.lock("b", owner="job"))
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(mine.acquire)
            wait_until(lambda: redis_client.zcard("interlock_queue:{a}") == 1, 5, "it waits")
            second = pool.submit(both.acquire, timeout=1.5)
            time.sleep(0.3)  # it looks whether the other thread has it
            foreign[0].release()
            assert first.result(30)
            assert not second.result(30)
        assert redis_client.hvals("a") == [b"1"]
        mine.release()
        assert foreign[0].acquire(timeout=0)


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (1, "survives the loss of 0: take an odd number"),
        (2, "survives the loss of 0, as one over 1 does"),
        (4, "survives the loss of 1, as one over 3 does"),
    ],
)
async def test_a_weak_red_lock(five: Table, count: int, why: str) -> None:
    """Fewer than three servers, or an even number, cause a warning at the user's line.

    The warning says why.
    """
    locks = [client.lock("name") for client in five.clients()[:count]]
    with pytest.warns(UserWarning, match=why) as caught:
        five.face.module.RedLock(*locks)
    with pytest.warns(UserWarning, match=why) as by_factory:
        five.client().red_lock(*locks)
    assert {warning.filename for warning in (*caught, *by_factory)} == {__file__}


async def test_several_members_on_one_server(table: Table) -> None:
    """A quorum of one server is warned of; a multi lock of one server is not."""
    client = table.client()
    with pytest.warns(UserWarning, match="3 members on 1 servers"):
        client.red_lock(*[client.lock(name) for name in "abc"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.multi_lock(*[client.lock(name) for name in "abc"])
        table.face.module.RedLock(*[other.lock("name") for other in table.clients()])


async def test_names(table: Table) -> None:
    """It is called what its members are called, each name once, and shows what is known of it."""
    client = table.client()
    multi, red = table.multi(client, "b", "a"), table.red(table.clients())
    assert (multi.name, red.name) == ("a + b", "name")
    assert repr(multi) == "<MultiLock 'a + b' not held here>"
    owner = table.owner()
    await owner.do(red.acquire)
    assert (await owner.do(repr, red)).startswith("<RedLock 'name' <Hold 'name' valid holder=")
    await owner.do(red.release)


def test_many_members_of_one_client(servers: Sequence[RedisServer]) -> None:
    """Twenty members of one client are released by one write on one connection, without threads."""
    with interlock.connect(servers[0].url()) as client:
        lock: Any = client.multi_lock(*[client.lock(f"n{number}") for number in range(20)])
        before = threading.active_count()
        for _ in range(3):
            with lock:
                assert len(servers[0].execute("KEYS", "*")) == 20  # type: ignore[arg-type]
        assert threading.active_count() <= before + 1
        listed = servers[0].execute("CLIENT", "LIST")
        assert isinstance(listed, list | bytes | str)
        [pool] = client._driver._pool._pools.values()
        assert len(pool._open) == 1
