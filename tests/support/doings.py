"""Everything that each object can do, by two clients that contend for it."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import interlock
from tests.support.renewal import renews_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock import Client, Condition

RENEWED = 1.3
"""Seconds of a wait for the first renewal, with room for a short stall."""
SHORT = 1.5
"""Seconds of a wait that is in vain; a loaded machine must answer within them."""


@contextlib.contextmanager
def two_clients(url: str, **options: Any) -> Generator[tuple[Client, Client]]:
    """Give two clients of *url* that contend, and renew soon what they hold."""
    with (
        interlock.connect(url, fair_wait=0.5, **options) as client,
        interlock.connect(url, fair_wait=0.5, **options) as other,
    ):
        yield renews_soon(client), renews_soon(other)


def _renewal() -> None:
    time.sleep(RENEWED)  # a renewal is due meanwhile, which the rights must allow


def _lock(client: Client, other: Client, kind: str) -> None:
    """Do everything that a lock-like can; plain locks also as members of a multi lock."""
    _hold(getattr(client, kind)(f"locks:{kind}"), getattr(other, kind)(f"locks:{kind}"))
    if kind == "lock":
        _multi_lock(client, other)


def _hold(ours: interlock.Lock, theirs: interlock.Lock) -> None:
    assert not theirs.locked()
    assert ours.acquire()
    assert ours.acquire()
    assert not theirs.acquire(timeout=SHORT)
    _renewal()
    ours.extend(60)
    assert (ours.locked(), ours.hold_count(), theirs.owned()) == (True, 2, False)
    ours.release()

    def wait() -> None:
        if theirs.acquire(timeout=20):
            theirs.release()

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)  # until it waits: a spin lock has no queue to look at
    ours.release()
    waiting.join()
    assert ours.acquire(lease=30)
    assert ours.remaining()
    assert theirs.force_release()


def _group_lock(client: Client, other: Client) -> None:
    _hold(*(each.group_lock("locks:group", ["a", "b"]) for each in (client, other)))


def _read_write_lock(client: Client, other: Client) -> None:
    ours, theirs = client.read_write_lock("locks:rw"), other.read_write_lock("locks:rw")
    _hold(ours.write, theirs.write)
    assert ours.read.acquire()
    assert ours.read.acquire()
    assert theirs.read.acquire()
    _renewal()
    assert ours.read.locked()
    ours.read.release()
    ours.read.release()
    assert ours.read.force_release()


def _multi_lock(client: Client, other: Client) -> None:
    ours, theirs = (
        each.multi_lock(each.lock("locks:multi 1"), each.lock("locks:multi 2"))
        for each in (client, other)
    )
    assert ours.acquire()
    assert not theirs.acquire(timeout=SHORT)
    ours.release()
    assert theirs.acquire(timeout=20)
    theirs.release()


def _semaphore(client: Client, other: Client) -> None:
    semaphore = client.semaphore("locks:semaphore")
    assert semaphore.try_set_permits(2)
    semaphore.add_permits(1)
    assert semaphore.acquire(2)
    theirs = other.semaphore("locks:semaphore")
    assert theirs.available_permits() == 1
    assert not theirs.acquire(2, timeout=SHORT)
    semaphore.release(2)
    assert semaphore.available_permits() == 3
    semaphore.set_permits(2)
    assert semaphore.drain_permits() == 2
    assert semaphore.release_if_exists()
    assert semaphore.delete()
    numbered = client.semaphore("locks:numbered", 1, idle=60)
    assert numbered.acquire()
    assert numbered.delete()


def _leased_semaphore(client: Client, other: Client) -> None:
    semaphore, theirs = (
        client.leased_semaphore("locks:leased"),
        other.leased_semaphore("locks:leased"),
    )
    assert semaphore.try_set_permits(1)
    semaphore.add_permits(1)
    permit = semaphore.acquire()
    assert theirs.acquire(lease=0.2)
    _renewal()
    assert semaphore.acquired_permits() == 1, "ours was renewed, theirs has ended"
    assert theirs.acquire(lease=30)
    assert theirs.try_acquire(timeout=SHORT) is None
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(theirs.acquire, timeout=20)
        time.sleep(SHORT)
        semaphore.release(permit)
        permit = waiting.result()
    theirs.extend(permit, 60)
    theirs.release(permit)
    semaphore.set_permits(3)
    assert semaphore.available_permits() == 2
    assert semaphore.delete()


def _limited(client: Client, other: Client) -> None:
    limit, theirs = client.limited("locks:limited", 1), other.limited("locks:limited", 1)
    with limit as permit:
        with pytest.raises(interlock.AcquireTimeoutError):
            theirs.acquire(timeout=SHORT)
        _renewal()
        assert permit.valid
        assert theirs.running() == 1
        assert theirs.available() == 0
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(theirs.acquire, timeout=20)
            time.sleep(SHORT)
            permit.release()
            waiting.result().release()
    assert limit.available() == 1


def _count_down_latch(client: Client, other: Client) -> None:
    latch = client.count_down_latch("locks:latch")
    assert latch.try_set_count(1)
    theirs = other.count_down_latch("locks:latch")
    assert theirs.count() == 1
    assert not theirs.wait(SHORT)
    assert latch.count() == 1
    latch.count_down()
    assert latch.wait(30)
    assert latch.try_set_count(1)
    assert latch.delete()
    numbered = client.count_down_latch("locks:numbered latch", 1)
    numbered.count_down()
    assert numbered.delete()


def _event(client: Client, other: Client) -> None:
    event, theirs = client.event("locks:event"), other.event("locks:event")
    assert not theirs.wait(SHORT)
    event.set()
    assert theirs.wait(30)
    event.clear()
    assert not theirs.is_set()


def _election(client: Client, other: Client) -> None:
    election, theirs = client.election("locks:election"), other.election("locks:election")
    assert election.acquire()
    assert not theirs.acquire(timeout=SHORT)
    _renewal()
    assert theirs.leader() is not None
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(theirs.run, theirs.leader)
        _renewal()
        election.release()
        assert following.result(30) is not None
    assert theirs.acquire()
    assert election.locked()
    assert election.force_release()


def _barrier(client: Client, other: Client) -> None:
    barrier, theirs = client.barrier("locks:barrier", 2), other.barrier("locks:barrier", 2)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(theirs.wait, 20)
        _renewal()
        assert barrier.n_waiting == 1
        assert {barrier.wait(5), waiting.result()} == {0, 1}
    with pytest.raises(interlock.BrokenBarrierError):
        barrier.wait(0.2)
    barrier.reset()
    barrier.abort()
    assert theirs.broken


def _condition(client: Client, other: Client) -> None:
    condition_of(client.condition("locks:condition"), other.condition("locks:condition"))


def condition_of(condition: Condition, theirs: Condition) -> None:
    """Let two clients wait and notify, with a condition of the same lock each."""

    def wait() -> bool:
        with theirs:
            return theirs.wait(20)

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(wait)
        _renewal()
        while not waiting.done():
            with condition:
                condition.notify()
            time.sleep(0.05)  # between two notifications
        assert waiting.result()
    with condition:
        assert not condition.wait(0.2)
        condition.notify_all()


DOINGS: dict[str, Callable[[Client, Client], object]] = {
    **{
        kind: functools.partial(_lock, kind=kind)
        for kind in ("lock", "fair_lock", "fenced_lock", "spin_lock")
    },
    "group_lock": _group_lock,
    "read_write_lock": _read_write_lock,
    "semaphore": _semaphore,
    "leased_semaphore": _leased_semaphore,
    "limited": _limited,
    "count_down_latch": _count_down_latch,
    "event": _event,
    "barrier": _barrier,
    "condition": _condition,
    "election": _election,
}
"""By the name of the factory: what two clients do with one object of that kind."""


def do_everything(url_for: Callable[[str], str], **options: Any) -> None:
    """Do all with one object of each kind at the same time, by clients of the kind's URL."""

    def do(kind: str) -> None:
        with two_clients(url_for(kind), **options) as (client, other):
            DOINGS[kind](client, other)

    with ThreadPoolExecutor(len(DOINGS)) as threads:
        for done in [threads.submit(do, kind) for kind in DOINGS]:
            done.result()
