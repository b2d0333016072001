"""What the parts of the semaphores promise each other: ids, permits, sections of a channel."""

from __future__ import annotations

import itertools
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, cast

import pytest
from tests.core.bench import LEASE, Bench, Play

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD, LOST, Owner, Permit
from interlock._core.objects.leased_permits import update_lease
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.semaphore import Semaphore
from interlock._core.queue.lines import section
from interlock._core.queue.waiters import Waiters
from interlock._core.upkeep import idempotency
from interlock._core.upkeep.idempotency import NO_ID, IdempotentCalls, new_id
from interlock._core.upkeep.session import Session
from interlock.errors import HoldLostError, NotHeldError
from interlock.options import MAX_LEASE, Options

if TYPE_CHECKING:
    from interlock._core.model.effects import Cleanup, Eval


class _Log:
    """Notes subscriptions."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def subscribe(self, channel: str) -> None:
        self.heard.append(f"+{channel}")

    def unsubscribe(self, channel: str) -> None:
        self.heard.append(f"-{channel}")


def _session(client_id: str = "a", now: float = 100.0, options: Options | None = None) -> Session:
    return Session(
        options=options or Options(),
        client_id=client_id,
        clock=lambda: now,
        random=lambda: 0.5,
        waiters=Waiters(nullcontext(), _Log()),
        wake=lambda: None,
        call_user=lambda _: None,
    )


def test_ids_are_the_clients_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes with the same random numbers, counts and clocks have different ids.

    One process never has the same id again.
    """
    drawn = list[str]()
    for client_id in ("a", "b"):
        monkeypatch.setattr(idempotency, "numbers", itertools.count(idempotency.FIRST_NUMBER))
        session = _session(client_id)
        drawn += [new_id(session) for _ in range(3)]
    assert len(set(drawn)) == 6
    assert {len(bytes.fromhex(each)) for each in drawn} == {16}


def test_latches_outlast_every_copy() -> None:
    """A latch lives longer than any copy of its call may be sent, and never for ever.

    Copies are sent here and in the background. This holds for any options.
    """
    requests = IdempotentCalls(
        _session(options=Options(command_timeout=2, outage_timeout=3)), "name"
    )
    assert requests.begin().ttl == 14
    assert requests.begin(101.0).ttl == 14
    assert requests.begin(200.0).ttl == 107
    endless = IdempotentCalls(_session(options=Options(outage_timeout=1e308)), "name")
    assert endless.begin().ttl == MAX_LEASE
    assert requests.begin(1e300).ttl == MAX_LEASE


@pytest.mark.parametrize("kind", [Semaphore, LeasedSemaphore])
def test_a_script_is_made_when_it_is_sent(kind: type[Semaphore | LeasedSemaphore]) -> None:
    """A client learns with its first operation how to publish: no script is made before that."""
    session = _session()
    step = iter(kind(session, "name").add_permits(2))
    session.announce_by("SPUBLISH")
    assert "'SPUBLISH'" in cast("Eval[bool]", next(step)).script.text
    undo = cast("Cleanup | Eval[bool]", step.throw(KeyboardInterrupt()))
    assert "'SPUBLISH'" in cast("Eval[bool]", getattr(undo, "call", undo)).script.text


def test_only_the_latch_of_an_answered_call_is_removed() -> None:
    """The next call removes the latch of an answered call, unless a copy may still arrive."""
    requests = IdempotentCalls(_session(), "name")
    answered, stray = requests.begin(), requests.begin()
    stray.unanswered = True
    requests.end(answered)
    requests.end(stray)
    nothing = f"redisson_unlock_latch:{{name}}:{NO_ID}"
    assert [requests.begin().old_latch for _ in range(2)] == [answered.key, nothing]


def test_a_renewal_that_was_under_way_prolongs_nothing() -> None:
    """A permit whose lease was cut short ends with it, even if a renewal is acknowledged later."""
    session = _session()
    permit = Permit(LeasedSemaphore(session, "name"), owner := Owner("owner"), "0" * 32, 30)
    permit.state, permit.depth, permit.renewal = HELD, 1, permit.core.renewal
    permit.extend_validity(100, 30)
    session.holds.begin(permit)
    assert permit.valid(120)
    operation = update_lease(session, permit, 5)
    call = cast("Eval[bool]", operation.send(None))
    assert call.args[0] == 5000
    assert not permit.valid(106), "the server may have executed it"
    try:
        operation.send(1)
    except StopIteration:
        permit.extend_validity(100.01, 30)
    assert permit.valid(104)
    assert not permit.valid(106)
    assert permit.lost(106)
    assert permit.renewal is None
    assert not owner.ended()


def _renewed_permit(bench: Bench) -> Permit:
    """Return a permit of *bench* that was just renewed."""
    permit = Permit(LeasedSemaphore(bench.session, "name"), bench.owner, "0" * 32, LEASE)
    permit.state, permit.depth, permit.renewal = HELD, 1, permit.core.renewal
    permit.extend_validity(bench.now, LEASE)
    bench.session.holds.begin(permit)
    return permit


@pytest.mark.parametrize("reply", [1, KeyboardInterrupt()], ids=["answered", "interrupted"])
def test_a_shortened_lease_is_watched(reply: object) -> None:
    """The watchdog notes the loss at the new end, whatever becomes of the update or a renewal."""
    bench = Bench()
    permit = _renewed_permit(bench)
    update = Play(update_lease(bench.session, permit, 1))
    assert bench.session.watchdog.next_due(bench.now) <= bench.now + 1
    assert update.effect.deadline == bench.now + bench.session.options.outage_timeout
    with suppress(KeyboardInterrupt):
        update.answer(reply)
    permit.extend_validity(bench.now, LEASE)
    _ = bench.session.watchdog.end_overdue(bench.now + 0.9)
    assert permit.valid(bench.now + 0.9)
    _ = bench.session.watchdog.end_overdue(bench.now + 1)
    assert permit.state is LOST


def test_an_interrupted_update_does_not_end_a_renewed_permit() -> None:
    """A permit that is renewed, and was to be renewed, stays so if the update is interrupted."""
    bench = Bench()
    permit = _renewed_permit(bench)
    recall = Play(update_lease(bench.session, permit, None)).answer(KeyboardInterrupt())
    assert recall.effect.script.name == "leased_semaphore_update"
    assert recall.effect.args[0] == 0
    with pytest.raises(KeyboardInterrupt):
        recall.answer(0)
    permit.extend_validity(bench.now + 20, LEASE)
    assert permit.renewal is not None
    assert permit.valid(bench.now + 20 + LEASE - 1)


@pytest.mark.parametrize("released", [True, False])
def test_an_update_that_finds_no_permit(released: bool) -> None:
    """If a release came first, an update tells that the permit is not held, not that it is lost."""
    bench = Bench()
    permit = _renewed_permit(bench)
    update = Play(update_lease(bench.session, permit, 5))
    if released:
        permit.begin_release()
    with pytest.raises(NotHeldError if released else HoldLostError):
        update.answer(0)
    assert (permit.state is LOST) is not released


def test_sections_share_a_subscription() -> None:
    """The fronts of all sections of a channel are woken by its message, over one subscription."""
    log, rung = _Log(), list[str]()
    waiters = Waiters(nullcontext(), log)
    one = waiters.join("c", lambda: rung.append("one"))
    two = waiters.join(section("c", "2"), lambda: rung.append("two"))
    also_two = waiters.join(section("c", "2"), lambda: rung.append("also two"))
    assert (one.front, two.front, also_two.front) == (True, True, False)
    assert two.take(), "its subscription was confirmed before it came"
    assert waiters.channels() == ["c"]
    assert waiters.has_waiters(section("c", "2"))
    assert not waiters.has_waiters(section("c", "3"))
    waiters.notify("c")
    assert rung == ["one", "two"]
    waiters.leave(two)
    assert rung == ["one", "two", "also two"]
    waiters.leave(one)
    waiters.leave(also_two)
    waiters.leave(also_two)
    waiters.notify("c")
    assert log.heard == ["+c", "-c"]
    assert waiters.channels() == []


def test_an_acquire_that_gives_up_forbids_its_copies() -> None:
    """If an acquire ends in vain after an unanswered try, the background undoes that try."""
    session = _session()
    operation = iter(Semaphore(session, "name").acquire(1, 100.0))
    call = cast("Eval[bool]", operation.send(None))
    call.unknown = True
    settling = cast("Cleanup[bool]", operation.send(0))
    assert settling.call.script.name == "semaphore_undo"
    assert settling.call.keys[:2] == call.keys[:2]


def test_a_grant_to_a_newcomer_wakes_who_came_meanwhile() -> None:
    """A newcomer that leaves the queue with its permits has a waiter of its client ask."""
    session = _session()
    semaphore = Semaphore(session, "name")
    session.waiters.hearing = True
    session.waiters.place_for(semaphore.channel, "a")
    session.waiters.leave(session.waiters.join(semaphore.channel, lambda: None))
    operation = iter(semaphore.acquire(1, NEVER))
    call = cast("Eval[bool]", operation.send(None))
    assert call.spare_args == 4
    waiter = session.waiters.join(semaphore.channel, lambda: None)
    assert not waiter.take(), "the client seems to stand in the queue"
    with pytest.raises(StopIteration):
        operation.send(1)
    assert waiter.take()
