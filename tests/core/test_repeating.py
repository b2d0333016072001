"""The requests of an owner that takes a lock again and again are made once and kept.

Nothing that happens to a request changes the kept one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.model.effects import NEVER, PAST, Cleanup, Eval, Wait
from interlock._core.model.holds import Owner
from interlock.errors import ServerUnavailableError, UpgradeError

if TYPE_CHECKING:
    from tests.core.bench import Bench, Play


def lost_reply() -> ServerUnavailableError:
    """Return what a driver raises when no reply was read."""
    return ServerUnavailableError("no answer", sent=True, transient=True)


def pair(bench: Bench, play: type[Play], *, timeout: float = NEVER, **of: object) -> list[object]:
    """Acquire and release the lock of *bench*, by one request each; return the requests."""
    owner, lease = of.get("owner", bench.owner), of.get("lease")
    acquire = play(
        bench.lock.acquire(owner, bench.now + timeout, lease)  # type: ignore[arg-type]
    ).answer(None)
    assert acquire.over
    last = bench.lock.kept_release(acquire.result, 0)
    release = play(bench.lock.release(owner)).answer(1)  # type: ignore[arg-type]
    assert release.over
    assert release.effects == [last]
    return [*acquire.effects, last]


def test_the_same_is_sent_from_the_second_time_on(bench: Bench, play: type[Play]) -> None:
    """Who comes again and again sends the very same; who came once has left nothing behind."""
    once, again, third = pair(bench, play), pair(bench, play), pair(bench, play)

    assert once == again == third
    assert all(sent is not former for sent, former in zip(again, once, strict=True))
    assert all(sent is former for sent, former in zip(third, again, strict=True))


def test_the_single_try_of_a_red_lock_sends_the_same(bench: Bench, play: type[Play]) -> None:
    """A member that is tried again and again, by a deadline that has passed, keeps its command."""
    tries = [pair(bench, play, timeout=PAST) for _ in range(4)]
    last, before = tries[3][0], tries[2][0]
    assert last is before
    assert isinstance(last, Eval)
    assert last.deadline == NEVER


def test_a_single_try_of_a_fair_lock_takes_no_place(bench: Bench, play: type[Play]) -> None:
    """The command that its owner keeps would take one."""
    bench.lock = FairLock(bench.session, "x")
    usual = [pair(bench, play) for _ in range(3)][2][0]
    single = pair(bench, play, timeout=PAST)[0]
    assert isinstance(usual, Eval)
    assert isinstance(single, Eval)
    assert single.args != usual.args


@pytest.mark.parametrize(
    "other",
    [
        {"owner": Owner("thread 'other'")},
        {"lease": 5.0},
        {"timeout": 10.0},
    ],
    ids=["owner", "lease", "timeout"],
)
def test_what_differs_is_made_anew(
    bench: Bench, play: type[Play], other: dict[str, object]
) -> None:
    """Another owner, lease or deadline is another request."""
    for _ in range(3):
        kept = pair(bench, play)
    acquire, release = pair(bench, play, **other)  # type: ignore[arg-type]

    assert isinstance(acquire, Eval)
    assert isinstance(release, Eval)
    owner = other.get("owner", bench.owner)
    assert isinstance(owner, Owner)
    holder = f"c0ffee:{owner.number}"
    lease = 5000 if "lease" in other else 30_000
    assert acquire.args == (lease, holder, 1)
    assert acquire.deadline == (bench.now + 10.0 if "timeout" in other else NEVER)
    assert release.args[0] == holder
    assert pair(bench, play) == kept


def test_another_number_is_another_holder(bench: Bench, play: type[Play]) -> None:
    """An owner whose last release may still arrive has another number, so its requests differ."""
    for _ in range(3):
        kept = pair(bench, play)
    bench.owner.renumber()
    for sent, former in zip(pair(bench, play), kept, strict=True):
        assert isinstance(sent, Eval)
        assert isinstance(former, Eval)
        assert f"c0ffee:{bench.owner.number}" in sent.args
        assert f"c0ffee:{bench.owner.number}" not in former.args


def test_another_client_after_a_fork_is_another_holder(bench: Bench, play: type[Play]) -> None:
    """A forked child does not act as its parent."""
    for _ in range(3):
        pair(bench, play)
    bench.session.become("decaf", bench.waiters)
    for sent in pair(bench, play):
        assert isinstance(sent, Eval)
        assert f"decaf:{bench.owner.number}" in sent.args


def test_failure_does_not_change_what_is_kept(bench: Bench, play: type[Play]) -> None:
    """A try whose reply was lost is repeated by a request of its own.

    Its unanswered tries and its deadline do not affect the next request.
    """
    for _ in range(3):
        kept = pair(bench, play)
    acquire = play(bench.lock.acquire(bench.owner, NEVER, None)).answer(lost_reply())
    assert isinstance(acquire.effect, Wait)
    assert acquire.answer(None).effect is not kept[0]
    assert acquire.effect.unknown
    assert acquire.answer(None).over
    release = play(bench.lock.release(bench.owner)).answer(lost_reply())
    assert isinstance(release.effect, Wait)
    second = release.answer(None).effect
    assert second is not kept[1]
    assert second.unknown
    settling = release.answer(1).effect
    assert isinstance(settling, Cleanup), "the first try may be executed yet"
    assert release.answer(None).over

    for call in kept:
        assert isinstance(call, Eval)
        assert (call.deadline, call.unknown) == (NEVER, 0)


def test_a_client_in_the_server_s_queue_sends_the_very_same(bench: Bench, play: type[Play]) -> None:
    """Its tries are kept, too. A deadline or a lost reply does not change them."""
    for _ in range(3):
        without = pair(bench, play)
    bench.waiters.place_for(bench.lock.line, bench.session.client_id, waits=False)
    first, kept = pair(bench, play)[0], pair(bench, play)[0]
    assert isinstance(kept, Eval)
    assert first == kept
    assert kept.spare_args
    assert pair(bench, play)[0] is kept
    timed = pair(bench, play, timeout=10.0)[0]
    assert isinstance(timed, Eval)
    assert (timed.args, timed.deadline) == (kept.args, bench.now + 10.0)
    acquire = play(bench.lock.acquire(bench.owner, NEVER, None)).answer(lost_reply())
    again = acquire.answer(None).effect
    assert again is not kept
    assert again.unknown
    acquire.abandon()
    assert pair(bench, play)[0] is kept
    assert (kept.deadline, kept.unknown) == (NEVER, 0)
    assert without[0] != kept


def test_a_kept_request_of_a_fenced_lock_is_made_anew_after_a_small_token(
    bench: Bench, play: type[Play]
) -> None:
    """A kept request has an old floor. A token that is not above the last one is given back.

    The next request has the last token again.
    """
    bench.lock = FencedLock(bench.session, "x")
    floors = []
    for token in (7, 8, 9, 10):
        acquire = play(bench.lock.acquire(bench.owner, NEVER, None))
        floors.append(acquire.effect.args[3])
        assert acquire.answer([1, token, b"counter"]).over
        assert play(bench.lock.release(bench.owner)).answer(1).over
    assert floors == [0, 7, 7, 7]
    acquire = play(bench.lock.acquire(bench.owner, NEVER, None)).answer([1, 10, b"counter"])
    assert acquire.effect.script.name == "fenced_lock_release"
    acquire.answer(1)
    waiter = bench.waiters.join(bench.lock.channel, lambda: None)
    assert isinstance(acquire.answer(waiter).effect, Wait)
    waiter.wake()
    assert acquire.answer(None).effect.args[3] == 10
    assert acquire.answer([1, 11, b"counter"]).result.token == 11


def test_what_is_kept_of_one_side_is_not_sent_while_its_owner_has_the_other(
    bench: Bench, play: type[Play]
) -> None:
    """A kept request is not sent while its owner holds the other side.

    A read lock's script is told what its owner writes, and a reader that wants to write is refused,
    however often they came before.
    """
    sides = ReadLock(bench.session, "x"), WriteLock(bench.session, "x")
    kept: list[object] = []
    for side in sides:
        bench.lock = side  # type: ignore[assignment]
        for _ in range(3):
            former = pair(bench, play)
        assert all(sent is kept for sent, kept in zip(pair(bench, play), former, strict=True))
        kept.append(former[0])
    read, write = sides
    assert play(write.acquire(bench.owner, NEVER, None)).answer(None).over
    beside = play(read.acquire(bench.owner, NEVER, None))
    assert isinstance(beside.effect, Eval)
    assert beside.effect is not kept[0]
    assert f"c0ffee:{bench.owner.number}:write" in beside.effect.args
    assert beside.answer(None).over
    assert play(write.release(bench.owner)).answer(1).over

    with pytest.raises(UpgradeError):
        play(write.acquire(bench.owner, NEVER, None))


class TestReentries:
    """An owner that enters a hold and leaves it again and again sends the very same."""

    def enter(
        self, bench: Bench, play: type[Play], depth: int = 2, lease: float | None = None
    ) -> list[object]:
        """Enter the hold of *bench* and leave it; return the requests, which are for *depth*."""
        entry = play(bench.lock.acquire(bench.owner, NEVER, lease)).answer(None)
        left = play(bench.lock.release(bench.owner)).answer(1)
        assert entry.over
        assert left.over
        [up], [down] = entry.effects, left.effects
        assert isinstance(up, Eval)
        assert isinstance(down, Eval)
        assert up.args[2] == depth
        assert down.args[1] == depth - 1
        assert up.args[0] == (30_000 if lease is None else int(lease * 1000))
        return [up, down]

    def test_the_same_is_sent_again(self, bench: Bench, play: type[Play]) -> None:
        """A kept request serves its depth and lease alone."""
        bench.held()
        first = self.enter(bench, play)
        again = self.enter(bench, play)
        assert all(sent is kept for sent, kept in zip(again, first, strict=True))
        self.enter(bench, play, lease=5.0)
        bench.held()
        self.enter(bench, play, depth=3)
        assert bench.lock.hold_of(bench.owner).depth == 2  # type: ignore[union-attr]

    def test_another_holder_is_not_served(self, bench: Bench, play: type[Play]) -> None:
        """The hold of another number sends its own."""
        bench.held()
        former = self.enter(bench, play)
        assert play(bench.lock.release(bench.owner)).answer(1).over
        bench.owner.renumber()
        holder = bench.held().holder
        for sent, kept in zip(self.enter(bench, play), former, strict=True):
            assert sent is not kept
            assert holder in sent.args  # type: ignore[attr-defined]

    def test_failure_does_not_change_what_is_kept(self, bench: Bench, play: type[Play]) -> None:
        """After a lost reply another request is sent, which alone counts the tries."""
        bench.held()
        kept = self.enter(bench, play)
        entry = play(bench.lock.acquire(bench.owner, NEVER, None)).answer(lost_reply())
        assert isinstance(entry.effect, Wait)
        assert entry.answer(None).effect is not kept[0]
        assert entry.effect.unknown
        assert entry.answer(None).over
        left = play(bench.lock.release(bench.owner)).answer(lost_reply())
        assert isinstance(left.effect, Wait)
        assert left.answer(None).effect is not kept[1]
        assert left.answer(1).over
        for call in kept:
            assert isinstance(call, Eval)
            assert (call.deadline, call.unknown) == (NEVER, 0)

    def test_a_fenced_lock_makes_each_anew(self, bench: Bench, play: type[Play]) -> None:
        """Its commands have the last token, which may change."""
        bench.lock = FencedLock(bench.session, "x")
        assert play(bench.lock.acquire(bench.owner, NEVER, None)).answer([1, 7, b"counter"]).over
        floors = []
        for token in (7, 7):
            entry = play(bench.lock.acquire(bench.owner, NEVER, None))
            floors.append(entry.effect)
            assert entry.answer([1, token, b"counter"]).over
            assert play(bench.lock.release(bench.owner)).answer(1).over
        assert floors[0] is not floors[1]


class TestGroupLocks:
    """A group lock has a number of its own, which it keeps while nobody else draws one."""

    def test_the_same_is_sent_from_the_second_time_on(self, bench: Bench, play: type[Play]) -> None:
        """Who takes one group lock again and again sends the very same."""
        bench.lock = GroupLock(bench.session, "group", ["one", "two"])  # type: ignore[assignment]
        pairs = [pair(bench, play) for _ in range(3)]

        assert pairs[0] == pairs[1] == pairs[2]
        assert all(sent is former for sent, former in zip(pairs[2], pairs[1], strict=True))

    def test_two_holds_never_share_a_number(self, bench: Bench, play: type[Play]) -> None:
        """Two locks that share a value are two holders, however often one of them is taken."""
        kept, other = (GroupLock(bench.session, "group", [value, "two"]) for value in "ab")
        for _ in range(3):
            play(kept.acquire(bench.owner, NEVER, None)).answer(None)
            play(kept.release(bench.owner)).answer(1)
        beside = play(other.acquire(bench.owner, NEVER, None)).answer(None)
        again = play(kept.acquire(bench.owner, NEVER, None)).answer(None)

        assert beside.result.holder != again.result.holder
