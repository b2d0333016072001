"""Readers share and writers exclude: the two sides of a read/write lock."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from tests.objects.acts import SOON, each_face, held, one_or_several
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import CancelledHereError
from tests.support.faults import Action, command, drop_request, swallow_reply
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

from interlock import HoldLostError, NotHeldError, ServerUnavailableError, UpgradeError

END = "the end of what is heard"


class Wire:
    """The hash of the lock, and what is published."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client
        self._heard = client.pubsub(ignore_subscribe_messages=True)
        self._heard.subscribe(f"redisson_rwlock:{{{NAME}}}", END)
        for _ in range(2):
            self._heard.get_message(timeout=5)

    def heard(self) -> list[str]:
        self.redis.publish(END, "")
        messages: list[str] = []
        while (message := self._heard.get_message(timeout=5))["channel"] != END.encode():
            messages.append(message["data"].decode())
        return messages

    def hash(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in self.redis.hgetall(NAME).items()}


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


@pytest.mark.usefixtures("by_message")
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
        reader.do(ours.read.release)
    assert got.result(20)
    writer.do(theirs.write.release)
    assert not scene.left()


@pytest.mark.sample
@pytest.mark.usefixtures("by_message")
@one_or_several
def test_a_release_lets_all_readers_in(scene: Stage, *, same_client: bool) -> None:
    """When a writer leaves, all waiting readers enter together."""
    ours, theirs = _both(scene, same_client=same_client)
    writer, readers = scene.actor(), [scene.actor() for _ in range(3)]
    assert writer.do(ours.write.acquire)
    got = [reader.start(theirs.read.acquire, timeout=60) for reader in readers]
    scene.waits()
    assert not any(each.done() for each in got)
    writer.do(ours.write.release)
    assert all(each.result(20) for each in got)
    for reader in readers:
        reader.do(theirs.read.release)
    assert not scene.left()


@pytest.mark.sample
@one_or_several
def test_a_reader_stands_behind_a_writer(scene: Stage, *, same_client: bool) -> None:
    """Readers that come later wait until the writer before them had its turn."""
    lock, theirs = _both(scene, same_client=same_client)
    reader, writer, late = (scene.actor() for _ in range(3))
    assert reader.do(lock.read.acquire)
    writing = writer.start(lock.write.acquire, timeout=60)
    wait_until(writing.running, 10, "it asks")
    scene.waits()
    reading = late.start(theirs.read.acquire, timeout=60)
    wait_until(reading.running, 10, "it asks")
    scene.waits()
    assert not reading.done()
    reader.do(lock.read.release)
    assert writing.result(20)
    assert not reading.done()
    writer.do(lock.write.release)
    assert reading.result(20)
    late.do(theirs.read.release)
    assert not scene.left()


@pytest.mark.usefixtures("by_message")
def test_readers_enter_as_the_writer_before_them_goes_away(scene: Stage) -> None:
    """A waiting writer whose time is over, or that is cancelled, lets in the readers behind it."""
    lock, _ = _both(scene, same_client=True)
    reader, writer, late = (scene.actor() for _ in range(3))
    assert reader.do(lock.read.acquire)
    for cancels in {False, scene.world.cancels}:
        writing = writer.start(lock.write.acquire, timeout=60 if cancels else 1)
        scene.waits()
        reading = late.start(lock.read.acquire, timeout=60)
        if cancels:
            writer.cancel()
            with pytest.raises(CancelledHereError):
                writing.result(20)
        else:
            assert writing.result(20) is False
        assert reading.result(20)
        late.do(lock.read.release)
    reader.do(lock.read.release)
    assert not scene.left()


def test_up_is_an_error_at_once(scene: Stage) -> None:
    """A reader that asks to write gets UpgradeError, timeout or not, and keeps its read hold."""
    lock, _ = _both(scene)
    owner = scene.actor()
    assert owner.do(lock.read.acquire)
    for options in ({}, {"timeout": 0}, {"timeout": 60}):
        with pytest.raises(UpgradeError):
            owner.start(lock.write.acquire, **options).result(20)
    assert owner.do(lock.read.hold_count) == 1
    owner.do(lock.read.release)
    assert not scene.left()


@pytest.mark.sample
@one_or_several
def test_down_lets_readers_in(scene: Stage, *, same_client: bool) -> None:
    """A writer that reads as well, and enters again, lets in readers alone as it stops writing."""
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


@each_face
def test_a_writer_that_stops_reading(scene: Stage, seen: redis.Redis) -> None:
    """Releasing the read lock while writing tells nobody and leaves the writer its lease."""
    wire, owner, (lock, _) = Wire(seen), scene.actor(), _both(scene, same_client=True)
    owner.do(lock.write.acquire, lease=60)
    owner.do(lock.read.acquire, lease=5)
    owner.do(lock.read.release)
    assert wire.hash() == {"mode": "write", owner.do(lambda: lock.write.hold).holder: "1"}
    assert scene.left() == {NAME}
    assert 10_000 < seen.pttl(NAME) <= 60_000
    assert wire.heard() == []
    owner.do(lock.write.release)
    assert wire.heard() == ["1"]


@each_face
def test_force_release_is_of_one_side(scene: Stage, seen: redis.Redis) -> None:
    """It ends all readers, or the writer, if that side is held; the holders are told."""
    wire, a, b = Wire(seen), scene.actor(), scene.actor()
    lock = renews_soon(scene.client()).read_write_lock(NAME)
    stranger = scene.client().read_write_lock(NAME)
    holds = [held(owner, lock.read) for owner in (a, b)]
    assert a.do(stranger.write.force_release) is False
    assert all(holds)
    assert a.do(stranger.read.force_release) is True
    assert wire.heard() == ["0"]
    notes = {f"interlock_forced:{{{NAME}}}:{hold.holder}" for hold in holds}
    assert scene.left() <= notes, "a note is read once"
    wait_until(lambda: all(hold.lost.is_set() for hold in holds), 5, "both were told")
    for owner in (a, b):
        with pytest.raises(HoldLostError):
            owner.do(lock.read.release)
    hold = held(a, lock.write)
    a.do(lock.read.acquire)
    assert b.do(lock.read.force_release) is False
    assert hold
    assert b.do(lock.write.force_release) is True
    assert hold.lost.is_set(), "in its own client at once"
    assert wire.heard() == ["1"]
    for side in (lock.read, lock.write):
        with pytest.raises(HoldLostError):
            a.do(side.release)
    assert not [key for key in scene.left() if not key.startswith("interlock_forced:")]


@each_face
@pytest.mark.parametrize("fault", [drop_request, swallow_reply], ids=lambda fault: fault.kind)
def test_reading_after_a_try_that_came_to_nothing(troubled_scene: Stage, fault: Action) -> None:
    """A writer whose try to read got no answer reads at the next one, by another number."""
    scene, place, owner = troubled_scene, troubled_scene.place, troubled_scene.actor()
    lock = scene.client(command_timeout=1).read_write_lock(NAME)
    owner.do(lock.write.acquire)
    place.on_request(command("EVALSHA"), fault)
    place.on_request(command("EVAL"), fault)
    with pytest.raises(ServerUnavailableError):
        owner.do(lock.read.acquire, timeout=0)
    place.clear()
    assert owner.do(lock.read.acquire, timeout=20)
    writer = owner.do(lambda: lock.write.hold).holder
    reader = owner.do(lambda: lock.read.hold).holder
    assert writer != f"{reader}:write"
    with redis.Redis.from_url(place.direct[0]) as server:
        wire, both = Wire(server), {"mode": "write", writer: "1", reader: "1"}
        wait_until(lambda: wire.hash() == both, 5, "it was undone")
        owner.do(lock.write.release)
        assert wire.hash() == {"mode": "read", reader: "1"}
        owner.do(lock.read.release)
        wait_until(lambda: not scene.left(), 5, "nothing is left")
