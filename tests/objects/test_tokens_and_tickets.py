"""Fencing tokens grow from hold to hold, and a ticket hands a hold over with its token."""

from __future__ import annotations

import time

import pytest
from tests.objects.acts import SOON, freed, held, lost, of_kinds
from tests.objects.stage import Stage
from tests.support.patience import wait_until

from interlock import NotHeldError

fenced = of_kinds(lambda kind: kind.fenced)
with_tickets = of_kinds(lambda kind: kind.tickets)


@pytest.mark.promise("tokens")
@pytest.mark.sample
@fenced
def test_tokens_grow(stage: Stage) -> None:
    """Each hold has a larger token than those before it, by whom and however they ended.

    Entries, extension and vain tries draw none.
    """
    locks, owners = [stage.lock(*stage.clients(**SOON)) for _ in range(2)], []
    tokens: list[int] = []
    for turn in range(6):
        lock, owner = locks[turn % 2], stage.actor()
        owners.append(owner)
        if turn == 2:
            hold = held(owner, lock, lease=0.3)
            wait_until(hold.lost.is_set, 5, "its lease has ended")
        elif turn == 4:
            hold = held(owner, lock, timeout=5)
            lost(stage, hold)
            assert hold.token is not None, "a lost hold keeps its number"
        else:
            hold = held(owner, lock, timeout=5)
            token = hold.token
            assert not stage.actor().do(locks[0].acquire, timeout=0)
            assert owner.do(lock.acquire)
            owner.do(lock.extend, 60)
            assert hold.token == token
            owner.do(lock.release)
            owner.do(lock.release)
        tokens.append(hold.token)
    assert tokens == sorted(set(tokens))


@fenced
def test_one_hold_has_one_token(stage: Stage) -> None:
    """Actors of two clients that take it in turn, again and again, never share a token."""
    tokens: list[int] = []
    done = []
    for lock in (stage.lock(), stage.lock()):
        for _ in range(2):
            actor = stage.actor()
            for _ in range(6):
                actor.start(lock.acquire)
                actor.start(lambda lock=lock: tokens.append(lock.hold.token))
                done.append(actor.start(lock.release))
    for each in done:
        each.result(60)
    assert len(tokens) == 24
    assert tokens == sorted(set(tokens))


@pytest.mark.sample
@with_tickets
def test_a_hold_is_handed_over(stage: Stage) -> None:
    """Who adopts the ticket has the hold and its token; the giver has not, and nobody between."""
    (giver_client,), (adopter_client,) = stage.clients(), stage.clients()
    ours, theirs = stage.lock(giver_client), stage.lock(adopter_client)
    giver, adopter, third = (stage.actor() for _ in range(3))
    hold = held(giver, ours)
    token = hold.token
    ticket = giver.do(hold.hand_over, lease=5)
    assert not hold
    assert not hold.lost.is_set(), "given away is not lost"
    assert not giver.do(ours.owned)
    assert not giver.do(giver_client.holds)
    with pytest.raises(NotHeldError):
        giver.do(ours.release)
    assert 3 < giver.do(ours.remaining) <= 5
    assert not third.do(theirs.acquire, timeout=0)
    adopted = adopter.do(adopter_client.adopt, ticket)
    assert adopted.valid
    assert adopted.token == token
    assert 15 < adopted.remaining <= 30
    assert not third.do(ours.acquire, timeout=0)
    with pytest.raises(NotHeldError, match="adopted before"):
        third.do(giver_client.adopt, ticket)
    assert adopted.valid, "a ticket is good once"
    adopter.do(adopted.release)
    assert third.do(ours.acquire, timeout=5)
    third.do(ours.release)
    assert not stage.left()


@with_tickets
def test_a_ticket_ends_with_its_lease(stage: Stage) -> None:
    """A hold that nobody adopts in time is free; the ticket gives nothing, and nobody has lost it."""
    (client,) = stage.clients(**SOON)
    lock, giver, other, told = stage.lock(client), stage.actor(), stage.actor(), list[str]()
    hold = held(giver, lock)
    giver.do(hold.on_lost, lambda: told.append("lost"))
    ticket = giver.do(hold.hand_over, lease=0.5)
    assert other.do(lock.acquire, timeout=20)
    with pytest.raises(NotHeldError, match="its lease has ended"):
        giver.do(client.adopt, ticket)
    time.sleep(1.5)  # who gave it away would have been renewed
    assert other.do(lock.owned)
    assert not hold.lost.is_set()
    assert not told
    other.do(lock.release)
    freed(stage)
