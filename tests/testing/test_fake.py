"""The fake server: every object works on it, on both faces, and it ends with its block."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.lock.lock_like import KINDS, Kind, Stage, resting, take_turn, until
from tests.support.patience import GIVE_UP, wait_until

import interlock
import interlock.asyncio
import interlock.testing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.lock.lock_like import Face

LONG = 250.0
"""Seconds: who waits is woken by a message or by the end of a lease, not by looking again."""
SHORT = 0.5
"""Seconds of a lease that a test lets end."""
PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/testing.md"
USERS_TESTS = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@contextlib.asynccontextmanager
async def staged(face: Face, kind: Kind) -> AsyncIterator[Stage]:
    """Give a stage for *kind* on as many fake servers as it takes."""
    with contextlib.ExitStack() as stack:
        url, *others = (
            stack.enter_context(interlock.testing.fake()).url for _ in range(kind.servers)
        )
        server = stack.enter_context(redis.Redis.from_url(url))
        stage = Stage(face, kind, url, server, others, poll_cap=LONG)
        try:
            yield stage
        finally:
            await stage.end()


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.reentrant], ids=lambda kind: kind.name
)
async def test_every_lock(face: Face, kind: Kind) -> None:
    """A lock is acquired, refused, waited for, passed on by a message, and freed by its lease."""
    async with staged(face, kind) as stage:
        ours, theirs = stage.owner(), stage.owner()
        lock, other = stage.lock(stage.client()), stage.lock(stage.client())
        assert await ours.do(lock.acquire)
        assert await ours.do(lock.acquire)
        assert await ours.do(lock.hold_count) == 2
        assert not await theirs.do(other.acquire, blocking=False)
        assert await theirs.do(other.locked)
        waiting = asyncio.create_task(theirs.do(other.acquire, timeout=GIVE_UP))
        await stage.waits()
        await ours.do(lock.release)
        await ours.do(lock.release)
        assert await waiting
        await theirs.do(other.release)
        assert stage.left_behind() == set()

        assert await ours.do(lock.acquire, lease=SHORT)
        assert await theirs.do(other.acquire, timeout=GIVE_UP)
        with pytest.raises(interlock.HoldLostError):
            await ours.do(lock.release)
        assert await ours.do(lock.force_release)


async def readers(stage: Stage) -> None:
    """Readers share the lock; a writer waits until the last of them has left."""
    reader, another, writer = (stage.owner() for _ in range(3))
    one, two = (stage.client() for _ in range(2))
    locks = [each.read_write_lock("it") for each in (one, two)]
    assert await reader.do(locks[0].read.acquire)
    assert await another.do(locks[1].read.acquire)
    assert await reader.do(locks[0].read.locked)
    assert not await writer.do(locks[1].write.acquire, blocking=False)
    waiting = asyncio.create_task(writer.do(locks[1].write.acquire, timeout=GIVE_UP))
    await stage.waits()
    await reader.do(locks[0].read.release)
    await another.do(locks[1].read.release)
    assert await waiting
    await writer.do(locks[1].write.release)
    assert await reader.do(locks[0].read.acquire, lease=SHORT)
    assert await writer.do(locks[1].write.acquire, timeout=GIVE_UP)


async def semaphore(stage: Stage) -> None:
    """A permit that comes back wakes who waits for it."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().semaphore("it", 2) for _ in range(2))
    assert await ours.do(one.acquire, 2)
    assert not await theirs.do(two.acquire, blocking=False)
    waiting = asyncio.create_task(theirs.do(two.acquire, timeout=GIVE_UP))
    await stage.waits()
    await ours.do(one.release)
    assert await waiting
    await ours.do(one.add_permits, 3)
    assert await ours.do(one.drain_permits) == 3
    assert await ours.do(one.delete)


async def leased_semaphore(stage: Stage) -> None:
    """A permit is taken, refused, given back, and ends with its lease. Nobody waits for one."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().leased_semaphore("it", 1) for _ in range(2))
    permit = await ours.do(one.acquire)
    assert await theirs.do(two.try_acquire) is None
    await ours.do(one.release, permit)
    permit = await ours.do(one.acquire, lease=SHORT)
    await until(lambda: theirs.do(two.available_permits), 10, "the permit ended")
    with pytest.raises(interlock.HoldLostError):
        await ours.do(one.release, permit)
    assert await theirs.do(two.delete)


async def limited(stage: Stage) -> None:
    """At most *n* are inside, and the next one is refused. Nobody waits."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().limited("it", 1, timeout=0) for _ in range(2))
    await ours.do(stage.face.enter, one)
    with pytest.raises(interlock.AcquireTimeoutError):
        await theirs.do(stage.face.enter, two)
    await ours.do(stage.face.leave, one)
    await theirs.do(stage.face.enter, two)
    await theirs.do(stage.face.leave, two)


async def latch(stage: Stage) -> None:
    """The last count opens the latch for all who wait."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().count_down_latch("it", 2) for _ in range(2))
    await ours.do(one.count_down)
    assert await theirs.do(two.count) == 1
    assert not await theirs.do(two.wait, 0)
    waiting = asyncio.create_task(theirs.do(two.wait, GIVE_UP))
    await stage.waits()
    await ours.do(one.count_down)
    assert await waiting


async def event(stage: Stage) -> None:
    """An event wakes all who wait for it, and can be cleared."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().event("it") for _ in range(2))
    assert not await theirs.do(two.wait, 0)
    waiting = asyncio.create_task(theirs.do(two.wait, GIVE_UP))
    await stage.waits()
    await ours.do(one.set)
    assert await waiting
    await ours.do(one.clear)
    assert not await theirs.do(two.is_set)


async def condition(stage: Stage) -> None:
    """A notification wakes one that waits, who has the lock again then."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().condition("it") for _ in range(2))
    await theirs.do(two.acquire)
    assert not await theirs.do(two.wait, 0)
    waiting = asyncio.create_task(theirs.do(two.wait, GIVE_UP))
    await ours.do(one.acquire)
    await ours.do(one.notify)
    await ours.do(one.release)
    assert await waiting
    await theirs.do(two.release)


async def barrier(stage: Stage) -> None:
    """The last party lets all through; a party that gives up breaks the barrier."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().barrier("it", 2) for _ in range(2))
    waiting = asyncio.create_task(theirs.do(two.wait, GIVE_UP))
    await stage.waits()
    assert await ours.do(one.wait, GIVE_UP) == 1
    assert await waiting == 0
    with pytest.raises(interlock.BrokenBarrierError):
        await ours.do(one.wait, 0.1)


async def election(stage: Stage) -> None:
    """One leads, the next one follows once he resigns, or once his lease has ended."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client().election("it") for _ in range(2))
    assert await ours.do(one.acquire)
    assert await theirs.do(two.leader) is not None
    assert not await theirs.do(two.acquire, blocking=False)
    waiting = asyncio.create_task(theirs.do(two.acquire, timeout=GIVE_UP))
    await stage.waits()
    await ours.do(one.release)
    assert await waiting
    await theirs.do(two.release)
    assert await ours.do(one.acquire, lease=SHORT)
    assert await theirs.do(two.acquire, timeout=GIVE_UP)


async def ticket(stage: Stage) -> None:
    """A hold is handed over, adopted by another client, and released by its ticket."""
    ours, theirs = stage.owner(), stage.owner()
    one, two = (stage.client() for _ in range(2))
    for use in ("adopt", "ticket"):
        lock = one.lock("it")
        await ours.do(lock.acquire)
        hold = await ours.do(lambda lock=lock: lock.hold)
        text = str(await ours.do(hold.hand_over))
        assert not await ours.do(lock.acquire, blocking=False)
        taken = await theirs.do(getattr(two, use), text)
        await theirs.do(taken.release)
        assert not await ours.do(lock.locked)


OBJECTS: list[Callable[[Stage], Coroutine[Any, Any, None]]] = [
    readers, semaphore, leased_semaphore, limited, latch, event, condition, barrier, election,
    ticket,
]  # fmt: skip


@pytest.mark.parametrize("play", OBJECTS, ids=lambda play: play.__name__)
async def test_every_object(face: Face, play: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Each other object does what it promises, while two clients contend."""
    async with staged(face, KINDS[0]) as stage:
        await play(stage)


def test_operators_see_what_is_held() -> None:
    """The client lists what is held, and says of a key of another kind what it is."""
    with interlock.testing.fake() as client, redis.Redis.from_url(client.url) as server:
        with client.lock("it"):
            assert [found.name for found in client.locks()] == ["it"]
            about = client.describe("it")
            assert about is not None
            assert about.kind == "lock"
        assert list(client.locks()) == []
        server.set("text", "text")
        with pytest.raises(interlock.WrongTypeError, match="string"):
            client.lock("text").acquire()


def test_each_fake_is_empty_and_takes_options() -> None:
    """Two fakes share nothing, and the client has the options that it was given."""
    with interlock.testing.fake(lease=7) as client, interlock.testing.fake() as other:
        assert isinstance(client, interlock.Client)
        with client.lock("it") as hold, other.lock("it"):
            assert 0 < hold.remaining <= 7
    with pytest.raises(interlock.ConfigError), interlock.testing.fake(lease=-1):
        pass
    assert not serving()


def serving() -> list[str]:
    """Return the threads of fake servers."""
    return [thread.name for thread in threading.enumerate() if thread.name == "interlock-fake"]


def test_it_ends_while_clients_are_connected() -> None:
    """The server ends with its block, also by an error, and whoever is still connected notices."""
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), interlock.testing.fake() as fake:
        client = interlock.connect(fake.url, outage_timeout=0.1)
        lock = client.lock("it")
        assert lock.acquire()
        raise ZeroDivisionError
    assert not serving()
    with pytest.raises(interlock.ServerUnavailableError):
        client.close()
    assert threading.active_count() == before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(fake.url.rpartition(":")[2])))


def test_messages_arrive_where_there_is_no_fcntl(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, where fakeredis leaves its sockets blocking, waiters are woken all the same."""
    monkeypatch.setattr("fakeredis._clients._tcp_server.HAS_FCNTL", False)
    with interlock.testing.fake() as ours, interlock.connect(ours.url, poll_cap=LONG) as theirs:
        lock = ours.lock("it")
        lock.acquire()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(take_turn, theirs.lock("it"), GIVE_UP)
            wait_until(resting(theirs), 10, "it waits")
            lock.release()
            assert waiting.result()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_users_tests(tmp_path: Path, workers: str) -> None:
    """The tests of the how-to pass in a user's project, also in several processes."""
    for name, source in USERS_TESTS:
        (tmp_path / name).write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-n", workers)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, tmp_path],
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "5 passed" in done.stdout, done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("lacking", ["fakeredis", "lupa"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """Whoever asks for a fake without the extra is told what to install."""
    monkeypatch.delitem(sys.modules, "interlock.testing._fakeredis", raising=False)
    monkeypatch.setitem(sys.modules, lacking, None)
    with (
        pytest.raises(ModuleNotFoundError, match=rf"{lacking}.*pip install 'interlock\[testing\]'"),
        interlock.testing.fake(),
    ):
        pass
