"""A client, an actor or a program that ends leaves no lock behind."""

from __future__ import annotations

import gc
import time

import pytest
from tests.objects.acts import each_face, exclusive, freed, held, warned
from tests.objects.stage import Stage
from tests.objects.trouble import TroubledPlace
from tests.support.faults import command, swallow_reply
from tests.support.patience import wait_until

from interlock import ClosedError


@pytest.mark.promise("ending")
@pytest.mark.sample
@pytest.mark.usefixtures("by_message")
@exclusive
def test_close_releases_and_ends_all(stage: Stage) -> None:
    """Closing a client frees its locks, ends its waits by ClosedError, and refuses later calls."""
    clients = stage.clients()
    lock, theirs = stage.lock(*clients), stage.lock()
    owner, neighbour, other = (stage.actor() for _ in range(3))
    hold = held(owner, lock)
    local = neighbour.start(lock.acquire)
    if stage.kind.waits:
        stage.waits()
    remote = other.start(theirs.acquire, timeout=60)
    if stage.kind.waits:
        stage.waits(clients=2)
    stage.close(*clients)
    stage.close(*clients)
    with pytest.raises(ClosedError):
        local.result(20)
    assert remote.result(20)
    assert not hold
    for call in (lock.acquire, lock.locked, lock.force_release):
        with pytest.raises(ClosedError):
            owner.do(call)
    other.do(theirs.release)
    assert not stage.left()


def test_close_releases_whatever_is_held(stage: Stage) -> None:
    """A hold that was entered again, one with a lease and one of an open block are all released."""
    clients, owner = stage.clients(), stage.actor()
    for name, options in (("a", {}), ("b", {"lease": 50})):
        lock = stage.lock(*clients, name=name)
        for _ in range(2 if stage.kind.reentrant else 1):
            assert owner.do(lock.acquire, **options)
    owner.enter(stage.lock(*clients, name="c"))
    stage.close(*clients)
    assert not stage.left()


@pytest.mark.promise("ending")
@each_face
@exclusive
def test_close_gives_back_what_is_under_way(trouble: Stage) -> None:
    """An acquire that the server has answered too late for its client leaves no lock."""
    place: TroubledPlace = trouble.place
    clients = trouble.clients(card=False, command_timeout=2)
    lock, owner = trouble.lock(*clients), trouble.actor()
    for call in (lock.acquire, lock.release):
        owner.do(call)
    place.clear()
    place.on_request(command("EVALSHA"), swallow_reply)
    acquiring = owner.start(lock.acquire)
    # A red lock would have its majority if one reply alone were lost.
    wait_until(lambda: place.fired() >= trouble.kind.servers, 10, "the servers act")
    place.clear()
    trouble.close(*clients)
    assert acquiring.exception(20)
    freed(trouble)


@pytest.mark.promise("ending")
@exclusive
def test_a_dropped_client_releases(stage: Stage) -> None:
    """A MisuseWarning names a client that nobody closed; what it held is free soon."""
    owner, other, theirs = stage.actor(), stage.actor(), stage.lock()
    urls = stage.place.urls[: stage.kind.servers]
    with warned("unclosed", stage.kind.servers):
        lock = stage.lock(*(owner.do(stage.world.face.connect, url) for url in urls))
        assert owner.do(lock.acquire)
        assert not other.do(theirs.acquire, timeout=0)
        del lock
        gc.collect()
        assert other.do(theirs.acquire, timeout=20)
    other.do(theirs.release)
    wait_until(lambda: not stage.left(), 5, "nothing is left")


@pytest.mark.sample
@exclusive
def test_an_actor_that_ends_holding_is_named(stage: Stage) -> None:
    """A MisuseWarning tells of its hold, which is released; other holds are kept."""
    clients = stage.clients(lease=2)
    lock, kept, theirs = stage.lock(*clients), stage.lock(*clients, name="kept"), stage.lock()
    careless, careful, other = (stage.actor() for _ in range(3))
    assert careless.do(lock.acquire)
    hold = held(careful, kept)
    with warned("the name", len(hold._hold.parts) or 1):  # each part is told
        careless.end()
        gc.collect()
        assert other.do(theirs.acquire, timeout=20)
    other.do(theirs.release)
    assert hold.valid
    careful.do(kept.release)
    wait_until(lambda: not stage.left(), 5, "nothing is left")


@exclusive
def test_a_lease_of_its_own_outlives_its_actor(stage: Stage) -> None:
    """A hold with a lease ends with it, without a warning, though its thread or task has ended."""
    lock, theirs = stage.lock(*stage.clients(lease=1)), stage.lock()
    owner, other = stage.actor(), stage.actor()
    began = time.monotonic()
    assert owner.do(lock.acquire, lease=2)
    owner.end()
    gc.collect()
    assert other.do(theirs.acquire, timeout=20)
    assert time.monotonic() - began > 1.7
    other.do(theirs.release)
    wait_until(lambda: not stage.left(), 5, "nothing is left")
