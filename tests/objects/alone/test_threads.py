"""What is particular to threads: Ctrl-C, threads that die holding, thread ids that come again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from tests.support.cards import own_keys, waited_channels
from tests.support.servers import wait_until

import interlock
from interlock import Client

pytestmark = pytest.mark.usefixtures("patient")
"""Short tries come by the hundred here: a machine that stalls for a moment is no silent server."""

LEASE = 3.0
"""Seconds: short, and yet a renewed hold outlives a machine that stalls for a second."""
AT_ONCE = 20.0
"""Seconds that a busy machine may take. A waiter that was not woken sees a longer lease end."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with interlock.connect(redis_url, lease=LEASE) as client:
        yield client


@pytest.fixture
def other(redis_url: str) -> Iterator[Client]:
    with interlock.connect(redis_url) as client:
        yield client


def _in_thread(work: Callable[[], object], name: str = "worker") -> None:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


def test_ctrl_c_ends_a_wait(client: Client, other: Client, redis_client: redis.Redis) -> None:
    """A wait raises KeyboardInterrupt and leaves no lock and no waiter; the client goes on."""
    other.lock("name").acquire()
    lock = client.lock("name")
    started = time.monotonic()
    main = threading.main_thread().ident
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        lock.acquire()
    assert time.monotonic() - started < AT_ONCE
    assert lock.hold is None
    wait_until(lambda: not waited_channels(redis_client), 5, "nobody listens any more")
    other.lock("name").release()
    assert lock.acquire(timeout=0)
    lock.release()
    assert not own_keys(redis_client)


def test_new_threads_are_new_owners(client: Client) -> None:
    """Hundreds of threads with reused idents never enter what a dead one held."""
    idents: list[int | None] = []
    taken: list[bool] = []

    def hold() -> None:
        idents.append(threading.get_ident())
        client.lock("name").acquire(lease=100)

    def try_it() -> None:
        idents.append(threading.get_ident())
        lock = client.lock("name")
        taken.append(lock.acquire(timeout=0) or lock.owned() or lock.hold is not None)

    _in_thread(hold)
    for _ in range(300):
        _in_thread(try_it)
    assert len(set(idents)) < len(idents), "the interpreter did use idents again"
    assert taken == [False] * 300
    assert client.lock("name").locked()
