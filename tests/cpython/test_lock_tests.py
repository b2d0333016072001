"""CPython's own tests of threading's objects, with ours in their place; the differences are listed.

They are those of the running interpreter, `test.lock_tests`. Debian and Ubuntu ship them in a
package of their own, such as ``libpython3.11-testsuite``.
"""

from __future__ import annotations

import itertools
import threading
import time
import unittest
from typing import TYPE_CHECKING, Any

import pytest
from test import lock_tests
from tests.support.patience import GIVE_UP, wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERNAL = "it tests an internal of threading's object"
REPR = "a repr does not tell the state, which would cost a round trip"
DIFFERENCES = {
    ("RLockTests", "test_repr"): "the repr shows name and hold, not locked or unlocked",
    ("RLockTests", "test_locked_repr"): "the repr shows name and hold, not locked or unlocked",
    ("RLockTests", "test_repr_count"): REPR,  # of Python 3.14
    # of Python 3.14
    ("RLockTests", "test_locked_with_2threads"): "a thread that has ended keeps nothing",
    ("RLockTests", "test_constructor_noargs"): "a client makes locks",  # of Python 3.15
    ("RLockTests", "test_release_save_unacquired"): INTERNAL,
    ("RLockTests", "test_recursion_count"): INTERNAL,
    ("RLockTests", "test__is_owned"): INTERNAL,
    ("EventTests", "test_at_fork_reinit"): INTERNAL,
    ("EventTests", "test_reset_internal_locks"): INTERNAL,
    ("EventTests", "test_repr"): REPR,
    ("SemaphoreTests", "test_repr"): REPR,
    ("ConditionTests", "test_nan_timeout"): INTERNAL,  # of Python 3.14
    ("ConditionTests", "test_acquire"): "its lock is a local one, threading.Lock",
    ("BarrierTests", "test_action"): "a barrier has no action: the party that gets index 0 does it",
    ("BarrierTests", "test_repr"): REPR,
}
"""What fails with ours, and why: all of it, and nothing else, fails."""

_numbers = itertools.count()


class _Semaphore:
    """Ours with threading's arguments: its count of permits comes first."""

    def __init__(self, client: interlock.Client, value: int = 1) -> None:
        self._semaphore = client.semaphore(f"semaphore {next(_numbers)}")
        self._semaphore.try_set_permits(value)
        self.release = self._semaphore.release

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        return self._semaphore.acquire(1, blocking, timeout)

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.fixture
def client(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[interlock.Client]:
    """Give a client whose threads run, and time for a thread that begins to wait: a round trip."""
    for name in ("_wait", "wait_threads_blocked"):  # of Python 3.11, and of later ones
        if original := getattr(lock_tests, name, None):
            monkeypatch.setattr(lock_tests, name, _slowly(original))
    with interlock.connect(redis_url) as connected:
        assert not connected.event("anything").wait(0.2)
        assert connected.fair_lock("anything").acquire()
        wait_until(lambda: connected._driver._upkeep._lanes, GIVE_UP, "the card is sent")
        _hand_on(connected.lock("other"))
        yield connected


def _hand_on(lock: Any) -> None:
    """Let *lock* be waited for, and be left by a thread that ends: that takes each thread there is."""
    assert lock.acquire()
    waiting = threading.Thread(target=lock.acquire)
    waiting.start()
    time.sleep(0.3)  # it waits
    lock.release()
    waiting.join()
    wait_until(lambda: not lock.locked(), GIVE_UP, "it is free")


def _slowly(original: Any) -> Any:
    def wait(*arguments: Any) -> None:
        for _ in range(20):
            original(*arguments)

    return wait


# Threads of these tests end with locks that they hold, which our client warns of.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", ["RLock", "Event", "Condition", "Semaphore", "Barrier"])
def test_ours_pass(client: interlock.Client, kind: str) -> None:
    """Of CPython's tests exactly those fail with our objects that are listed as differences."""

    def make(*args: Any, **kwargs: Any) -> Any:
        name = f"{kind} {next(_numbers)}"
        if kind == "RLock":
            return client.lock(name)
        if kind == "Event":
            return client.event(name)
        if kind == "Condition":
            return client.condition(*args or (name,))
        if kind == "Semaphore":
            return _Semaphore(client, *args, **kwargs)
        return client.barrier(name, *args, **kwargs)

    made = {"RLock": "locktype", "Event": "eventtype", "Condition": "condtype"}
    made["Semaphore"] = "semtype"
    factory = made.get(kind, "barriertype")
    tests: Any = getattr(lock_tests, f"{kind}Tests")
    case = type(tests.__name__, (tests,), {factory: staticmethod(make)})
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    names = {test.id().rpartition(".")[2] for test in suite if isinstance(test, unittest.TestCase)}
    result = unittest.TestResult()
    suite.run(result)
    failed = {test.id().rpartition(".")[2]: text for test, text in result.errors + result.failures}
    expected = {name for tests, name in DIFFERENCES if tests == f"{kind}Tests"} & names
    assert not result.skipped
    assert failed.keys() == expected, "\n".join(failed[name] for name in failed.keys() - expected)


def test_every_difference_is_one_of_some_version() -> None:
    """A listed difference is a test of this Python, or of another one that is supported."""
    of_others = {
        *("test_recursion_count", "test_repr_count", "test_constructor_noargs"),
        *("test_reset_internal_locks", "test_at_fork_reinit", "test_nan_timeout"),
        "test_locked_with_2threads",
    }
    for tests, name in DIFFERENCES:
        assert hasattr(getattr(lock_tests, tests), name) or name in of_others
