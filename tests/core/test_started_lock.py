"""A waiter that hears that it is the holder starts only if nothing but that claim may be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.model.effects import Cleanup, Enqueue, Eval, Post, Wait
from interlock._core.model.holds import HELD, Hold, Owner
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play

REFUSED = [30_000, b"5000000"]
CLAIMED_AT = 5_100_000


def stand(bench: Bench) -> None:
    """Give the client a place in the server's queue."""
    bench.waiters.hearing = True
    bench.waiters.place_for(bench.lock.line, bench.session.client_id, waits=False)


def join(bench: Bench, play: Play) -> None:
    """Join the local queue."""
    assert isinstance(play.effect, Enqueue)
    play.answer(bench.waiters.join(play.effect.line, lambda: None))


def claim(bench: Bench, owner: Owner, at: int = CLAIMED_AT, about_token: str = "") -> Hold:
    """Tell the waiter of *owner*, a tenth of a second after its refusal, that it is the holder."""
    hold = bench.session.holds.table[bench.lock.hold_key, owner.identity]
    wake = bench.waiters.channels_of(bench.lock.channel)[-1]
    number = hold.holder.split(":")[1]
    bench.now += 0.1
    bench.waiters.notify(wake, f"={number}:{at}{about_token}".encode())
    return hold


def test_it_starts_without_an_answer(bench: Bench) -> None:
    """The command that keeps the lock is on its way, and that is enough."""
    stand(bench)
    played = bench.acquire().answer(REFUSED)
    join(bench, played)
    hold = claim(bench, bench.owner)
    assert isinstance(played.answer(None).effect, Post)
    assert played.answer(True).result is hold
    assert hold.state is HELD


def test_a_message_that_is_early_outlasts_a_neighbour_s_request(bench: Bench) -> None:
    """The waiter was refused, and has not joined its queue yet when the message comes.

    Nobody else takes the lock for the time of the claim, so the waiter must hear of it.
    """
    stand(bench)
    played = bench.acquire().answer(REFUSED)
    hold = claim(bench, bench.owner)
    bench.acquire(owner=Owner("thread 'other'")).answer([250, b"5200000"])
    join(bench, played)
    assert isinstance(played.effect, Post)
    played.answer(True)
    assert hold.state is HELD


def test_it_asks_if_the_server_s_clock_was_set(bench: Bench) -> None:
    """By another clock nobody knows how old the claim is, so its message may be late."""
    stand(bench)
    played = bench.acquire().answer(REFUSED)
    join(bench, played)
    _ = claim(bench, bench.owner, CLAIMED_AT + 60_000_000)
    assert isinstance(played.answer(None).effect, Eval)


def test_it_asks_if_an_earlier_try_may_still_be_executed(bench: Bench) -> None:
    """That try could take the lock after the claim, and would look like a claim that was kept."""
    stand(bench)
    played = bench.acquire().answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(played.effect, Wait)
    played.answer(None).answer(REFUSED)
    join(bench, played)
    assert claim(bench, bench.owner).unanswered == 1
    assert isinstance(played.answer(None).effect, Eval)


def test_who_cannot_start_asks_even_from_behind(bench: Bench) -> None:
    """The claim names the second waiter of this client; the first one cannot take it."""
    stand(bench)
    other = Owner("thread 'other'")
    first, second = bench.acquire(), bench.acquire(owner=other)
    for played in (first, second):
        join(bench, played.answer(REFUSED))
    claim(bench, other)
    assert isinstance(second.answer(None).effect, Post)
    # With TLS, for example, such a command cannot be sent at once.
    asking = second.answer(False).effect
    assert isinstance(asking, Eval)
    assert asking.script.name == "lock_acquire"
    assert second.answer(None).result.state is HELD


def test_a_fenced_lock_starts_with_the_token_of_the_message(bench: Bench) -> None:
    """The release has drawn it; from then on every token of this client must be larger."""
    bench.lock = FencedLock(bench.session, "x")
    stand(bench)
    played = bench.acquire().answer([0, *REFUSED])
    join(bench, played)
    hold = claim(bench, bench.owner, about_token=":token:41:clock")
    assert isinstance(played.answer(None).effect, Post)
    assert played.answer(True).result is hold
    assert (hold.state, hold.token, hold.token_source) == (HELD, 41, "clock")
    after = bench.lock.acquire_script(hold, 30, 1, 0)
    assert after.args[3] == 41


def write_lock(bench: Bench) -> None:
    """Replace the lock of the bench by a write lock, whose client has a place."""
    lock: Any = WriteLock(bench.session, "x")
    bench.lock = lock
    stand(bench)


def test_a_writer_starts_with_a_writer_s_message(bench: Bench) -> None:
    """The client stands in the queue in the writer's name, and the message says so."""
    write_lock(bench)
    played = bench.acquire()
    assert played.effect.args[-1] == 1
    join(bench, played.answer(REFUSED))
    hold = claim(bench, bench.owner, about_token=":write")
    assert isinstance(played.answer(None).effect, Post)
    assert played.answer(True).result is hold
    assert (hold.state, hold.token) == (HELD, None)


def test_a_writer_does_not_start_with_a_plain_lock_s_message(bench: Bench) -> None:
    """A lock and a read/write lock of one name share the channel; the front asks."""
    write_lock(bench)
    played = bench.acquire().answer(REFUSED)
    join(bench, played)
    claim(bench, bench.owner)
    assert isinstance(played.answer(None).effect, Eval)


def test_readers_that_come_later_stand_behind_the_writer(bench: Bench) -> None:
    """When it starts and leaves, the next one, which wants to read, asks for a place."""
    write_lock(bench)
    writer = bench.acquire().answer(REFUSED)
    join(bench, writer)
    write = bench.lock
    read: Any = ReadLock(bench.session, "x")
    bench.lock = read
    reader = bench.acquire(owner=Owner("thread 'reader'"))
    alarms: list[None] = []
    assert isinstance(reader.effect, Enqueue)
    reader.answer(bench.waiters.join(reader.effect.line, lambda: alarms.append(None)))
    assert isinstance(reader.effect, Wait)
    bench.lock = write
    claim(bench, bench.owner, about_token=":write")
    assert isinstance(writer.answer(None).effect, Post)
    assert not alarms
    assert writer.answer(True).result.state is HELD
    bench.waiters.leave(next(iter(bench.waiters.queues[write.line])))
    assert alarms
    asked = reader.answer(None).effect
    assert isinstance(asked, Eval)
    assert asked.script.name == "read_lock_acquire"
    assert asked.spare_args


def test_a_writer_that_also_reads_leaves_the_place_to_those_who_wait(
    bench: Bench, play: type[Play]
) -> None:
    """Its client stands in the queue in another writer's name. So the one behind that must ask."""
    write_lock(bench)
    write, line = bench.lock, bench.lock.line
    assert bench.acquire().answer(None).over
    first, last = Owner("thread 'first'"), Owner("thread 'last'")
    writer = bench.acquire(owner=first).answer(REFUSED)
    join(bench, writer)
    behind = bench.acquire(owner=last)
    join(bench, behind)
    reading = play(ReadLock(bench.session, "x").acquire(bench.owner, bench.now + 10, None))
    assert not reading.effect.spare_args
    assert reading.answer(None).over
    assert play(write.release(bench.owner)).answer(3).over
    claim(bench, first, about_token=":write")
    assert isinstance(writer.answer(None).effect, Post)
    assert writer.answer(True).over
    bench.waiters.leave(next(iter(bench.waiters.queues[line])))
    asked = behind.answer(None).effect
    assert isinstance(asked, Eval)
    assert asked.spare_args


@pytest.mark.parametrize("about_token", ["", ":token:7:counter", ":token:8:guess", ":token:8"])
def test_a_fenced_lock_asks_without_a_larger_token(bench: Bench, about_token: str) -> None:
    """A message without a token is not believed, nor one whose token was used before."""
    bench.lock = FencedLock(bench.session, "x")
    first = bench.acquire().answer([1, 7, b"counter"]).result
    bench.session.holds.end(first)
    stand(bench)
    played = bench.acquire().answer([0, *REFUSED])
    join(bench, played)
    hold = claim(bench, bench.owner, about_token=about_token)
    if about_token in ("", ":token:7:counter"):
        assert isinstance(played.answer(None).effect, Eval)
    else:
        # No message that is known: the front waiter asks.
        assert bench.waiters.places[bench.lock.line].woken
    assert hold.token is None


def test_a_try_under_way_outlasts_the_claim_that_is_found_first(bench: Bench) -> None:
    """The undo releases what the queue may have given, and then what the try may still take."""
    stand(bench)
    played = bench.acquire().answer(REFUSED)
    join(bench, played)
    hold = claim(bench, bench.owner, CLAIMED_AT + 60_000_000)
    assert isinstance(played.answer(None).effect, Eval)
    undo = played.answer(KeyboardInterrupt()).effect
    assert isinstance(undo, Eval)
    assert undo.args[0] == hold.holder
    played.answer(1)
    assert [effect.late for effect in played.effects if isinstance(effect, Cleanup)] == [1]


def test_a_pass_that_is_late_leaves_who_started_alone(bench: Bench, play: type[Play]) -> None:
    """A release whose reply was lost gave the waiter the lock, while a second one passes it on.

    The answer to the second one says the same. So there is nothing to give back.
    """
    stand(bench)
    other = Owner("thread 'other'")
    bench.acquire(owner=other).answer(None)
    played = bench.acquire().answer(REFUSED)
    join(bench, played)
    passing = play(bench.lock.release(other))
    assert passing.effect.script.name == "lock_pass_locally"
    hold = claim(bench, bench.owner)
    assert isinstance(played.answer(None).effect, Post)
    played.answer(True)
    assert passing.answer(1).over
    assert hold.state is HELD
