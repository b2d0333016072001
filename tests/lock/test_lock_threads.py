"""What is particular to threads: Ctrl-C, threads that die holding, thread ids that come again."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.interrupting import Blow, interrupt_after
from tests.lock.lock_like import kind_of
from tests.support.cards import own_keys, waited_channels
from tests.support.patience import GIVE_UP
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.lock.lock_like import Kind

    from interlock import Client

pytestmark = pytest.mark.usefixtures("patient")
"""Short tries come by the hundred here: a machine that stalls for a moment is no silent server."""

LEASE = 3.0
"""Seconds: short, and yet a renewed hold outlives a machine that stalls for a second."""
AT_ONCE = 20.0
"""Seconds that a busy machine may take. A waiter that was not woken sees a longer lease end."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Give a client with short leases."""
    with interlock.connect(redis_url, lease=LEASE) as client:
        yield client


@pytest.fixture
def other(redis_url: str) -> Iterator[Client]:
    """Give another client, as another process would have one."""
    with interlock.connect(redis_url) as client:
        yield client


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what is reported as the exception of a thread is."""
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(str(args.exc_value)))
    return seen


def _in_thread(work: Callable[[], object], name: str = "worker") -> None:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


def test_ctrl_c_ends_a_wait(client: Client, other: Client, redis_client: redis.Redis) -> None:
    """A waiting acquire raises KeyboardInterrupt at once, and leaves no lock and no waiter.

    The client can be used as before.
    """
    other.lock("name").acquire()
    lock = client.lock("name")
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupt_after(0.3):
        lock.acquire()
    assert time.monotonic() - started < AT_ONCE
    assert lock.hold is None
    wait_until(lambda: not waited_channels(redis_client), 5, "nobody listens any more")
    other.lock("name").release()
    assert lock.acquire(timeout=0)
    lock.release()
    assert not own_keys(redis_client)


def struck_kinds(*names: str) -> pytest.MarkDecorator:
    """Return a mark: the test runs with each of these kinds, in the first part with one."""
    first, *others = map(kind_of, names)
    kinds = [first, *(pytest.param(kind, marks=pytest.mark.rest) for kind in others)]
    return pytest.mark.parametrize("kind", kinds, indirect=True, ids=lambda kind: kind.name)


@pytest.fixture
def locks(kind: Kind, urls: list[str]) -> Iterator[list[Any]]:
    """Give one lock of each of two programs; a place in its queue ends after a second."""
    with contextlib.ExitStack() as stack:
        programs = [
            [stack.enter_context(interlock.connect(url, fair_wait=1)) for url in urls]
            for _ in range(2)
        ]
        yield [
            kind.make(clients if kind.servers > 1 else clients[0], "name") for clients in programs
        ]


@pytest.mark.filterwarnings("ignore:a block of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers
@pytest.mark.filterwarnings("ignore:hold of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
# Python tells of a Ctrl-C in the callback of a weak reference, and goes on. We tell of a block that
# nothing left: later versions of Python have more places for a Ctrl-C before its end.
@pytest.mark.filterwarnings("ignore::interlock.MisuseWarning")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <bound method Block:pytest.PytestUnraisableExceptionWarning"
)
@struck_kinds("lock", "multi", "red")
def test_ctrl_c_anywhere_in_a_with_statement(
    locks: list[Any], left: Callable[[], set[str]]
) -> None:
    """Wherever Ctrl-C strikes in a with statement, the lock is free soon, and never barred."""
    lock, blow = locks[0], Blow(1)
    while blow.struck:
        with contextlib.suppress(KeyboardInterrupt), blow, lock:
            pass
        wait_until(lambda: lock.hold is None and not left(), GIVE_UP, f"{blow} leaves nothing")
        assert lock.acquire(timeout=5), f"{blow} barred it"
        assert lock.hold_count() == 1
        lock.release()
        blow = blow.next()
    assert blow.at > 50


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@struck_kinds("lock", "fair", "write")
def test_ctrl_c_anywhere_in_a_wait(locks: list[Any]) -> None:
    """Wherever Ctrl-C strikes in a waiting acquire, it leaves nothing in the way of the next.

    If it strikes between two steps of the driver, a place in the queue goes at its deadline.
    """
    (lock, theirs), blow = locks, Blow(1)
    theirs.acquire()
    while blow.struck:
        with contextlib.suppress(KeyboardInterrupt), blow:
            lock.acquire(timeout=0.01)
        assert lock.hold is None
        theirs.release()
        assert lock.acquire(timeout=5), f"{blow} left a dead waiter in front"
        lock.release()
        assert theirs.acquire(timeout=5)
        blow = blow.next()
    assert blow.at > 60


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
