"""Readers share and writers exclude: the two sides of a read/write lock."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest
from tests.objects.acts import PROMPT, SOON
from tests.objects.common import cancelling, one_or_several
from tests.objects.stage import Stage
from tests.objects.worlds import Actor, CancelledHereError
from tests.support.patience import wait_until

from interlock import NotHeldError, UpgradeError

NAME = "the name"


def _both(scene: Stage, *, same_client: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return two read/write locks of one name, of one client or of two."""
    client = scene.client(**options)
    other = client if same_client else scene.client(**options)
    return client.read_write_lock(NAME), other.read_write_lock(NAME)


@pytest.mark.promise("exclusion")
@pytest.mark.sample
@one_or_several
def test_many_read_or_one_writes(scene: Stage, *, same_client: bool) -> None:
    """Readers are in together and keep writers out; a writer keeps everybody else out."""
    ours, theirs = _both(scene, same_client=same_client)
    one, two, three = (scene.actor() for _ in range(3))
    assert one.do(ours.read.acquire)
    assert two.do(theirs.read.acquire, timeout=5)
    assert not three.do(theirs.write.acquire, timeout=0)
    assert not three.do(ours.write.acquire, timeout=0.1)
    one.do(ours.read.release)
    assert not three.do(ours.write.acquire, timeout=0), "one still reads"
    two.do(theirs.read.release)
    assert three.do(ours.write.acquire, timeout=5)
    for side in (ours.read, ours.write, theirs.read, theirs.write):
        assert not one.do(side.acquire, timeout=0)
    three.do(ours.write.release)
    assert not scene.left()


@one_or_several
def test_the_last_reader_lets_a_writer_in(scene: Stage, *, same_client: bool) -> None:
    """A writer waits for all readers, and has the lock as the last one leaves."""
    ours, theirs = _both(scene, same_client=same_client)
    readers, writer = [scene.actor() for _ in range(3)], scene.actor()
    for reader in readers:
        assert reader.do(ours.read.acquire, timeout=5)
    got = writer.start(theirs.write.acquire, timeout=60)
    scene.waits()
    for reader in readers:
        assert not got.done()
        released = time.monotonic()
        reader.do(ours.read.release)
    assert got.result(20)
    assert time.monotonic() - released < PROMPT
    writer.do(theirs.write.release)
    assert not scene.left()


@pytest.mark.sample
@one_or_several
def test_a_release_lets_all_readers_in(scene: Stage, *, same_client: bool) -> None:
    """When a writer leaves, all waiting readers enter together."""
    ours, theirs = _both(scene, same_client=same_client)
    writer, readers = scene.actor(), [scene.actor() for _ in range(3)]
    assert writer.do(ours.write.acquire)
    got = [reader.start(theirs.read.acquire, timeout=60) for reader in readers]
    scene.waits()
    assert not any(each.done() for each in got)
    released = time.monotonic()
    writer.do(ours.write.release)
    assert all(each.result(20) for each in got)
    assert time.monotonic() - released < PROMPT
    for reader in readers:
        reader.do(theirs.read.release)
    assert not scene.left()


@pytest.mark.sample
def test_a_reader_stands_behind_a_writer(scene: Stage) -> None:
    """Readers that come later wait until the writer before them had its turn."""
    lock, _ = _both(scene, same_client=True)
    reader, writer, late = (scene.actor() for _ in range(3))
    assert reader.do(lock.read.acquire)
    writing = writer.start(lock.write.acquire, timeout=60)
    wait_until(writing.running, 10, "it asks")
    scene.waits()
    reading = late.start(lock.read.acquire, timeout=60)
    wait_until(reading.running, 10, "it asks")
    scene.waits()
    assert not reading.done()
    reader.do(lock.read.release)
    assert writing.result(20)
    assert not reading.done()
    writer.do(lock.write.release)
    assert reading.result(20)
    late.do(lock.read.release)
    assert not scene.left()


def _both_read(scene: Stage, lock: Any, readers: tuple[Actor, ...], reading: Future[bool]) -> None:
    """Check that the second reader enters at once, and that both leave nothing."""
    gone = time.monotonic()
    assert reading.result(20)
    assert time.monotonic() - gone < PROMPT
    for each in readers:
        each.do(lock.read.release)
    assert not scene.left()


def test_readers_enter_as_the_writer_before_them_gives_up(scene: Stage) -> None:
    """A waiting writer whose time is over lets in the readers behind it at once."""
    lock, _ = _both(scene, same_client=True)
    reader, writer, late = (scene.actor() for _ in range(3))
    assert reader.do(lock.read.acquire)
    writing = writer.start(lock.write.acquire, timeout=1)
    scene.waits()
    reading = late.start(lock.read.acquire, timeout=60)
    assert writing.result(20) is False
    _both_read(scene, lock, (reader, late), reading)


@cancelling
def test_readers_enter_as_the_writer_before_them_is_cancelled(scene: Stage) -> None:
    """A waiting writer that is cancelled lets in the readers behind it at once."""
    lock, _ = _both(scene, same_client=True)
    reader, writer, late = (scene.actor() for _ in range(3))
    assert reader.do(lock.read.acquire)
    writing = writer.start(lock.write.acquire)
    scene.waits()
    reading = late.start(lock.read.acquire, timeout=60)
    writer.cancel()
    with pytest.raises(CancelledHereError):
        writing.result(20)
    _both_read(scene, lock, (reader, late), reading)


def test_up_is_an_error_at_once(scene: Stage) -> None:
    """A reader that asks to write gets UpgradeError, timeout or not, and keeps its read hold."""
    lock, _ = _both(scene)
    owner = scene.actor()
    assert owner.do(lock.read.acquire)
    began = time.monotonic()
    for options in ({}, {"timeout": 0}, {"timeout": 5}):
        with pytest.raises(UpgradeError):
            owner.do(lock.write.acquire, **options)
    assert time.monotonic() - began < PROMPT
    assert owner.do(lock.read.hold_count) == 1
    owner.do(lock.read.release)
    assert not scene.left()


@pytest.mark.sample
@one_or_several
def test_down_lets_readers_in(scene: Stage, *, same_client: bool) -> None:
    """A writer that reads as well and stops writing lets in readers, and no writer.

    While it still writes it may enter again, as a writer or a reader.
    """
    ours, theirs = _both(scene, same_client=same_client)
    owner, reader, writer = (scene.actor() for _ in range(3))
    assert owner.do(ours.write.acquire)
    assert owner.do(ours.read.acquire, timeout=0)
    assert owner.do(ours.write.acquire, timeout=0)
    owner.do(ours.write.release)
    reading = reader.start(theirs.read.acquire, timeout=60)
    scene.waits()
    assert not reading.done()
    owner.do(ours.write.release)
    assert reading.result(20)
    assert not writer.do(theirs.write.acquire, timeout=0.1)
    with pytest.raises(UpgradeError):
        owner.do(ours.write.acquire)
    reader.do(theirs.read.release)
    assert not writer.do(theirs.write.acquire, timeout=0), "who came down still reads"
    owner.do(ours.read.release)
    assert writer.do(theirs.write.acquire, timeout=5)
    writer.do(theirs.write.release)
    assert not scene.left()


def test_each_side_tells_of_itself(scene: Stage) -> None:
    """Locked, owned, depth and release are of the side that is asked."""
    lock, _ = _both(scene)
    owner, other = scene.actor(), scene.actor()
    assert owner.do(lock.read.acquire)
    assert owner.do(lock.read.locked)
    assert not owner.do(lock.write.locked)
    assert (owner.do(lock.read.hold_count), owner.do(lock.write.hold_count)) == (1, 0)
    for actor, side in ((owner, lock.write), (other, lock.read), (other, lock.write)):
        with pytest.raises(NotHeldError):
            actor.do(side.release)
    assert owner.do(lock.read.owned)
    assert not owner.do(lock.write.force_release), "nobody writes"
    assert owner.do(lock.read.owned)
    owner.do(lock.read.release)
    assert not scene.left()


def test_who_came_down_is_renewed_on(scene: Stage) -> None:
    """A read hold that was taken while writing outlives the lease, and keeps writers out."""
    ours, theirs = _both(scene, lease=2)
    owner, writer = scene.actor(), scene.actor()
    assert owner.do(ours.write.acquire)
    assert owner.do(ours.read.acquire)
    owner.do(ours.write.release)
    assert not writer.do(theirs.write.acquire, timeout=3)
    assert owner.do(ours.read.owned)
    owner.do(ours.read.release)


def test_a_writer_waits_for_living_readers_alone(scene: Stage) -> None:
    """The lease of a reader that is gone ends alone, and shortens no other reader's."""
    ours, theirs = _both(scene, **SOON)
    gone, living, writer = (scene.actor() for _ in range(3))
    assert gone.do(ours.read.acquire, lease=0.5)
    assert living.do(ours.read.acquire)
    assert not writer.do(theirs.write.acquire, timeout=1)
    living.do(ours.read.release)
    assert writer.do(theirs.write.acquire, timeout=5)
    writer.do(theirs.write.release)
