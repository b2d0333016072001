"""A hold goes from one process to another by a ticket, and a lease is extended."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.holding import held

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
    from tests.support.proxy import FaultProxy

# Tests may use both faces in one thread.
pytestmark = pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")


@pytest.fixture
def pair(redis_url: str) -> Iterator[tuple[interlock.Client, interlock.Client]]:
    """Give two clients."""
    with interlock.connect(redis_url) as one, interlock.connect(redis_url) as other:
        yield one, other


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
