"""What cannot be handed over or extended, and says so."""

from __future__ import annotations

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
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

# Tests may use both faces in one thread.
pytestmark = pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")


@pytest.fixture
def pair(redis_url: str) -> Iterator[tuple[interlock.Client, interlock.Client]]:
    """Give two clients."""
    with interlock.connect(redis_url) as one, interlock.connect(redis_url) as other:
        yield one, other


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
