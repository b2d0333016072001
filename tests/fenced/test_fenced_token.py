"""The token: it grows from hold to hold, belongs to its hold, and never changes afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.proxy import command, drop_reply, drop_request, duplicate

from interlock import WrongTypeError
from interlock._core.model.tokens import REMEMBERED, Tokens

if TYPE_CHECKING:
    from tests.lock.lock_like import Owner, Stage
    from tests.support.proxy import Action, FaultProxy


COUNTER = "redisson_lock_token:{name}"


async def token_of(owner: Owner, lock: Any) -> int:
    """Acquire and release *lock* as *owner*; return the token."""
    await owner.do(lock.acquire)
    token: int = (await owner.do(lambda: lock.hold)).token
    await owner.do(lock.release)
    return token


async def test_it_is_never_read_again(stage: Stage) -> None:
    """What becomes of the server's counter does not reach a hold, not even through a re-entry."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    stage.redis.set(COUNTER, 100)
    await owner.do(lock.acquire)
    assert (await owner.do(lambda: lock.hold)).token == hold.token == 1
    stage.redis.delete(COUNTER)
    await owner.do(lock.acquire)
    assert (await owner.do(lambda: lock.hold)).token == hold.token == 1
    for _ in range(3):
        await owner.do(lock.release)


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


async def test_an_acquire_in_vain_draws_nothing(stage: Stage) -> None:
    """Who is refused or gives up waiting leaves the counter alone."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    theirs, other = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire)
    assert not await other.do(theirs.acquire, timeout=0)
    assert not await other.do(theirs.acquire, timeout=0.3)
    assert stage.redis.get(COUNTER) == b"1"
    await owner.do(lock.release)
    assert await token_of(other, theirs) == 2


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


async def test_a_try_gets_the_lock_of_a_server_that_forgot(stage: Stage) -> None:
    """A single try for a lock that is taken again and again gets it, with a larger token."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    assert [await token_of(owner, lock) for _ in range(4)] == [1, 2, 3, 4]
    stage.redis.flushdb()
    assert await owner.do(lock.acquire, timeout=0)
    assert (await owner.do(lambda: lock.hold)).token == 5
    await owner.do(lock.release)
    assert await token_of(owner, lock) == 6


def test_clients_that_take_many_names_do_not_remember_them_all() -> None:
    """The last token is kept for the names that were taken last, and never goes down."""
    tokens = Tokens()
    tokens.note("kept", 7)
    tokens.note("kept", 5)
    for number in range(REMEMBERED):
        tokens.note(f"name {number}", 1)
        if number % 1000 == 0:
            tokens.note("kept", 6)
    assert tokens.last("kept") == 7
    assert tokens.last("name 0") == 0
    assert tokens.last(f"name {REMEMBERED - 1}") == 1


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


async def test_a_counter_that_is_something_else_is_not_touched(stage: Stage) -> None:
    """When the counter's key holds no string, acquiring is an error and the lock stays free."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    stage.redis.rpush("redisson_lock_token:{name}", "precious")
    with pytest.raises(WrongTypeError):
        await owner.do(lock.acquire)
    assert stage.redis.keys() == [b"redisson_lock_token:{name}"]
    assert stage.redis.lrange("redisson_lock_token:{name}", 0, -1) == [b"precious"]
    stage.redis.delete("redisson_lock_token:{name}")
    assert await owner.do(lock.acquire, timeout=0)
