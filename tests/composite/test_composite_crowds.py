"""Crowds that want several locks: nobody waits for ever, a stopped owner leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.composite.table import Table
from tests.lock.children import Child
from tests.lock.interrupting import Blow, SecondBlow
from tests.support.cards import own_keys
from tests.support.patience import GIVE_UP
from tests.support.servers import wait_until

import interlock
from interlock._core.locks.base import Acquire
from interlock._core.locks.composite import AcquireAll, Composite, CompositeHold, ReleaseAll
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.release import Release
from interlock._core.model.hold import Hold
from interlock._core.queue.places import Queues
from interlock._core.upkeep.garbage import Garbage
from interlock._core.upkeep.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.servers import RedisServer

CROWD = 20
NAMES = "abcdef"
ENDING = (
    *(Acquire, AcquireAll, Release, ReleaseAll, Composite, MultiLock),
    *(Hold, CompositeHold, Session, Garbage, Queues),
)
"""Whose methods end what is interrupted."""


async def test_random_subsets(table: Table) -> None:
    """Twenty owners of three clients take random subsets of six locks, and all finish.

    Each lock has one holder at a time.
    """
    draw = random.Random(7)
    clients = [table.client() for _ in range(3)]
    inside, entries = dict.fromkeys(NAMES, 0), list[int]()

    async def work(number: int) -> None:
        owner, client = table.owner(), clients[number % 3]
        for _ in range(3):
            names = draw.sample(NAMES, draw.randint(2, 4))
            lock = table.multi(client, *names)
            await owner.do(lock.acquire)
            for name in names:
                inside[name] += 1
            assert max(inside.values()) == 1
            await owner.do(client.lock("another").locked)
            for name in names:
                inside[name] -= 1
            entries.append(number)
            await owner.do(lock.release)

    await asyncio.wait_for(asyncio.gather(*map(work, range(CROWD))), 60)
    assert len(entries) == 3 * CROWD
    assert table.stored()[0] == []


async def test_two_who_both_give_way(table: Table) -> None:
    """Two owners in opposite orders that both give way do not keep in step for ever.

    Both give back what they have after about the same time, as Redisson does.
    """
    client, another = table.client(), table.client()
    lock, owner, other = table.multi(client, "a", "b"), table.owner(), table.owner()
    java = [another.lock("b"), another.lock("a")]

    async def as_java_does() -> None:
        done = False
        while not done:
            held = []
            for one in java:
                if not await other.do(one.acquire, timeout=1.5 * len(java)):
                    break
                held.append(one)
                await asyncio.sleep(0.05)  # long enough to meet the other
            done = len(held) == len(java)
            for one in held:
                await other.do(one.release)

    async def in_order() -> None:
        await owner.do(lock.acquire)
        await asyncio.sleep(0.05)  # long enough to meet the other
        await owner.do(lock.release)

    await asyncio.wait_for(asyncio.gather(in_order(), as_java_does()), 60)
    assert table.stored()[0] == []


KINDS = ["multi", "red"]


@pytest.mark.parametrize("kind", KINDS)
def test_killed(servers: Sequence[RedisServer], kind: str) -> None:
    """The hold of a killed process ends everywhere with its lease, and not much later."""
    code = f"""
    urls = url.split()
    clients = [renews_soon(interlock.connect(one, lease=4)) for one in urls]
    lock = interlock.{kind.title()}Lock(*[client.lock("name") for client in clients])
    lock.acquire()
    say("held")
    threading.Event().wait()
    """
    urls = [server.url() for server in servers[:3]]
    with Child(code, " ".join(urls)) as child:
        assert child.hear() == "held"
        assert [Table.keys_of(server) for server in servers[:3]] == [["name"]] * 3
        child.kill()
        clients = [interlock.connect(url) for url in urls]
        made = interlock.MultiLock if kind == "multi" else interlock.RedLock
        lock = made(*[client.lock("name") for client in clients])
        began = time.monotonic()
        assert lock.acquire(timeout=20)
        assert time.monotonic() - began < 10
        lock.release()
        for client in clients:
            client.close()


@contextlib.contextmanager
def _three(
    servers: Sequence[RedisServer],
) -> Iterator[tuple[list[interlock.Client], Callable[[], bool], list[interlock.Lock]]]:
    """Give clients of three servers, what tells whether a key is left there, and a lock of each."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(interlock.connect(s.url(), lease=60)) for s in servers[:3]]
        lookers = [stack.enter_context(server.client()) for server in servers[:3]]
        locks = [client.lock("name") for client in clients]
        yield clients, lambda: any(own_keys(each) for each in lookers), locks


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_second_ctrl_c_while_the_first_is_undone(
    servers: Sequence[RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ctrl-C strikes, and again in the undo, all members are held or none is."""
    with _three(servers) as (clients, left, locks):
        lock = interlock.MultiLock(*locks)
        with lock:
            pass  # the servers know the scripts from now on
        second, blow = SecondBlow(monkeypatch, *ENDING), Blow(1, returns=False)
        while blow.struck:
            # Each distance comes now and then.
            second.after(blow, blow.at * 11 % 120 + 1)
            with contextlib.suppress(KeyboardInterrupt), blow:
                lock.acquire()
            holds = [one.hold for one in locks]
            assert all(holds) or holds == [None] * 3, f"{blow} left {holds}"
            if all(holds):
                lock.release()
            wait_until(lambda: not left(), 10, f"{blow} leaves nothing")
            assert not [hold for c in clients for hold in c._over.session.live], f"{blow}"
            blow = blow.next()
    assert blow.at > 100


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_ctrl_c_while_a_reentry_is_undone(
    servers: Sequence[RedisServer], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No member goes down twice for one re-entry, by hand or by a block."""
    with _three(servers) as (clients, left, _):
        named = [client.lock("name") for client in clients]
        lock: Any = (interlock.MultiLock if kind == "multi" else interlock.RedLock)(*named)
        with lock, lock:
            pass  # the servers know the scripts from now on
        second, blow = SecondBlow(monkeypatch, *ENDING), Blow(1, returns=False)
        while blow.struck:
            assert lock.acquire()
            second.after(blow, blow.at * 11 % 120 + 1)
            with contextlib.suppress(KeyboardInterrupt), blow:
                lock.acquire()
                lock.release()
                with lock:
                    pass
            while lock.hold is not None:
                lock.release()
            wait_until(lambda: not left(), GIVE_UP, f"{blow} leaves nothing")
            blow = blow.next()
    assert blow.at > 100
