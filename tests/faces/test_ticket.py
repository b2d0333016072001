"""Tickets: holds without a process, which any client extends or releases; on both faces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from tests.objects.awaited import KINDS, Face, Stage
from tests.support.holding import held as taken

import interlock
from interlock import ConfigError, NotHeldError, ReentryError


@pytest.fixture(params=[kind for kind in KINDS if kind.tickets], ids=lambda kind: kind.name)
async def stage(
    request: pytest.FixtureRequest, face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give each kind whose holds can be handed over, on each face in turn."""
    set_up = Stage(face, request.param, redis_url, loaded)
    yield set_up
    await set_up.end()


async def held(stage: Stage, owner: Any, client: Any) -> Any:
    """Return the hold that *owner* gets of the lock."""
    lock = stage.lock(client)
    assert await owner.do(lock.acquire)
    return await owner.do(lambda: lock.hold)


async def test_another_client_extends_and_releases(stage: Stage) -> None:
    """A ticket extends the lease, and frees the lock once; later uses say that it is over."""
    owner, client = stage.owner(), stage.client()
    given = await owner.do((await held(stage, owner, client)).hand_over, lease=50)
    assert isinstance(given, stage.face.module.Ticket)
    text = str(given)
    assert " " not in text
    await stage.close(client)

    other = stage.client()
    ticket = other.ticket(text)
    assert (ticket.name, str(ticket)) == ("name", text)
    assert stage.redis.hexists("name", ticket.holder)
    for lease in (300, 200):
        await owner.do(ticket.extend, lease)
        assert 250 < stage.redis.pttl("name") / 1000 <= 300
    await owner.do(ticket.release)
    assert not stage.redis.exists("name")
    for use in (ticket.release, lambda: ticket.extend(60)):
        with pytest.raises(NotHeldError, match="used before, or its lease has ended") as told:
            await owner.do(use)
        assert told.value.holder is None

    hold = await held(stage, owner, other)
    with pytest.raises(NotHeldError) as told:
        await stage.owner().do(ticket.release)
    assert told.value.holder == hold.holder
    assert hold.valid
    await owner.do(hold.release)


# The operator is of the sync face.
@pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")
async def test_operators_see_and_break_it(stage: Stage, redis_url: str) -> None:
    """Operators read who has the ticket and why; if they break it, its next use tells why."""
    owner, client = stage.owner(), stage.client(card=False)
    hold = await held(stage, owner, client)
    ticket = await owner.do(hold.hand_over, lease=60)
    await owner.do(ticket.announce, 60, "release 1.7", who="ann@ci", held_for=100)
    with interlock.connect(redis_url) as operator:
        info = operator.describe("name")
        assert info is not None
        (holder,) = info.holders
        assert (holder.client.host, holder.client.program) == ("ann@ci", "by ticket")
        assert (holder.thread, holder.renewed) == ("release 1.7", False)
        assert 100 <= (holder.held_for or 0) < 130
        assert holder.holder == ticket.holder
        assert operator.force_release("name", holder=ticket.holder, reason="stuck")
    with pytest.raises(NotHeldError, match="force-released: stuck"):
        await owner.do(ticket.extend, 60)


async def test_no_ticket(stage: Stage) -> None:
    """A text that is no ticket, or names a kind that has none, is refused without a round trip."""
    for text in ("", "x", "lock:a:b::name", "read_lock:a:1::name"):
        with pytest.raises(ConfigError):
            stage.client().ticket(text)


def test_what_cannot_be_handed_over_says_so(redis_url: str) -> None:
    """Other kinds of lock, a re-entered hold, an ended hold and a wrong ticket are refused.

    Nothing changes.
    """
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
        for text in ("", "name", "lock:a:b::name", "read lock:a:1::name", "lock:a:1:x:name"):
            with pytest.raises(ConfigError, match="not a ticket"):
                other.adopt(text)
        with pytest.raises(TypeError):
            other.adopt(b"lock")  # type: ignore[arg-type]
