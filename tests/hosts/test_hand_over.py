"""A hold goes from one process to another by a ticket, and a lease is extended."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.lock.interrupting import Blow
from tests.lock.lock_like import WITH_TICKETS
from tests.support.holding import held
from tests.support.patience import wait_until
from tests.support.renewal import grown, renews_soon

import interlock
import interlock.asyncio
from interlock import (
    ConfigError,
    HoldLostError,
    NotHeldError,
    ReentryError,
    ServerUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.lock.lock_like import Kind
    from tests.support.proxy import FaultProxy

# Tests may use both faces in one thread.
pytestmark = pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")


@pytest.fixture
def pair(redis_url: str) -> Iterator[tuple[interlock.Client, interlock.Client]]:
    """Give two clients."""
    with interlock.connect(redis_url) as one, interlock.connect(redis_url) as other:
        yield one, other


@pytest.mark.parametrize("kind", WITH_TICKETS, ids=lambda kind: kind.name)
def test_a_hold_is_handed_over(
    kind: Kind, pair: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """The adopter of a ticket holds the lock with its fencing token; the giver does not.

    Nobody could come in between.
    """
    one, other = pair
    lock = kind.make(one, "name")
    hold = held(lock)
    token = hold.token
    ticket = hold.hand_over(lease=5)
    assert not hold
    assert not hold.lost.is_set()
    assert not lock.owned()
    assert 4 < redis_client.pttl("name") / 1000 <= 5
    assert not kind.make(other, "name").acquire(blocking=False)
    adopted = other.adopt(ticket)
    assert adopted.valid
    assert adopted.token == token
    assert redis_client.hgetall("name") == {adopted.holder.encode(): b"1"}
    assert redis_client.pttl("name") > 29_000
    adopted.release()
    assert not redis_client.exists("name")


def test_a_hold_is_handed_over_inside_of_its_block(
    pair: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """Leaving the block of a hold that was handed over releases nothing and raises nothing."""
    one, other = pair
    with one.lock("name") as hold:
        ticket = hold.hand_over()
    assert redis_client.exists("name")
    other.adopt(ticket).release()
    with one.lock("name"):
        assert redis_client.exists("name")
    assert not redis_client.exists("name")


def test_a_ticket_is_good_once(pair: tuple[interlock.Client, interlock.Client]) -> None:
    """A second adoption by the same ticket is refused and takes nothing from the first."""
    one, other = pair
    ticket = held(one.lock("name")).hand_over()
    adopted = other.adopt(ticket)
    with pytest.raises(NotHeldError, match="cannot be adopted"):
        one.adopt(ticket)
    with pytest.raises(ReentryError):
        other.adopt(ticket)
    assert adopted.valid
    adopted.release()
    with pytest.raises(NotHeldError, match="cannot be adopted"):
        other.adopt(ticket)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def ended(place: str) -> bool:
    """Return whether *place* comes after the last step of an adoption."""
    ends = ("Client.adopt", "adopt", "acquire_for")
    return any(f"return in {each}," in place for each in ends)


def test_ctrl_c_anywhere_in_an_adoption(
    pair: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """Wherever Ctrl-C strikes in an adoption, nothing is held that nobody has in hand."""
    one, other = pair
    blow, left = Blow(1), list[str]()
    while blow.struck:
        ticket = held(one.lock("name")).hand_over(lease=20)
        adopted = None
        with contextlib.suppress(KeyboardInterrupt), blow:
            adopted = other.adopt(ticket)
        if adopted is not None:
            adopted.release()
        # A hold that was returned is its thread's, also if the caller never got it.
        if other.lock("name").hold is not None:
            # Python has no place between the end of a call and the next step of the caller.
            left.append(str(blow))
            other.lock("name").release()
        live = other._driver.session.live
        wait_until(lambda live=live: not live, 5, f"{blow} leaves nothing")
        with contextlib.suppress(NotHeldError):
            other.adopt(ticket).release()
        redis_client.delete("name")
        blow = blow.next()
    assert blow.at > 50
    assert [place for place in left if not ended(place)] == []


def test_an_adopted_hold_is_renewed(redis_url: str, redis_client: redis.Redis) -> None:
    """An adopted hold without a lease is renewed, and is lost if someone frees it."""
    with renews_soon(interlock.connect(redis_url)) as client:
        adopted = client.adopt(held(client.lock("name")).hand_over())
        for _ in range(3):
            wait_until(grown(adopted), 10, "it is renewed")
        assert not adopted.lost.is_set()
        assert redis_client.exists("name")
        redis_client.delete("name")
        assert adopted.lost.wait(30)


def test_a_ticket_that_nobody_adopts_ends_with_its_lease(
    pair: tuple[interlock.Client, interlock.Client],
) -> None:
    """A lock that was handed over and not adopted is free after the ticket's lease."""
    one, other = pair
    ticket = held(one.lock("name")).hand_over(lease=0.05)
    assert other.lock("name").acquire(timeout=5)
    with pytest.raises(NotHeldError):
        one.adopt(ticket)


def test_another_process_releases(redis_url: str, redis_client: redis.Redis) -> None:
    """A worker process releases a lock of a web process, even if the web process has ended."""
    web = (
        f"import interlock; c = interlock.connect({redis_url!r}); "
        "c.lock('name').acquire(); print(c.lock('name').hold.hand_over(lease=20))"
    )
    ticket = subprocess.run(
        [sys.executable, "-c", web], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    assert redis_client.exists("name")
    worker = (
        f"import interlock; c = interlock.connect({redis_url!r}); c.adopt({ticket!r}).release()"
    )
    subprocess.run([sys.executable, "-c", worker], check=True, timeout=60)
    assert not redis_client.exists("name")


async def test_asyncio_hands_over_too(redis_url: str, redis_client: redis.Redis) -> None:
    """A task adopts what a thread has given away, and extends its lease."""
    with interlock.connect(redis_url) as one:
        ticket = str(held(one.lock("name")).hand_over())
    async with interlock.asyncio.connect(redis_url) as other:
        adopted = await other.adopt(ticket)
        await adopted.extend(60)
        assert 59 < redis_client.pttl("name") / 1000 <= 60
        await adopted.release()
    assert not redis_client.exists("name")


def test_what_cannot_be_handed_over_says_so(
    pair: tuple[interlock.Client, interlock.Client],
) -> None:
    """Other kinds of lock, a re-entered hold, an ended hold and a wrong ticket are refused.

    Nothing changes.
    """
    one, other = pair
    read = one.read_write_lock("rw").read
    with pytest.raises(ConfigError, match="handed over"):
        held(read).hand_over()
    with pytest.raises(ConfigError, match="handed over"):
        held(one.multi_lock(one.lock("a"), one.lock("b"))).hand_over()
    lock = one.lock("name")
    hold = held(lock)
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


def test_a_lost_hold_is_not_handed_over(
    pair: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """Handing over or extending what the server has no more tells that it is lost."""
    one, other = pair
    for act in ("hand_over", "extend"):
        lock = one.lock("name")
        hold = held(lock)
        redis_client.delete("name")
        assert other.lock("name").acquire(blocking=False)
        with pytest.raises(HoldLostError):
            hold.hand_over() if act == "hand_over" else hold.extend(1)
        assert hold.lost.is_set()
        assert other.lock("name").owned()
        other.lock("name").release()
        with pytest.raises((HoldLostError, NotHeldError)):
            lock.release()


def test_a_hold_is_extended_and_never_shortened(
    pair: tuple[interlock.Client, interlock.Client], redis_client: redis.Redis
) -> None:
    """A longer lease counts from now; a shorter one changes nothing."""
    one, _ = pair
    hold = held(one.lock("name", lease=5))
    hold.extend(60)
    assert 59 < hold.remaining <= 60
    assert 59 < redis_client.pttl("name") / 1000 <= 60
    hold.extend(2)
    assert 58 < hold.remaining <= 60
    assert 58 < redis_client.pttl("name") / 1000 <= 60
    with pytest.warns(interlock.MisuseWarning, match="milliseconds"):
        hold.extend(30_000_000)
    hold.release()


def test_what_could_not_be_handed_over_is_over(redis_url: str, proxy: FaultProxy) -> None:
    """If the server is silent, the hold is over all the same, and the lock is free soon after."""
    url = proxy.url()
    with (
        interlock.connect(url, outage_timeout=0.3, command_timeout=0.2) as one,
        interlock.connect(redis_url) as other,
    ):
        hold = held(one.lock("name"))
        proxy.stop_accepting()
        proxy.disconnect()
        with pytest.raises(ServerUnavailableError):
            hold.hand_over()
        assert not hold.valid
        with pytest.raises(NotHeldError):
            hold.release()
        assert not other.lock("name").acquire(blocking=False)
        proxy.start_accepting()
        assert other.lock("name").acquire(timeout=10)
