"""What users and operators see of holds: cards, errors, the list."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import pickle
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import SIDES, make, rival
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import connect
from interlock._core.insight.card import CARD, LASTING
from interlock.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from interlock import Client
    from interlock.inspection import LockInfo

HERE = Path(__file__).name
LONG = 60.0
"""Seconds: a longer lease than `Options.lease`, so that the card is written at once."""
FACTORIES = ("lock", "fair_lock", "fenced_lock", "group_lock", "spin_lock", *SIDES)


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Return a client whose holds last soon."""
    with connect(redis_url, lease=3) as made:
        yield made


@pytest.fixture
def other(redis_url: str) -> Iterator[Client]:
    """Return another client, which knows no more than the server."""
    with connect(redis_url) as made:
        yield made


def described(client: Client, until: Callable[[LockInfo], object]) -> LockInfo:
    """Return what is known of the lock ``"name"`` as soon as that is *until*."""

    def found() -> bool:
        info = client.describe("name")
        return info is not None and bool(until(info))

    wait_until(found, 10, "the list tells it")
    info = client.describe("name")
    assert info is not None
    return info


def told(info: LockInfo) -> bool:
    """Return whether a card tells of the holder."""
    return bool(info.holders) and bool(info.holders[0].place)


def line_above() -> str:
    """Return the line before the one that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{HERE}:{frame.f_back.f_lineno - 1}"


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("way", ["acquire", "with", "trying"])
def test_a_card_tells_whose_a_hold_is(
    factory: str, way: str, client: Client, other: Client
) -> None:
    """Host, process, thread and line of the acquire, however that was made."""
    lock = make(client, factory, "name", lease=LONG)
    with contextlib.ExitStack() as stack:
        if way == "acquire":
            lock.acquire()
            line = line_above()
            stack.callback(lock.release)
        elif way == "with":
            stack.enter_context(lock)
            line = line_above()
        else:
            stack.enter_context(lock.trying())
            line = line_above()
        [holder] = described(other, told).holders
        assert holder.place.endswith(f"/{line}")
        assert (holder.client.host, holder.client.pid) == (socket.gethostname(), os.getpid())
        assert "MainThread" in holder.thread
        assert (holder.lease, holder.renewed) == (LONG, False)


def test_a_long_lease_is_told_at_once(client: Client, redis_client: redis.Redis) -> None:
    """Its card does not wait until the hold lasts; one with a usual lease has none by then."""
    card = CARD.format(client.client_id)
    client.lock("usual").acquire()
    client.lock("long").acquire(lease=LONG)
    wait_until(lambda: bool(redis_client.exists(card)), 10, "there is a card")
    fields: Any = redis_client.hgetall(card)
    [hold] = [field for field in fields if field.startswith(b"h ")]
    assert hold.endswith(b" long")
    assert json.loads(fields[hold])["age"] < LASTING


def test_a_card_tells_how_a_hold_ended(client: Client, redis_client: redis.Redis) -> None:
    """A hold that lasts is told, and then that it was released; or lost, and why."""
    card = CARD.format(client.client_id)

    def ends() -> list[Any]:
        fields: Any = redis_client.hgetall(card)
        found = [json.loads(fields[each]) for each in fields if each.startswith(b"x ")]
        return sorted(each["how"] for each in found)

    one, two = client.lock("one"), client.lock("two")
    with one:
        assert two.acquire()
        wait_until(lambda: redis_client.hlen(card) >= 4, 10, "both last")
        redis_client.delete("two")
        wait_until(two.hold.lost.is_set, 10, "one is lost")
        with pytest.raises(interlock.HoldLostError):
            two.release()
    wait_until(lambda: ends() == ["lost", "released"], 10, "both ends are told")


def test_the_error_of_a_timeout_says_who_has_it(client: Client, other: Client) -> None:
    """Host, process, program and line come before the id, and survive pickling."""
    client.lock("name").acquire(lease=LONG)
    line = line_above()
    described(other, told)
    with (
        pytest.raises(interlock.AcquireTimeoutError) as caught,
        other.lock("name", timeout=0),
    ):
        pass
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.host, error.pid) == (socket.gethostname(), os.getpid())
    assert error.place.endswith(f"/{line}")
    words = (error.program, f"pid {error.pid} on {error.host}", error.place, error.holder)
    found = [str(error).index(word) for word in words]
    assert found == sorted(found)


def test_errors_know_the_holds_of_their_own_client(client: Client) -> None:
    """The line of a hold of this client is known without a card."""
    lock = client.lock("name", timeout=0)
    seen: list[BaseException] = []

    def elsewhere() -> None:
        for act in (lock.__enter__, lock.release):
            try:
                act()
            except interlock.InterlockError as error:
                seen.append(error)

    with client.lock("name") as hold:
        line = line_above()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [type(each) for each in seen] == [
            interlock.AcquireTimeoutError,
            interlock.NotHeldError,
        ]
        assert all(f"{line} ({hold.holder})" in str(each) for each in seen)


def test_a_task_tells_its_line(redis_url: str, other: Client) -> None:
    """It is the line of the coroutine that awaited the acquire, also after a wait."""

    async def work() -> None:
        async with interlock.asyncio.connect(redis_url) as client:
            await other_client.lock("name").acquire(lease=0.3)
            await client.lock("name").acquire(lease=LONG)
            lines.append(line_above())
            info = await asyncio.to_thread(described, other, told)
            lines.append(info.holders[0].place)

    async def both() -> None:
        nonlocal other_client
        async with interlock.asyncio.connect(redis_url) as other_client:
            await work()

    other_client: Any = None
    lines: list[str] = []
    asyncio.run(both())
    assert lines[1].endswith(f"/{lines[0]}")


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_card_tells_who_waits(factory: str, client: Client, other: Client) -> None:
    """A wait is told while it lasts, with its thread; then the hold is."""
    lock = make(client, factory, "name")
    first = make(other, rival(factory), "name")

    def wait() -> None:
        with lock:
            held.set()
            go.wait(20)

    held, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait, name="the waiter")
    with first:
        thread.start()
        info = described(other, lambda info: info.waiters and info.waiters[0].thread)
        [waiter] = info.waiters
        assert "the waiter" in waiter.thread
        assert waiter.client.pid == os.getpid()
    assert held.wait(10)
    info = described(other, told)
    assert info.holders[0].holder == waiter.holder
    assert not info.waiters
    go.set()
    thread.join()


def test_why_says_the_line(
    client: Client, other: Client, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`interlock why` names host, program and line before the holder id."""
    client.lock("name").acquire(lease=LONG)
    line = line_above()
    described(other, told)
    assert main(["why", "name", "--url", redis_url]) == 0
    text = capsys.readouterr().out
    found = [text.index(word) for word in (socket.gethostname(), line, "holder id")]
    assert found == sorted(found)


def test_the_list_shows_the_holds_by_their_kinds(client: Client, other: Client) -> None:
    """A hold with a token is shown as that of a fenced lock."""
    with (
        client.lock("one"),
        client.fenced_lock("two") as hold,
        client.spin_lock("three"),
    ):
        found = {info.name: (info.kind, info.token) for info in other.locks()}
    assert found == {
        "one": ("lock", None),
        "two": ("fenced_lock", hold.token),
        "three": ("lock", None),
    }


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_command_breaks_a_hold(
    factory: str, client: Client, other: Client, redis_url: str
) -> None:
    """Its holder is told the reason, and who waits has the lock soon."""
    lock, waiting = make(client, factory, "name"), make(other, rival(factory), "name")
    got = threading.Event()

    def wait() -> None:
        with waiting:
            got.set()

    thread = threading.Thread(target=wait)
    with pytest.raises(interlock.HoldLostError) as caught, lock as hold:
        thread.start()
        described(other, lambda info: info.waiters)
        assert (
            main(
                ["break", "name", "--holder", hold.holder, "--reason", "stuck", "--url", redis_url]
            )
            == 0
        )
        assert got.wait(1)
        assert hold.lost.wait(5)
    assert caught.value.reason == "force-released"
    assert "stuck" in str(caught.value)
    thread.join()


def test_a_loss_names_a_failover(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has left a note, and the client knows that another server has taken over."""
    monkeypatch.setattr(client._driver.state, "took_over", lambda _key: 0.0)
    lock = client.lock("name")
    lock.acquire()
    redis_client.delete("name")
    with pytest.raises(interlock.HoldLostError, match="another server took over 0 s ago"):
        lock.release()


def test_a_loss_says_that_its_reason_could_not_be_read(
    client: Client, redis_client: redis.Redis
) -> None:
    """Something else stands where an operator's note would."""
    lock = client.lock("name")
    lock.acquire()
    redis_client.rpush(f"interlock_forced:{{name}}:{lock.hold.holder}", "x")
    redis_client.delete("name")
    with pytest.raises(interlock.HoldLostError, match="deleted, evicted, released by force, or"):
        lock.release()
