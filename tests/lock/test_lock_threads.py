"""What is particular to threads: Ctrl-C, threads that die holding, thread ids that come again."""

from __future__ import annotations

import _thread
import contextlib
import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.interrupting import Blow, interrupt_after
from tests.lock.lock_like import kind_of
from tests.support.cards import own_keys, waited_channels
from tests.support.patience import GIVE_UP
from tests.support.servers import wait_until

import interlock
from interlock import NotHeldError, ReentryError
from interlock._core.model.hold import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.lock.lock_like import Kind

    from interlock import Client, Hold

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


def _outlives_its_lease(hold: Hold) -> None:
    left = hold.remaining
    time.sleep(left + 0.1)  # the lease of a real server
    hold.ensure()


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


def test_ctrl_c_ends_the_first_operation(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C while a client learns of its servers is raised: it does not learn again."""
    errors = iter([KeyboardInterrupt(), interlock.ServerUnavailableError("no answer")])

    def learn(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(client._driver._pool, "open", learn)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        _ = client.lock("name").acquire()


def test_ctrl_c_in_front_of_the_queue_passes_it_on(client: Client, other: Client) -> None:
    """When the waiter in front is interrupted, the one behind it gets the lock on its release."""
    other.lock("name").acquire()
    lock, got = client.lock("name"), threading.Event()

    def take() -> None:
        with lock:
            got.set()

    behind = threading.Thread(target=take)
    with pytest.raises(KeyboardInterrupt), interrupt_after(0.3):
        threading.Timer(0.1, behind.start).start()
        lock.acquire()
    other.lock("name").release()
    assert got.wait(GIVE_UP)
    behind.join()


def struck_kinds(*names: str) -> pytest.MarkDecorator:
    """Return a mark: the test runs with each of these kinds."""
    kinds = [kind_of(name) for name in names]
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


def test_warnings_that_are_errors(client: Client, reported: list[str]) -> None:
    """If warnings are errors, each abandoned hold is reported as one; other holds are renewed."""

    def take_two() -> None:
        client.lock("one").acquire()
        client.lock("two").acquire()

    with client.lock("kept") as kept:
        _in_thread(take_two)
        wait_until(lambda: len(reported) == 2, 5, "both are reported")
        assert ["'one'" in reported[0], "'two'" in reported[1]] == [True, True]
        _outlives_its_lease(kept)


def test_a_hook_that_fails(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error in the hook for thread exceptions goes to stderr; holds are renewed as before."""

    def fail(_: threading.ExceptHookArgs) -> None:
        raise LookupError("the hook failed")

    monkeypatch.setattr(threading, "excepthook", fail)
    with client.lock("kept") as kept:
        _in_thread(client.lock("dropped").acquire)
        wait_until(lambda: "the hook failed" in capfd.readouterr().err, 5, "it is told of")
        _outlives_its_lease(kept)


def test_new_threads_are_new_owners(client: Client) -> None:
    """A thousand threads with reused idents never enter what a dead one held."""
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
    for _ in range(1000):
        _in_thread(try_it)
    assert len(set(idents)) < len(idents), "the interpreter did use idents again"
    assert taken == [False] * 1000
    assert client.lock("name").locked()


def test_threads_that_end_leave_nothing(client: Client, redis_client: redis.Redis) -> None:
    """Owners of threads that ended properly are forgotten."""
    gc.collect()

    def work() -> None:
        with client.lock("name"):
            pass

    for _ in range(50):
        _in_thread(work)
    gc.collect()
    owners = [o for o in gc.get_objects() if isinstance(o, Owner) and "worker" in o.label]
    assert owners == []
    assert not own_keys(redis_client)


def test_a_thread_that_threading_does_not_know_leaves_nothing(client: Client) -> None:
    """A thread of a C library acquires and releases, and `threading` keeps nothing of it."""
    labels: list[str] = []

    def acquire() -> None:
        with client.lock("name") as hold:
            labels.append(hold._hold.label)

    ident = _thread.start_new_thread(acquire, ())
    wait_until(lambda: labels, GIVE_UP, "it has acquired")
    assert labels == [f"thread {ident}"]
    assert ident not in {thread.ident for thread in threading.enumerate()}


@pytest.mark.parametrize("call", ["release", "acquire"])
def test_an_error_keeps_no_frame_of_the_caller(client: Client, call: str) -> None:
    """An error frees the caller's frame with itself, without the garbage collector."""

    class Thing:
        """Something that the caller has."""

    def caller() -> None:
        thing = Thing()
        kept.append(weakref.ref(thing))
        lock = client.lock("name", reentrant=False)
        if call == "acquire":
            lock.acquire()
        getattr(lock, call)()

    kept: list[weakref.ref[Thing]] = []
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(NotHeldError, ReentryError):
            caller()
        assert kept[0]() is None
    finally:
        gc.enable()
