"""A hold, its loss, and the ``with`` statement, for every lock-like on both faces."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import grows, loss_of, until
from tests.support.patience import let_others_run
from tests.support.servers import wait_until

import interlock
from interlock import AcquireTimeoutError, HoldLostError, NotHeldError
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import Hold
from interlock._core.upkeep.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.lock.lock_like import Owner, Stage


async def _lost_hold(stage: Stage, lock: Any, owner: Owner) -> Any:
    """Return a hold of *owner* that another client has ended and that is told so."""
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    await stage.owner().do(stage.lock(stage.client()).force_release)
    await until(hold.lost.is_set, 10, "the hold was told of its loss")
    return hold


async def test_a_hold_tells_what_is_held(stage: Stage) -> None:
    """A hold is true while it lasts, and answers everything without asking the server."""
    lock, owner, other = stage.lock(stage.client()), stage.owner(), stage.owner()
    assert await owner.do(lambda: lock.hold) is None
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    assert await other.do(lambda: lock.hold) is None
    assert hold
    assert hold.valid
    assert (hold.name, hold.depth, hold.token) == ("name", 1, stage.kind.token)
    assert 15 < hold.remaining <= 30
    assert not hold.lost.is_set()
    hold.ensure()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(hold)
    await owner.do(lock.release)
    assert not hold
    assert (hold.depth, hold.remaining) == (0, 0.0)
    assert not hold.lost.is_set(), "released is not lost"
    with pytest.raises(NotHeldError):
        hold.ensure()
    assert await owner.do(lambda: lock.hold) is None


async def test_a_hold_is_released_from_anywhere(stage: Stage) -> None:
    """Another thread or task may release the hold it was handed, once."""
    lock, owner, other = stage.lock(stage.client()), stage.owner(), stage.owner()
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    await other.do(hold.release)
    assert stage.left_behind() == set()
    with pytest.raises(NotHeldError):
        await other.do(hold.release)
    with pytest.raises(NotHeldError):
        await owner.do(lock.release)


async def test_two_owners_release_one_hold(stage: Stage) -> None:
    """Two threads or tasks release a hold of depth 2 at once, and neither hears of a loss."""
    if not stage.kind.reentrant:
        return
    lock, a, b = stage.lock(stage.client()), stage.owner(), stage.owner()
    for _ in range(10):
        await a.do(lock.acquire)
        await a.do(lock.acquire)
        hold = await a.do(lambda: lock.hold)
        await asyncio.gather(a.do(hold.release), b.do(hold.release))
    assert stage.left_behind() == set()


async def test_repr_tells_name_and_state(stage: Stage) -> None:
    """The repr of client, lock and hold shows name and state, from what is known locally."""
    client, owner = stage.client(), stage.owner()
    lock = stage.lock(client, "a name")
    assert "'a name'" in await owner.do(repr, lock)
    assert "not held" in await owner.do(repr, lock)
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    assert "valid" in await owner.do(repr, lock)
    assert all(part in repr(hold) for part in ("'a name'", "valid", hold.holder))
    await owner.do(lock.release)
    assert "over" in repr(hold)
    assert client.client_id in repr(client)
    await stage.close(client)
    assert "closed" in repr(client)


async def test_a_lost_hold_says_so(stage: Stage) -> None:
    """A lost hold is false, its event is set, and `ensure` and `release` raise.

    The next renewal tells of the loss. After the release, the name is free for a new hold.
    """
    lock, owner = stage.lock(stage.client(lease=4.5)), stage.owner()
    hold = await _lost_hold(stage, lock, owner)
    assert (bool(hold), hold.depth, hold.remaining) == (False, 0, 0.0)
    assert "lost" in repr(hold)
    await until(lambda: "force-released" in loss_of(hold), 10, "the reason is known")
    with pytest.raises(HoldLostError) as caught:
        hold.ensure()
    assert (caught.value.name, caught.value.reason) == ("name", "force-released")
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)
    assert await owner.do(lock.acquire, timeout=0)
    assert not hold, "the lost hold stays lost"
    await owner.do(lock.release)
    # The entry of a reader ends with its lease.
    await until(lambda: stage.left_behind() == set(), 5, "nothing is left")


def test_a_release_asks_for_a_reason_that_is_not_known_yet(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release between the loss and the answer to why raises the operator's reason."""
    del redis_client

    def nobody_asks(*_: object) -> Iterator[None]:
        yield from ()

    monkeypatch.setattr(Watchdog, "_ask_why", nobody_asks)
    with interlock.connect(redis_url, lease=3) as client, interlock.connect(redis_url) as operator:
        lock = client.lock("name")
        lock.acquire()
        hold = lock.hold
        assert hold is not None
        assert operator.lock("name").force_release(holder=hold.holder, reason="by hand")
        wait_until(hold.lost.is_set, 20, "the next renewal finds that it is lost")
        assert hold.lost.reason == "server lost it"
        with pytest.raises(HoldLostError, match="force-released: by hand"):
            lock.release()


def test_a_release_names_a_failover_while_another_asks_why(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may have been a note, which another has read. The client knows of the failover."""

    def nobody_asks(*_: object) -> Iterator[None]:
        yield from ()

    monkeypatch.setattr(Watchdog, "_ask_why", nobody_asks)
    with interlock.connect(redis_url, lease=3) as client:
        lock = client.lock("name")
        lock.acquire()
        hold = lock.hold
        assert hold is not None
        redis_client.delete("name")
        wait_until(hold.lost.is_set, 20, "the next renewal finds that it is lost")
        monkeypatch.setattr(hold._hold.core.session, "took_over", lambda _key: 0.0)
        with pytest.raises(HoldLostError, match="another server took over 0 s ago"):
            lock.release()


async def test_whoever_waits_for_a_loss_is_woken(stage: Stage) -> None:
    """Hold.lost.wait() returns when the hold is lost, and at once when it is already."""
    lock, owner, watcher = stage.lock(stage.client(renewed="soon")), stage.owner(), stage.owner()
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    waiting = asyncio.create_task(watcher.do(hold.lost.wait))
    await let_others_run()
    assert not waiting.done()
    await owner.do(stage.lock(stage.client()).force_release)
    assert await asyncio.wait_for(waiting, 20) is True
    assert await asyncio.wait_for(owner.do(hold.lost.wait), 20) is True


async def test_a_lease_that_ends_is_a_loss(stage: Stage) -> None:
    """A hold that outlives its lease is lost by the clock alone, and its listeners are called."""
    lock, owner, told = stage.lock(stage.client()), stage.owner(), list[str]()
    await owner.do(lock.acquire, lease=0.3)
    hold = await owner.do(lambda: lock.hold)
    await owner.do(hold.on_lost, lambda: told.append("lost"))
    await until(hold.lost.is_set, 5, "the lease has ended")
    with pytest.raises(HoldLostError, match="expired"):
        hold.ensure()
    await until(lambda: told, 5, "the listener was called")


async def test_listeners_are_called_once_each(
    stage: Stage, reports: Callable[[], list[BaseException]]
) -> None:
    """Each callback runs once, and one that is added after the loss runs at once.

    An error in a callback is reported, and stops neither the others nor renewal.
    """
    client, owner, told = stage.client(renewed="soon"), stage.owner(), list[str]()
    lock, kept = stage.lock(client), stage.lock(client, "kept")
    await owner.do(lock.acquire)
    await owner.do(kept.acquire)
    hold = await owner.do(lambda: lock.hold)

    def fail() -> None:
        raise LookupError("a callback failed")

    await owner.do(hold.on_lost, lambda: told.append("first"))
    await owner.do(hold.on_lost, fail)
    await owner.do(hold.on_lost, lambda: told.append("second"))
    await owner.do(stage.lock(stage.client()).force_release)
    await until(lambda: len(told) == 2, 5, "both good callbacks were called")
    await owner.do(hold.on_lost, lambda: told.append("late"))
    await until(lambda: len(told) == 3, 5, "the late one was called")
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)
    renewed = await owner.do(lambda: kept.hold)
    end = time.monotonic() + renewed.remaining
    await until(lambda: time.monotonic() + renewed.remaining > end + 0.6, 5, "it is renewed again")
    assert told == ["first", "second", "late"]
    assert [type(error) for error in reports()] == [LookupError]
    assert await owner.do(kept.owned)


async def test_waiting_for_a_loss_again_and_again(stage: Stage) -> None:
    """A ``hold.lost.wait`` without a loss leaves nothing behind, however often it is called."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire)

    async def wait_briefly() -> None:
        hold = await owner.do(lambda: lock.hold)
        if not stage.face.is_async:
            assert not await owner.do(hold.lost.wait, 0)
            return
        with pytest.raises(asyncio.TimeoutError):
            await owner.do(asyncio.wait_for, hold.lost.wait(), 0.0001)

    await wait_briefly()
    before = _listeners()
    for _ in range(20):
        await wait_briefly()
    assert _listeners() == before
    await owner.do(lock.release)


def _listeners() -> int:
    """Return how many listeners the holds of this process have."""
    holds = [each for each in gc.get_objects() if type(each) is Hold]
    return sum(len(hold._listeners or ()) for hold in holds)


async def test_with_holds_and_releases(stage: Stage) -> None:
    """A with block uses the factory's timeout and lease, gives the hold, and frees at its end."""
    client = stage.client()
    lock, owner, other = stage.lock(client, lease=20, timeout=0.05), stage.owner(), stage.owner()
    hold = await owner.do(stage.face.enter, lock)
    assert hold.depth == 1
    assert 5 < hold.remaining <= 20
    started = time.monotonic()
    with pytest.raises(AcquireTimeoutError) as caught:
        await other.do(stage.face.enter, lock)
    assert time.monotonic() - started >= 0.05
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.name, caught.value.timeout) == ("name", 0.05)
    assert caught.value.holder == hold.holder
    assert hold.holder in str(caught.value)
    await owner.do(stage.face.leave, lock)
    assert not hold
    assert stage.left_behind() == set()


async def test_with_never_masks_the_body(stage: Stage) -> None:
    """The body's exception goes on as it is; if the hold was lost too, a note says so."""
    client = stage.client(lease=6)
    lock, owner = stage.lock(client), stage.owner()
    await owner.do(stage.face.enter, lock)
    plain = LookupError("the body's own")
    assert not await owner.do(stage.face.leave, lock, plain), "it must not be swallowed"
    assert not hasattr(plain, "__notes__")
    assert stage.left_behind() == set()
    noted = LookupError("the body's own")
    await _lost_hold(stage, lock, owner)
    assert not await owner.do(stage.face.leave, lock, noted)
    assert any("lost" in note for note in noted.__notes__)


async def test_with_raises_when_the_hold_was_lost(stage: Stage) -> None:
    """Leaving a with block whose hold was lost meanwhile raises HoldLostError."""
    lock, owner = stage.lock(stage.client(renewed="soon")), stage.owner()
    await _lost_hold(stage, lock, owner)
    with pytest.raises(HoldLostError):
        await owner.do(stage.face.leave, lock)
    assert await owner.do(lambda: lock.hold) is None


async def test_one_named_owner_in_many_places(stage: Stage) -> None:
    """Threads or tasks with the same owner= word are one owner; with another word they are not."""
    client = stage.client()
    lock, same = stage.lock(client, owner="job 7"), stage.lock(client, owner="job 7")
    another, unnamed = stage.lock(client, owner="job 8"), stage.lock(client)
    a, b = stage.owner(), stage.owner()
    await a.do(lock.acquire)
    assert await b.do(same.owned)
    for stranger in (another, unnamed):
        assert not await a.do(stranger.acquire, timeout=0)
        assert not await a.do(stranger.owned)
    if stage.kind.reentrant:
        assert await b.do(same.acquire, timeout=0)
        assert await a.do(lock.hold_count) == 2
        await a.do(lock.release)
    await b.do(same.release)
    assert stage.left_behind() == set()


async def test_two_acquire_at_once_under_one_word(stage: Stage) -> None:
    """Two threads or tasks of one named owner that acquire at the same time both get it."""
    if not stage.kind.reentrant:
        return
    client, a, b = stage.client(), stage.owner(), stage.owner()
    one, two = stage.lock(client, owner="job 7"), stage.lock(client, owner="job 7")
    for _ in range(10):
        both = (a.do(one.acquire, timeout=20), b.do(two.acquire, timeout=20))
        assert await asyncio.gather(*both) == [True, True]
        assert await a.do(one.hold_count) == 2
        await asyncio.gather(a.do(one.release), b.do(two.release))
    assert stage.left_behind() == set()


async def test_one_waits_no_longer_than_its_own_timeout(plain: Stage) -> None:
    """Who shares a word with a thread that waits for a lock gives up at its own deadline."""
    client, a, b, rival = plain.client(), plain.owner(), plain.owner(), plain.owner()
    await rival.do(plain.lock(client).acquire)
    one, two = plain.lock(client, owner="job 7"), plain.lock(client, owner="job 7")
    waiting = asyncio.create_task(a.do(one.acquire, timeout=20))
    await plain.waits()
    assert await b.do(two.acquire, timeout=0) is False
    assert await b.do(two.acquire, timeout=0.1) is False
    assert not waiting.done()
    await rival.do(plain.lock(client).release)
    assert await waiting
    await b.do(two.release)


async def test_try_lock_gives_a_hold(plain: Stage) -> None:
    """`try_lock` returns a hold that its holder releases, or an empty one if the lock is taken."""
    client, a, b = plain.client(), plain.owner(), plain.owner()
    hold = await a.do(client.try_lock, "name", lease=5)
    assert 0 < hold.remaining <= 5
    assert not await b.do(client.try_lock, "name")
    waiting = asyncio.create_task(b.do(client.try_lock, "name", timeout=5))
    await plain.waits()
    await a.do(hold.release)
    theirs = await asyncio.wait_for(waiting, 20)
    assert theirs.valid
    await b.do(theirs.release)


async def test_a_hold_that_nobody_could_confirm(plain: Stage) -> None:
    """While the client asks whether it was kept, it is neither valid nor lost, nor released."""
    lock, owner = plain.lock(plain.client()), plain.owner()
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    core: Hold = hold._hold
    until, core.renew_at = core.valid_until, NEVER
    core.asked_by, core.valid_until = NEVER, 0.0
    assert not hold.valid
    assert not hold.lost.is_set()
    with pytest.raises(HoldLostError, match="may be lost: the process stood still"):
        hold.ensure()
    core.valid_until, core.asked_by = until, 0.0
    hold.ensure()
    await owner.do(lock.release)


async def test_an_empty_hold_names_the_holder(plain: Stage) -> None:
    """An empty hold is over from the start, names the holder, and is left without effect."""
    client, a, b, told = plain.client(), plain.owner(), plain.owner(), list[str]()
    held = await a.do(client.try_lock, "name")
    empty = await b.do(client.try_lock, "name")
    assert not empty
    assert (empty.name, empty.holder) == ("name", held.holder)
    assert (empty.depth, empty.valid, empty.remaining, empty.token) == (0, False, 0.0, None)
    assert held.holder in repr(empty)
    await b.do(empty.on_lost, lambda: told.append("lost"))
    assert not empty.lost.is_set()
    with pytest.raises(NotHeldError, match=held.holder):
        empty.ensure()
    with pytest.raises(NotHeldError, match="not acquired"):
        await b.do(empty.release)
    assert await b.do(plain.face.enter, empty) is empty
    await b.do(plain.face.leave, empty)
    assert held.valid
    assert told == []
    await a.do(held.release)


@pytest.mark.parametrize("entry", ["try_lock", "hold"])
async def test_leaving_a_hold_releases_it(stage: Stage, entry: str) -> None:
    """Any owner may leave a hold's block, which frees the lock unless it was released inside."""
    client, a, b = stage.client(), stage.owner(), stage.owner()
    lock = stage.lock(client)

    async def acquired() -> Any:
        if entry == "try_lock" and stage.kind.name == "lock":
            return await a.do(client.try_lock, "name")
        await a.do(lock.acquire)
        return await a.do(lambda: lock.hold)

    for error in (None, LookupError("the body's own")):
        hold = await acquired()
        assert await a.do(stage.face.enter, hold) is hold
        assert not await b.do(stage.face.leave, hold, error), "it must not be swallowed"
        assert not hold
        assert stage.left_behind() == set()
    hold = await acquired()
    await a.do(stage.face.enter, hold)
    await a.do(hold.release)
    await a.do(stage.face.leave, hold)


async def test_a_hold_released_inside_leaves_the_outer_one(plain: Stage) -> None:
    """Leaving the block of an inner hold that was released by hand leaves the outer one held."""
    client, owner = plain.client(), plain.owner()
    outer = await owner.do(plain.face.enter, client.lock("name"))
    inner = await owner.do(client.try_lock, "name")
    await owner.do(plain.face.enter, inner)
    await owner.do(inner.release)
    await owner.do(plain.face.leave, inner)
    assert outer.depth == 1


async def test_leaving_a_lost_hold_raises(plain: Stage) -> None:
    """Leaving a lost hold's block raises HoldLostError, or adds a note to the body's error."""
    client, owner = plain.client(renewed="soon"), plain.owner()
    for error in (None, LookupError("the body's own")):
        hold = await owner.do(client.try_lock, "name")
        await owner.do(plain.face.enter, hold)
        await owner.do(plain.client().lock("name").force_release)
        await until(hold.lost.is_set, 5, "the hold was told of its loss")
        if error is None:
            with pytest.raises(HoldLostError):
                await owner.do(plain.face.leave, hold)
        else:
            await owner.do(plain.face.leave, hold, error)
            assert any("lost" in note for note in error.__notes__)


async def test_entering_a_lost_hold_raises(stage: Stage) -> None:
    """Each acquire of a lost lock raises HoldLostError, and so does leaving its block.

    After that its owner can acquire it again.
    """
    lock, owner = stage.lock(stage.client(renewed="soon")), stage.owner()
    await owner.do(stage.face.enter, lock)
    hold = await owner.do(lambda: lock.hold)
    await stage.owner().do(stage.lock(stage.client()).force_release)
    await until(hold.lost.is_set, 5, "the hold was told of its loss")
    for _ in "12":
        with pytest.raises(HoldLostError):
            await owner.do(lock.acquire)
    with pytest.raises(HoldLostError):
        await owner.do(stage.face.leave, lock)
    assert await owner.do(lock.acquire, timeout=0)
    await owner.do(lock.release)
    assert stage.left_behind() == set()


async def test_a_hold_entered_again_outlives_its_first_handle(plain: Stage) -> None:
    """A hold that was entered again is renewed, even if the handle of its first entry is gone."""
    client, owner = plain.client(renewed="soon"), plain.owner()
    lock = client.lock("name")
    first = await owner.do(client.try_lock, "name", timeout=5)
    await owner.do(lock.acquire)
    await owner.do(first.release)
    del first
    gc.collect()
    await until(grows(plain.redis, "name"), 10, "it is renewed")
    assert await owner.do(lock.hold_count) == 1
    await owner.do(lock.release)


@pytest.fixture
async def reports(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[BaseException]]:
    """Give the errors that were reported because they had no caller to go to."""
    seen: list[BaseException] = []

    def in_loop(_loop: object, context: dict[str, Any]) -> None:
        seen.append(context["exception"])

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            seen.append(args.exc_value)

    asyncio.get_running_loop().set_exception_handler(in_loop)
    monkeypatch.setattr(threading, "excepthook", in_thread)
    return lambda: seen


async def test_trying(stage: Stage) -> None:
    """A block by `trying` is entered with or without the lock, and releases what it acquired."""
    lock, a, b = stage.lock(stage.client()), stage.owner(), stage.owner()
    theirs = stage.lock(stage.client())
    trying = lock.trying(timeout=20, lease=100)
    with pytest.raises(TypeError, match="nothing was acquired yet"):
        assert trying
    hold = await a.do(stage.face.enter, trying)
    assert 60 < hold.remaining <= 100
    refused = theirs.trying()
    empty = await b.do(stage.face.enter, refused)
    assert not empty
    assert empty.holder == hold.holder
    assert not await b.do(stage.face.leave, refused)
    assert hold
    await a.do(stage.face.leave, trying)
    assert not hold
    assert stage.left_behind() == set()
