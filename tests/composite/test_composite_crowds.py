"""Crowds that want several locks: nobody waits for ever, a stopped owner leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.composite.table import Table
from tests.lock.children import Child
from tests.lock.interrupting import STRUCK, Blow, Points, SecondBlow
from tests.lock.lock_like import queued
from tests.support.cards import own_keys
from tests.support.patience import GIVE_UP, let_others_run
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.servers import RedisServer

CROWD = 20
NAMES = "abcdef"


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


async def test_many_want_one_red_lock(table: Table) -> None:
    """Ten owners with two groups of clients get a red lock one at a time, and all get it."""
    groups = [table.clients() for _ in range(2)]
    inside, entries = list[int](), list[int]()

    async def work(number: int) -> None:
        lock, owner = table.red(groups[number % 2]), table.owner()
        for _ in range(3):
            await owner.do(lock.acquire)
            inside.append(number)
            assert inside == [number]
            await let_others_run(5)
            inside.remove(number)
            entries.append(number)
            await owner.do(lock.release)

    await asyncio.wait_for(asyncio.gather(*map(work, range(10))), 60)
    assert len(entries) == 30
    assert table.stored() == [[], [], []]


async def test_opposite_order(table: Table) -> None:
    """Two owners that take the same locks in opposite orders both get them.

    One of them takes the locks by hand, and gives none back while it waits for the next.
    """
    client, another = table.client(), table.client()
    lock, owner, other = table.multi(client, "a", "b"), table.owner(), table.owner()
    rounds = 2

    async def against_the_order() -> None:
        for _ in range(rounds):
            await other.do(another.lock("b").acquire)
            await asyncio.sleep(0.05)  # long enough to meet the other
            await other.do(another.lock("a").acquire)
            await other.do(another.lock("a").release)
            await other.do(another.lock("b").release)

    async def in_order() -> None:
        for _ in range(rounds):
            await owner.do(lock.acquire)
            await asyncio.sleep(0.05)  # long enough to meet the other
            await owner.do(lock.release)

    await asyncio.wait_for(asyncio.gather(in_order(), against_the_order()), 60)
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


def _make(table: Table, kind: str, clients: Sequence[Any]) -> Any:
    locks = [client.lock("name") for client in clients]
    made = table.face.module.MultiLock if kind == "multi" else table.face.module.RedLock
    return made(*locks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_cancelled_anywhere(tasks: Table, kind: str, moment: Any) -> None:
    """Wherever an acquire is cancelled, no member is left, and the task can acquire it at once."""
    lock = _make(tasks, kind, tasks.clients())
    await lock.acquire()
    await lock.release()
    number = 0
    while True:
        points = Points(number, moment)
        try:
            await points.run(lock.acquire())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            assert await lock.acquire(timeout=5)
        assert await lock.hold_count() == 1
        await lock.release()
        assert tasks.stored() == [[], [], []]
        if not points.reached:
            break
        number += 1
    assert number >= (3 if kind == "multi" else 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_while_waiting(tasks: Table, kind: str) -> None:
    """Who is cancelled while it waits for the last members gives back the first."""
    clients, others = tasks.clients(), tasks.clients()
    lock, owner = _make(tasks, kind, clients), tasks.owner()
    for other in others[1:]:
        await owner.do(other.lock("name").acquire)
    waiting = asyncio.create_task(lock.acquire())
    await queued(*clients)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for other in others[1:]:
        await owner.do(other.lock("name").release)
    assert tasks.stored() == [[], [], []]


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


@pytest.mark.filterwarnings("ignore:a block of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers
@pytest.mark.filterwarnings("ignore:hold of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_anywhere_in_a_with_statement(servers: Sequence[RedisServer], kind: str) -> None:
    """Wherever Ctrl-C strikes in a with statement, no member is left behind."""
    with _three(servers) as (_, left, locks):
        lock: Any = (interlock.MultiLock if kind == "multi" else interlock.RedLock)(*locks)
        blow = Blow(1)
        while blow.struck:
            with contextlib.suppress(KeyboardInterrupt), blow, lock:
                pass
            wait_until(
                lambda: not left() and not any(one.hold for one in locks),
                GIVE_UP,
                f"{blow} leaves nothing",
            )
            blow = blow.next()
    assert blow.at > 400


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_second_ctrl_c_while_the_first_is_undone(
    servers: Sequence[RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ctrl-C strikes, and again in the undo, all members are held or none is."""
    with _three(servers) as (clients, left, locks):
        lock = interlock.MultiLock(*locks)
        with lock:
            pass  # the servers know the scripts from now on
        second, blow = SecondBlow(monkeypatch, *STRUCK), Blow(1, returns=False)
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
            assert not [hold for c in clients for hold in c._driver.session.holds], f"{blow}"
            blow = blow.next()
    assert blow.at > 100


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_ctrl_c_while_a_reentry_is_undone(
    servers: Sequence[RedisServer], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No member goes down twice for one re-entry of an owner that several threads may share."""
    with _three(servers) as (clients, left, _):
        named = [client.lock("name", owner="me") for client in clients]
        lock: Any = (interlock.MultiLock if kind == "multi" else interlock.RedLock)(*named)
        with lock, lock:
            pass  # the servers know the scripts from now on
        second, blow = SecondBlow(monkeypatch, *STRUCK), Blow(1, returns=False)
        while blow.struck:
            assert lock.acquire()
            second.after(blow, blow.at * 11 % 120 + 1)
            with contextlib.suppress(KeyboardInterrupt), blow:
                lock.acquire()
            while lock.hold is not None:
                lock.release()
            wait_until(lambda: not left(), GIVE_UP, f"{blow} leaves nothing")
            blow = blow.next()
    assert blow.at > 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["free", "waiting"])
def test_interrupted_by_the_keyboard(servers: Sequence[RedisServer], kind: str, when: str) -> None:
    """Wherever Ctrl-C strikes, no member stays held.

    It strikes while the with statement is entered again and again, or while it waits.
    """
    code = f"""
    import warnings
    warnings.simplefilter("ignore", interlock.MisuseWarning)  # of a block that was never left
    urls = url.split()
    clients = [interlock.connect(one) for one in urls]
    locks = [client.lock("name") for client in clients]
    lock = interlock.{kind.title()}Lock(*locks)
    lock.acquire()
    lock.release()
    say("ready")
    for _ in range(6):
        sys.stdin.readline()
        try:
            say("begun")
            while True:
                with lock:
                    pass
        except KeyboardInterrupt:
            pass
        until = time.monotonic() + 30
        # A thread releases what the with statement did not know of yet.
        while any(one.hold is not None for one in locks) and time.monotonic() < until:
            pass
        assert [one.hold for one in locks] == [None] * 3
        say("interrupted")
    for client in clients:
        client.close()
    """
    used = servers[:3]
    draw = random.Random(11)
    others = [interlock.connect(server.url()) for server in used[1:]]
    try:
        with Child(code, " ".join(server.url() for server in used)) as child:
            assert child.hear() == "ready"
            for _ in range(6):
                if when == "waiting":
                    for other in others:
                        assert other.lock("name").acquire(timeout=10)
                child.tell()
                assert child.hear() == "begun"
                time.sleep(0.05 + draw.random() / 20)  # the moment of a real signal
                child.signal(signal.SIGINT)
                assert child.hear() == "interrupted"
                if when == "waiting":
                    for other in others:
                        other.lock("name").release()
                _soon_empty(used)
            assert child.end() == (0, "")
    finally:
        for other in others:
            other.close()


def _soon_empty(servers: Sequence[RedisServer]) -> None:
    wait_until(lambda: not any(map(Table.keys_of, servers)), 5, "nothing is left")
