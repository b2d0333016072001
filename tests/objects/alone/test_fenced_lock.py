"""The token: it grows from hold to hold, belongs to its hold, and never changes afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.objects.awaited import Owner, Stage, stage_of
from tests.objects.kinds import named
from tests.support.proxy import Action, FaultProxy, command, drop_reply, drop_request, duplicate

stage = stage_of(named("fenced"))


COUNTER = "redisson_lock_token:{name}"


async def token_of(owner: Owner, lock: Any) -> int:
    """Acquire and release *lock* as *owner*; return the token."""
    await owner.do(lock.acquire)
    token: int = (await owner.do(lambda: lock.hold)).token
    await owner.do(lock.release)
    return token


@pytest.mark.parametrize("fault", [drop_reply, drop_request, duplicate], ids=lambda a: a.kind)
async def test_an_acquire_that_is_sent_twice_draws_once(
    proxy: FaultProxy, stage: Stage, fault: Action
) -> None:
    """An acquire draws one token, however often its script runs; the next hold has the next one."""
    client, owner = stage.client(proxy.url()), stage.owner()
    lock = stage.lock(client)
    await owner.do(lock.locked)
    proxy.on_request(command("EVALSHA", nth=1), fault)
    assert [await token_of(owner, lock) for _ in range(3)] == [1, 2, 3]
    assert [action for action, _ in proxy.fired] == [fault]
    assert stage.redis.get(COUNTER) == b"3"


async def test_a_server_that_forgot_does_not_set_it_back(stage: Stage) -> None:
    """After the server lost its data, a client's next token is still above the client's last one.

    Other clients go on from there.
    """
    lock, owner = stage.lock(stage.client()), stage.owner()
    theirs = stage.lock(stage.client())
    assert [await token_of(owner, lock) for _ in range(3)] == [1, 2, 3]
    stage.redis.flushdb()
    assert await token_of(owner, lock) == 4
    assert await token_of(owner, theirs) == 5
    stage.redis.set(COUNTER, 2)
    assert await token_of(owner, lock) == 5, "the last that this client has seen is 4"
    stage.redis.set(COUNTER, 70)
    assert await token_of(owner, lock) == 71


async def test_a_plain_lock_of_the_same_name_excludes_and_draws_nothing(stage: Stage) -> None:
    """Plain and fenced lock of one name exclude each other; only fenced holds move the counter."""
    one, two = stage.client(), stage.client()
    a, b = stage.owner(), stage.owner()
    plain, fenced = one.lock("orders"), stage.lock(two, "orders")
    await a.do(plain.acquire)
    assert not await b.do(fenced.acquire, timeout=0)
    await a.do(plain.release)
    await b.do(fenced.acquire)
    assert not await a.do(plain.acquire, timeout=0)
    assert stage.redis.get("redisson_lock_token:{orders}") == b"1"
    await b.do(fenced.release)


async def test_a_fenced_re_entry_into_a_plain_hold_has_no_token(stage: Stage) -> None:
    """A hold that began without a token gets none: the counter's value is an older hold's."""
    client, owner = stage.client(), stage.owner()
    await owner.do(stage.lock(client).acquire)
    await owner.do(stage.lock(client).release)
    plain, fenced = client.lock("name"), stage.lock(client)
    await owner.do(plain.acquire)
    await owner.do(fenced.acquire)
    hold = await owner.do(lambda: fenced.hold)
    assert (hold.depth, hold.token) == (2, None)
    await owner.do(fenced.release)
    await owner.do(plain.release)
    assert stage.left_behind() == set()
