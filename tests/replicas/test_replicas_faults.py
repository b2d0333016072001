"""An acquire that is interrupted, or loses its server, while it waits for replicas."""

from __future__ import annotations

import asyncio
import itertools
import operator
import signal
import threading
import time
from _thread import interrupt_main
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lock.lock_like import until
from tests.replicas.bed import PROMPT, Bed
from tests.support.holding import acquires
from tests.support.proxy import FaultProxy, command, drop_reply
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import ReplicationError
from interlock._links import exchange as exchange_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import ReplicatedServers

LONG = 20.0
"""Seconds that replicas are given where something else is to end the wait."""


@pytest.fixture
def stopped(replicated: ReplicatedServers) -> Iterator[ReplicatedServers]:
    """Give a primary whose two replicas stand still."""
    for replica in replicated.replicas:
        replica.pause()
    yield replicated
    for replica in replicated.replicas:
        replica.resume()


async def test_a_cancelled_wait_leaves_nothing_behind(stopped: ReplicatedServers) -> None:
    """A cancelled wait for replicas ends at once and gives the lock back.

    The client serves others meanwhile, and closes at once.
    """
    url = stopped.primary.url()
    async with interlock.asyncio.connect(url, replicas=interlock.required(2, LONG)) as client:
        task = asyncio.create_task(acquires(client.lock("name")))
        await until(lambda: stopped.primary.execute("EXISTS", "name") == 1, 20, "it is granted")
        started = time.monotonic()
        assert await client.lock("other").locked() is False
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not stopped.primary.execute("EXISTS", "name"), 10, "it is given back")
    assert time.monotonic() - started < PROMPT


def test_a_ctrl_c_leaves_nothing_behind(stopped: ReplicatedServers) -> None:
    """A Ctrl-C in the wait for replicas ends the acquire at once; the lock is given back."""
    with interlock.connect(stopped.primary.url(), replicas=interlock.required(2, LONG)) as client:
        lock, main = client.lock("name"), threading.main_thread().ident
        assert main is not None
        pressed: list[float] = []

        def press() -> None:
            wait_until(lambda: stopped.primary.execute("EXISTS", "name") == 1, 20, "it is granted")
            pressed.append(time.monotonic())
            signal.pthread_kill(main, signal.SIGINT)

        presser = threading.Thread(target=press)
        with pytest.raises(KeyboardInterrupt):
            presser.start()
            lock.acquire()
        ended = time.monotonic()
        presser.join()
        assert ended - pressed[0] < PROMPT
        assert lock.hold is None
        wait_until(lambda: not stopped.primary.execute("EXISTS", "name"), 10, "it is given back")


@pytest.mark.needs("gcc")
def test_a_ctrl_c_just_before_the_wait_is_heard(
    stopped: ReplicatedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C between the last step in Python and the wait in the kernel ends the wait too."""
    assert exchange_module._in_c is not None
    ask, exchange, send_all = exchange_module._in_c
    struck: list[float] = []
    reads = itertools.count(1)

    def struck_exchange(handle: Any, data: bytes, seconds: float) -> bytes:
        if next(reads) != 2:  # the script answers the first one
            return exchange(handle, data, seconds)
        struck.append(time.monotonic())
        # All of this is C: no signal handler runs between the signal and the wait.
        calls = [(interrupt_main,), (exchange, handle, data, seconds)]
        return cast("bytes", deque(itertools.starmap(operator.call, calls), maxlen=1).pop())

    monkeypatch.setattr(exchange_module, "_in_c", (ask, struck_exchange, send_all))
    with interlock.connect(stopped.primary.url(), replicas=interlock.required(2, LONG)) as client:
        with pytest.raises(KeyboardInterrupt):
            client.lock("name").acquire()
        assert time.monotonic() - struck[0] < PROMPT
        wait_until(lambda: not stopped.primary.execute("EXISTS", "name"), 10, "it is given back")


def test_closing_ends_the_wait(stopped: ReplicatedServers) -> None:
    """A client that closes in an acquire gives the lock back, though its replicas are silent."""
    client = interlock.connect(stopped.primary.url(), replicas=interlock.required(2, 1.0))
    outcome: list[BaseException | bool] = []

    def acquire() -> None:
        try:
            outcome.append(client.lock("name").acquire())
        except interlock.InterlockError as error:
            outcome.append(error)

    thread = threading.Thread(target=acquire)
    thread.start()
    wait_until(lambda: stopped.primary.execute("EXISTS", "name") == 1, 20, "it is written")
    client.close()
    thread.join()
    [what] = outcome
    assert isinstance(what, interlock.InterlockError)
    assert stopped.primary.execute("EXISTS", "name") == 0


async def test_a_lost_answer_is_asked_for_again(bed: Bed) -> None:
    """An acquire whose connection breaks in the wait for replicas is sent again and held once."""
    with FaultProxy(("127.0.0.1", bed.servers.primary.port)) as proxy:
        client = bed.client(proxy.url(), replicas=interlock.required(2, LONG))
        me, lock = bed.owner(), bed.lock(client)
        assert await me.do(lock.acquire)
        await me.do(lock.release)
        proxy.on_request(command("WAIT", nth=1), drop_reply)
        assert await me.do(lock.acquire)
        assert proxy.fired
        assert await me.do(lock.hold_count) == 1
        assert (await me.do(lambda: lock.hold)).replicas == 2
        await me.do(lock.release)
        await bed.close(client)
    assert bed.left_behind() == set()


async def test_a_server_that_forgot_its_scripts_is_asked_once_more(bed: Bed) -> None:
    """A script that the server forgot is sent with its text and confirmed like any other."""
    me, lock = bed.owner(), bed.lock(bed.client(replicas=interlock.required(2, LONG)))
    for _ in range(2):
        bed.redis.script_flush()
        assert await me.do(lock.acquire)
        assert (await me.do(lambda: lock.hold)).replicas == 2
        await me.do(lock.release)


async def test_a_crowd_is_confirmed_each_for_itself(bed: Bed) -> None:
    """Many owners of many locks hold what the replicas have; no answer is taken for another's."""
    client = bed.client(replicas=interlock.required("all", LONG))
    owners = [bed.owner() for _ in range(20)]

    async def visit(number: int) -> None:
        lock = bed.lock(client, f"name{number % 10}")
        for _ in range(5):
            assert await owners[number].do(lock.acquire)
            assert (await owners[number].do(lambda: lock.hold)).replicas == 2
            await owners[number].do(lock.release)

    await asyncio.gather(*map(visit, range(20)))
    assert bed.left_behind() == set()


async def test_a_primary_that_is_demoted_meanwhile_is_no_matter_of_replicas(
    replicated: ReplicatedServers,
) -> None:
    """A primary that becomes a replica while it waits for its own has granted nothing.

    The error says what the server is now.
    """
    primary, other = replicated.primary, replicated.replicas[0]
    for replica in replicated.replicas:
        replica.pause()
    try:
        async with interlock.asyncio.connect(
            primary.url(), replicas=interlock.required(2, LONG), lease=30
        ) as client:
            task = asyncio.create_task(acquires(client.lock("name"), timeout=6))
            await until(lambda: primary.execute("EXISTS", "name") == 1, 20, "it is granted")
            primary.execute("REPLICAOF", "127.0.0.1", other.port)
            with pytest.raises(interlock.ServerUnavailableError) as caught:
                await task
            assert not isinstance(caught.value, ReplicationError)
            assert caught.value.code == "READONLY"
            primary.execute("REPLICAOF", "NO", "ONE")
            await until(lambda: primary.execute("EXISTS", "name") == 0, 10, "it is given back")
    finally:
        primary.execute("REPLICAOF", "NO", "ONE")
        for replica in replicated.replicas:
            replica.resume()
        with primary.client() as client:
            client.set("in step", 1)
            assert client.wait(2, 30_000) == 2
