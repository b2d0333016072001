"""Lost, late and repeated commands and replies: each call counts once, whatever happened to it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.objects.acts import each_face, freed, held, of_kinds, renewed
from tests.objects.stage import Stage
from tests.objects.trouble import TroubledPlace
from tests.support.faults import FAULTS, Matcher, delay, delay_reply, drop_reply

from interlock import InterlockError

TIMEOUT = 0.3
"""Seconds that a command has here."""
EACH = {**FAULTS, "late": delay(2 * TIMEOUT), "answered-late": delay_reply(2 * TIMEOUT)}
on_one_server = of_kinds(lambda kind: kind.servers == 1)


def _script(nth: int) -> Matcher:
    """Return a matcher for the *nth* call of a script, counted from 1."""
    seen = 0

    def matches(args: Sequence[bytes]) -> bool:
        nonlocal seen
        if args[0].upper() not in (b"EVALSHA", b"EVAL"):
            return False
        seen += 1
        return seen == nth

    return matches


def _warm(trouble: Stage, **options: Any) -> Any:
    """Return a lock whose scripts the servers know, of clients that are connected."""
    clients = trouble.clients(**{"command_timeout": TIMEOUT, "card": False, **options})
    lock, owner = trouble.lock(*clients), trouble.actor()
    for call in (lock.acquire, lock.release):
        owner.do(call)
    trouble.place.clear()
    return lock


@pytest.mark.promise("once")
@each_face
@pytest.mark.parametrize("fault", EACH)
def test_a_fault_at_every_command(trouble: Stage, fault: str) -> None:
    """Acquire, entry, extension and release count once each, whichever command is struck."""
    place: TroubledPlace = trouble.place
    lock, theirs = _warm(trouble), trouble.lock(*map(trouble.client, place.direct))
    owner, other = trouble.actor(), trouble.actor()
    for nth in range(1, 50):
        place.on_request(_script(nth), EACH[fault])
        assert owner.do(lock.acquire, timeout=20)
        if trouble.kind.reentrant:
            assert owner.do(lock.acquire, timeout=20)
            owner.do(lock.extend, 50)
            assert owner.do(lambda: lock.hold).depth == 2
            owner.do(lock.release)
        assert owner.do(lock.owned)
        if not trouble.kind.shared:
            assert not other.do(theirs.acquire, timeout=0)
        owner.do(lock.release)
        fired = place.fired()
        place.clear()
        freed(trouble)
        if not fired:
            break
    assert nth > 2
    assert not fired
    # What was given up and sent again may come late, and changes nothing then.
    hold = held(owner, lock, timeout=5)
    time.sleep(TIMEOUT)
    assert hold.valid
    assert owner.do(lock.owned)
    owner.do(lock.release)
    freed(trouble)


@pytest.mark.promise("exclusion")
@each_face
@on_one_server
def test_a_lease_counts_from_the_sending(trouble: Stage) -> None:
    """The way of an answer takes from the validity; a grant that comes after its lease is none."""
    place: TroubledPlace = trouble.place
    lock, owner = _warm(trouble, command_timeout=10), trouble.actor()
    place.on_request(_any_script, delay_reply(1))
    hold = held(owner, lock, lease=timedelta(hours=1))
    # The server's clock may be faster by 0.1 %.
    assert 3500 < hold.remaining <= 3600 - 1 - 3.5
    place.clear()
    owner.do(lock.extend, timedelta(hours=2))
    assert 7100 < hold.remaining <= 7200 - 7
    owner.do(lock.release)
    place.on_request(_script(1), delay_reply(1))
    hold = held(owner, lock, lease=0.7, timeout=20)
    assert hold.valid
    owner.do(lock.release)
    freed(trouble)


@each_face
@on_one_server
@pytest.mark.parametrize("fault", EACH)
def test_a_fault_in_a_renewal(trouble: Stage, fault: str) -> None:
    """A renewal that is struck is sent again, and the hold lives on."""
    place: TroubledPlace = trouble.place
    lock, owner = _warm(trouble, lease=3), trouble.actor()
    hold = held(owner, lock)
    place.clear()
    place.on_request(_script(1), EACH[fault])
    renewed(hold)
    assert place.fired() == 1
    assert hold.valid
    owner.do(lock.release)
    freed(trouble)


@each_face
def test_no_reply_ever_comes(trouble: Stage) -> None:
    """An acquire without an answer raises in time, and what it may have got is soon given back."""
    place: TroubledPlace = trouble.place
    lock = _warm(trouble, outage_timeout=1)
    theirs = trouble.lock(*map(trouble.client, place.direct))
    owner, other = trouble.actor(), trouble.actor()
    place.on_request(_any_script, drop_reply)
    began = time.monotonic()
    with pytest.raises(InterlockError):
        owner.do(lock.acquire)
    assert time.monotonic() - began < 5
    assert owner.do(lambda: lock.hold) is None
    place.clear()
    assert other.do(theirs.acquire, timeout=10)
    time.sleep(2 * TIMEOUT)  # no late undoing ends the next hold
    assert other.do(theirs.owned)
    other.do(theirs.release)


@pytest.mark.promise("once")
@each_face
@on_one_server
def test_tries_come_late_one_after_another(trouble: Stage) -> None:
    """Each of an acquire that was given up may still take the lock, and none keeps it."""
    place: TroubledPlace = trouble.place
    lock, owner = _warm(trouble, outage_timeout=1), trouble.actor()
    place.on_request(_any_script, delay(4 * TIMEOUT))
    with pytest.raises(InterlockError):
        owner.do(lock.acquire)
    place.clear()
    time.sleep(5 * TIMEOUT)  # until all have come
    freed(trouble)


def _any_script(args: Sequence[bytes]) -> bool:
    return args[0].upper() in (b"EVALSHA", b"EVAL")
