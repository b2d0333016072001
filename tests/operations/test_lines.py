"""Cards, `interlock why` and errors name the line of a user's program that acquired a hold."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import pickle
import socket
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
import interlock.redis_py
from interlock import connect
from interlock._core.insight.card import CARD, LASTING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import redis

    from interlock import Client

HERE = Path(__file__).name
LONG = 60.0
"""Seconds: a longer lease than `Options.lease`, so that the card is written at once."""


def place(client: Client, name: str = "name") -> str:
    """Return what a card tells of the line that acquired *name*."""

    def told() -> str:
        info = client.describe(name)
        return info.holders[0].place if info and info.holders else ""

    wait_until(lambda: bool(told()), 10, "a card tells the line")
    return told()


def line_above() -> str:
    """Return the line before the one that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{HERE}:{frame.f_back.f_lineno - 1}"


@contextlib.contextmanager
def by_hand(client: Client) -> Generator[str]:
    """An acquire by hand."""
    assert client.lock("name").acquire(lease=LONG)
    yield line_above()


@contextlib.contextmanager
def by_hand_again(client: Client) -> Generator[str]:
    """The first one of two entries."""
    lock = client.lock("name", lease=LONG)
    lock.acquire()
    first = line_above()
    lock.acquire()
    yield first


@contextlib.contextmanager
def block(client: Client) -> Generator[str]:
    """A block."""
    with client.lock("name", lease=LONG):
        yield line_above()


@contextlib.contextmanager
def try_lock(client: Client) -> Generator[str]:
    """The block of a try."""
    with client.try_lock("name", lease=LONG):
        yield line_above()


@contextlib.contextmanager
def condition_block(client: Client) -> Generator[str]:
    """The block of a condition."""
    with client.condition(client.lock("name", lease=LONG)) as hold:
        line = line_above()
        assert hold
        yield line


@contextlib.contextmanager
def multi_lock(client: Client) -> Generator[str]:
    """A block of several locks."""
    with client.multi_lock(client.lock("name"), client.lock("other")):
        yield line_above()


@contextlib.contextmanager
def permit(client: Client) -> Generator[str]:
    """A permit."""
    kept = client.leased_semaphore("name", permits=1).acquire(lease=LONG)
    yield line_above()
    kept.release()


@contextlib.contextmanager
def ticket(client: Client) -> Generator[str]:
    """The adoption of a ticket."""
    with client.lock("name") as hold:
        given = hold.hand_over(lease=LONG)
    with client.adopt(given, lease=LONG):
        yield line_above()


WAYS: list[Callable[[Client], contextlib.AbstractContextManager[str]]] = [
    *(by_hand, by_hand_again, block, try_lock, condition_block, multi_lock, permit, ticket)
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_card_tells_the_line_of_the_acquire(
    way: Callable[[Client], contextlib.AbstractContextManager[str]], redis_url: str
) -> None:
    """It is the user's own line, however the lock was acquired, and of the first entry."""
    with connect(redis_url, lease=6) as client, way(client) as line:
        assert place(client).endswith(f"/{line}")


@pytest.mark.parametrize("decorator", ["locked", "single", "limited"])
def test_a_decorated_call_is_the_line(decorator: str, redis_url: str) -> None:
    """What a decorator of ours acquires was acquired where the function was called."""
    with connect(redis_url, lease=3) as client:
        decorate: Any = {
            "locked": client.locked("name"),
            "single": client.single("name"),
            "limited": client.limited("name", 1),
        }[decorator]
        told = decorate(lambda: place(client))()
        assert told.endswith(f"/{line_above()}")


@pytest.mark.parametrize(
    "library", ["asyncio", pytest.param("trio", marks=pytest.mark.needs("hosts"))]
)
def test_a_task_tells_its_line(library: str, redis_url: str) -> None:
    """It is the line of the coroutine that awaited the acquire, also after a wait."""
    face: Any = import_module(f"interlock.{library}")
    lines: list[str] = []

    async def work() -> None:
        async with face.connect(redis_url, lease=6) as client, face.connect(redis_url) as other:
            theirs = other.lock("name")
            assert await theirs.acquire(lease=0.5)
            await client.lock("name").acquire(lease=LONG)
            lines.append(line_above())
            with connect(redis_url) as reader:
                lines.append(place(reader))
            await client.lock("name").release()
            async with client.lock("name", lease=LONG):
                lines.append(line_above())
                with connect(redis_url) as reader:
                    lines.append(place(reader))

    if library == "asyncio":
        asyncio.run(work())
    else:
        import_module("trio").run(work)
    assert lines[1].endswith(f"/{lines[0]}")
    assert lines[3].endswith(f"/{lines[2]}")


def test_a_long_lease_is_told_at_once(redis_url: str, redis_client: redis.Redis) -> None:
    """Its card does not wait until the hold lasts; one with a usual lease has none by then."""
    with connect(redis_url) as client:
        card = CARD.format(client.client_id)
        client.lock("usual").acquire(lease=30)
        client.lock("long").acquire(lease=31)
        wait_until(lambda: bool(redis_client.exists(card)), 10, "there is a card")
        told: Any = redis_client.hgetall(card)
        [hold] = [field for field in told if field.startswith(b"h ")]
        assert hold.endswith(b" long")
        assert json.loads(told[hold])["age"] < LASTING
        assert redis_client.pttl(card) > 31_000


@pytest.mark.parametrize("prefix", [None, "acme:"])
def test_the_error_of_a_timeout_says_who_has_it(redis_url: str, prefix: str | None) -> None:
    """Host, process, program and line come before the id, and survive pickling."""
    with connect(redis_url, prefix=prefix) as client, connect(redis_url, prefix=prefix) as other:
        client.lock("name").acquire(lease=LONG)
        line = line_above()
        assert place(client)
        with pytest.raises(interlock.AcquireTimeoutError) as caught, other.lock("name", timeout=0):
            pass
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.host, error.pid) == (socket.gethostname(), os.getpid())
        assert error.program
        assert error.place.endswith(f"/{line}")
        words = (error.program, f"pid {error.pid} on {error.host}", error.place, error.holder)
        found = [str(error).index(word) for word in words]
        assert found == sorted(found)


def test_errors_know_the_holds_of_their_own_client(redis_url: str) -> None:
    """The line of a hold of this client is known without a card."""
    seen: list[BaseException] = []

    def elsewhere() -> None:
        for act in (lock.__enter__, lock.release):
            try:
                act()
            except interlock.InterlockError as error:
                seen.append(error)

    with connect(redis_url) as client, client.lock("name") as hold:
        line = line_above()
        lock = client.lock("name", timeout=0)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert [type(each) for each in seen] == [interlock.AcquireTimeoutError, interlock.NotHeldError]
    assert all(f"{line} ({hold.holder})" in str(each) for each in seen)
