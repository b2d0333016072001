"""Fencing tokens grow from hold to hold, and a ticket hands a hold over with its token."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from tests.objects.acts import SOON, each_face, freed, held, lost, of_kinds
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor
from tests.support.faults import Action, command, drop_reply, drop_request, duplicate
from tests.support.holding import held as taken
from tests.support.patience import wait_until

import interlock
from interlock import ConfigError, NotHeldError, ReentryError

fenced = of_kinds(lambda kind: kind.fenced)
with_tickets = of_kinds(lambda kind: kind.tickets)
COUNTER = f"redisson_lock_token:{{{NAME}}}"


def _token(owner: Actor, lock: Any) -> int:
    token: int = held(owner, lock).token
    owner.do(lock.release)
    return token


@pytest.mark.promise("tokens")
@pytest.mark.sample
@fenced
def test_tokens_grow(stage: Stage) -> None:
    """Each hold has a larger token than all before; entries, extension and vain tries draw none."""
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


@each_face
@fenced
@pytest.mark.parametrize("fault", [drop_reply, drop_request, duplicate], ids=lambda a: a.kind)
def test_an_acquire_that_is_sent_twice_draws_once(trouble: Stage, fault: Action) -> None:
    """An acquire draws one token, however often its script runs; the next hold has the next one."""
    lock, owner = trouble.lock(), trouble.actor()
    assert _token(owner, lock) == 1
    trouble.place.on_request(command("EVALSHA", nth=1), fault)
    assert [_token(owner, lock) for _ in range(3)] == [2, 3, 4]
    assert trouble.place.fired() == 1
    with redis.Redis.from_url(trouble.place.direct[0]) as server:
        assert server.get(COUNTER) == b"4"


@each_face
@fenced
def test_a_server_that_forgot_does_not_set_it_back(stage: Stage, seen: redis.Redis) -> None:
    """After a loss of all data the next token is above the client's last; others go on there."""
    lock, theirs, owner = stage.lock(), stage.lock(), stage.actor()
    assert [_token(owner, lock) for _ in range(3)] == [1, 2, 3]
    seen.flushdb()
    assert _token(owner, lock) == 4
    assert _token(owner, theirs) == 5
    seen.set(COUNTER, 2)
    assert _token(owner, lock) == 5, "the last that this client has seen is 4"
    seen.set(COUNTER, 70)
    assert _token(owner, lock) == 71


@each_face
@fenced
def test_plain_and_fenced_locks_of_one_name(stage: Stage, seen: redis.Redis) -> None:
    """They exclude each other, only fenced holds draw, and an entry of a plain hold has no token."""
    (client,), a, b = stage.clients(), stage.actor(), stage.actor()
    plain, fenced = client.lock(NAME), stage.lock(client)
    a.do(plain.acquire)
    assert not b.do(fenced.acquire, timeout=0)
    a.do(plain.release)
    b.do(fenced.acquire)
    assert not a.do(plain.acquire, timeout=0)
    assert seen.get(COUNTER) == b"1"
    b.do(fenced.release)
    a.do(plain.acquire)
    a.do(fenced.acquire)
    hold = a.do(lambda: fenced.hold)
    assert (hold.depth, hold.token) == (2, None), "the counter's value is an older hold's"
    a.do(fenced.release)
    a.do(plain.release)
    assert not stage.left()


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


@each_face
@with_tickets
def test_another_client_extends_and_releases(stage: Stage, seen: redis.Redis) -> None:
    """A ticket extends the lease, and frees the lock once; later uses say that it is over."""
    (client,), (other,) = stage.clients(), stage.clients()
    lock, owner = stage.lock(client), stage.actor()
    given = owner.do(held(owner, lock).hand_over, lease=50)
    assert isinstance(given, stage.world.face.Ticket)
    text = str(given)
    assert " " not in text.removesuffix(NAME)
    stage.close(client)
    ticket = other.ticket(text)
    assert (ticket.name, str(ticket)) == (lock.name, text)
    assert seen.hexists(NAME, ticket.holder)
    for lease in (300, 200):
        owner.do(ticket.extend, lease)
        assert 250 < seen.pttl(NAME) / 1000 <= 300
    owner.do(ticket.release)
    assert not seen.exists(NAME)
    for use in (ticket.release, lambda: ticket.extend(60)):
        with pytest.raises(NotHeldError, match="used before, or its lease has ended") as told:
            owner.do(use)
        assert told.value.holder is None
    hold = held(owner, stage.lock(other))
    with pytest.raises(NotHeldError) as told:
        stage.actor().do(ticket.release)
    assert told.value.holder == hold.holder
    assert hold.valid
    owner.do(hold.release)


@each_face
@with_tickets
def test_operators_see_and_break_a_ticket(stage: Stage) -> None:
    """Operators read who has the ticket and why; if they break it, its next use tells why."""
    (client,), owner = stage.clients(card=False), stage.actor()
    ticket = owner.do(held(owner, stage.lock(client)).hand_over, lease=60)
    owner.do(ticket.announce, 60, "release 1.7", who="ann@ci", held_for=100)
    with interlock.connect(stage.place.urls[0]) as operator:
        info = operator.describe(NAME)
        assert info is not None
        (holder,) = info.holders
        assert (holder.client.host, holder.client.program) == ("ann@ci", "by ticket")
        assert (holder.thread, holder.renewed) == ("release 1.7", False)
        assert 100 <= (holder.held_for or 0) < 130
        assert holder.holder == ticket.holder
        assert operator.force_release(NAME, holder=ticket.holder, reason="stuck")
    with pytest.raises(NotHeldError, match="force-released: stuck"):
        owner.do(ticket.extend, 60)


def test_what_cannot_be_handed_over_says_so(redis_url: str) -> None:
    """Other kinds, a re-entered or ended hold and a wrong ticket are refused; nothing changes."""
    with interlock.connect(redis_url) as one, interlock.connect(redis_url) as other:
        read = one.read_write_lock("rw").read
        with pytest.raises(ConfigError, match="handed over"):
            taken(read).hand_over()
        with pytest.raises(ConfigError, match="handed over"):
            taken(one.multi_lock(one.lock("a"), one.lock("b"))).hand_over()
        lock = one.lock("name")
        hold = taken(lock)
        lock.acquire()
        with pytest.raises(ReentryError, match="entered 2 times"):
            hold.hand_over()
        lock.release()
        with pytest.raises(ConfigError, match="lease must be"):
            hold.hand_over(lease=0)
        assert hold.valid
        lock.release()
        with pytest.raises(NotHeldError):
            hold.hand_over()
        with pytest.raises(NotHeldError):
            hold.extend(1)
        for text in ("", "name", "lock:a:b::name", "read_lock:a:1::name", "lock:a:1:x:name"):
            for call in (other.adopt, other.ticket):
                with pytest.raises(ConfigError, match="not a ticket"):
                    call(text)
        with pytest.raises(TypeError):
            other.adopt(b"lock")  # type: ignore[arg-type]
