"""An acquire that is interrupted, or loses its server, while it waits for replicas."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.objects.awaited import until
from tests.replicas.conftest import PROMPT, Bed
from tests.support.holding import acquires
from tests.support.proxy import FaultProxy, command, drop_reply
from tests.support.servers import ReplicatedServers, wait_until

import interlock
import interlock.asyncio
from interlock import ReplicationError

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
    """It gives the lock back; the client serves others meanwhile, and closes at once."""
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


async def test_a_primary_that_is_demoted_meanwhile_is_no_matter_of_replicas(
    stopped: ReplicatedServers,
) -> None:
    """One that becomes a replica has granted nothing, and the error says what it is now."""
    primary, other = stopped.primary, stopped.replicas[0]
    options: dict[str, Any] = {"replicas": interlock.required(2, LONG), "lease": 30}
    try:
        async with interlock.asyncio.connect(primary.url(), **options) as client:
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
