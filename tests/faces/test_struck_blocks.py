"""A Ctrl-C anywhere between the beginning and the end of a block, also if its traceback is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.objects.interrupting import blows
from tests.support.servers import wait_until

import interlock
from interlock import Client
from interlock._core.objects.counter import Carried
from interlock.sync.decorators import _Call

LEASE = 90.0
"""Seconds. What a strike leaves must be given back sooner than the renewal thread would do it."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with interlock.connect(redis_url, lease=LEASE) as client:
        assert client.semaphore("plain").try_set_permits(3)
        assert client.leased_semaphore("leased").try_set_permits(3)
        yield client


def blocks(client: Client) -> dict[str, Callable[[], Any]]:
    lock, plain = client.lock("lock"), client.semaphore("plain")
    leased, limited = client.leased_semaphore("leased"), client.limited("limited", 3)
    return {
        "lock": lambda: lock,
        "lock-trying": lambda: lock.trying(timeout=5),
        "multi": lambda: client.multi_lock(lock, client.lock("lock too")),
        "semaphore": lambda: plain,
        "permit-trying": lambda: leased.trying(timeout=5),
        "limited": lambda: limited,
        "permit": leased.acquire,
    }


CASES = [
    *((name, False) for name in ("lock", "lock-trying", "limited", "semaphore", "permit-trying")),
    pytest.param("multi", False, marks=pytest.mark.rest),
    # Without the part in C, the first instruction is not covered.
    *(pytest.param(name, True, marks=pytest.mark.needs("gcc")) for name in ("lock", "permit")),
]
"""Blocks, and whether their traceback is kept: otherwise they are left when Python drops them."""


@pytest.mark.filterwarnings("ignore:a block of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore:hold of:interlock.MisuseWarning")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers
@pytest.mark.parametrize(
    ("name", "kept"), CASES, ids=lambda it: it if isinstance(it, str) else "traceback-kept" * it
)
def test_ctrl_c_anywhere_in_a_block(client: Client, name: str, kept: bool) -> None:
    """Wherever it strikes, the lock is free again soon, and so is each permit; nothing is kept."""
    make, holds = blocks(client)[name], client._driver.session.live
    lock, limited = client.lock("lock"), client.limited("limited", 3)
    semaphores = client.semaphore("plain"), client.leased_semaphore("leased")

    def free() -> bool:
        left = [limited.available(), *(each.available_permits() for each in semaphores)]
        return left == [3, 3, 3] and not lock.locked() and not holds

    with make():
        pass  # the server knows the scripts from now on
    for blow in blows(30, returns=False):
        errors: list[KeyboardInterrupt] = []
        try:
            with blow, make():
                pass
        except KeyboardInterrupt as error:
            errors += [error] if kept else []
        wait_until(free, LEASE / 4, f"{blow} leaves nothing")
        del errors


def test_ctrl_c_anywhere_as_a_single_call_begins(client: Client) -> None:
    """Wherever it strikes, the next call is not skipped for long."""
    holds, lock = client._driver.session.live, client.lock("call")
    with _Call(client._driver, "call", 0.0, None):
        pass  # the server knows the scripts from now on
    for blow in blows(30, returns=False):
        block = _Call(client._driver, "call", 0.0, None)
        with suppress(KeyboardInterrupt), blow:
            _ = block.__enter__()
        if not blow.struck:
            block.__exit__(None, None, None)
        wait_until(lambda: not (holds or lock.locked()), 5.0, f"{blow} leaves nothing")


def test_ctrl_c_in_a_release_of_a_semaphore(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it strikes once there is a step of the release, that is completed."""
    begun = list[object]()
    for way in (Carried.begin, Carried.give_up):

        def note(step: Any, way: Callable[[Any], Any] = way) -> Any:
            begun.append(step)
            return way(step)

        monkeypatch.setattr(Carried, way.__name__, note)
    plain = client.semaphore("plain")
    plain.acquire()
    plain.release()
    for blow in blows(30, returns=False):
        plain.acquire()
        begun.clear()
        try:
            with blow:
                plain.release()
        except KeyboardInterrupt:
            if not begun:
                plain.release()
        wait_until(lambda: plain.available_permits() == 3, 30, f"{blow} loses no permit")
