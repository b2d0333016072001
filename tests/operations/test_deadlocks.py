"""Deadlocks of threads, tasks and processes are found on demand, by what cards and servers tell."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.operations.ring import FIVE, Ring
from tests.support.patience import GIVE_UP, wait_until

from interlock import Options, connect
from interlock._core.insight.card import CARD, FORMAT, INDEX
from interlock._links.urls import open_url
from interlock.errors import ServerUnavailableError
from interlock.inspection import Reader
from interlock.inspection.why import account_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    import redis

    from interlock import Client
    from interlock.inspection import Deadlock

ONE, OTHER = (f"00000000-0000-0000-0000-00000000f00{number}" for number in (1, 2))


def found_by(client: Client) -> list[Deadlock]:
    """Return the deadlocks as soon as there are some."""
    found: list[Deadlock] = []

    def some() -> bool:
        found[:] = client.deadlocks()
        return bool(found)

    wait_until(some, GIVE_UP, "a deadlock is found")
    return found


def test_a_ring_of_five_is_found(
    client: Client, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A ring over threads, tasks and a process, with a reader, is named, and marked in the list."""
    with Ring(redis_url) as ring:
        [deadlock] = found_by(client)
        assert len(deadlock.steps) == FIVE
        assert {step.waits_for for step in deadlock.steps} == {f"ring:{n}" for n in range(FIVE)}
        assert ring.pid in {step.client.pid for step in deadlock.steps}
        threads = " ".join(step.thread for step in deadlock.steps)
        for part in ("thread 'first'", "thread 'second'", "task 'Task-"):
            assert part in threads
        assert min(step.waited for step in deadlock.steps) >= 5
        marked = {info.name: info.deadlock for info in client.locks()}
        assert marked == {f"ring:{n}": True for n in range(FIVE)}
        for info in client.locks():
            held_by = {step.held_by for step in deadlock.steps if step.waits_for == info.name}
            assert held_by == {each.holder for each in info.holders}
        told = command("list", "--deadlocks")
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 5:")
        assert told.stdout.count("has waited") == FIVE
        assert f"pid {ring.pid} " in told.stdout
        with Reader(*open_url(redis_url, Options())) as reader:
            _, account = account_of(reader, "ring:1")
        assert account.state == "deadlock"
        assert "It is a deadlock of 5: " in account.text
    # The one whose lock was broken hears of that; nobody hears of the deadlock.
    assert sorted(ring.ended) == ["HoldLostError", *["done"] * 4]
    assert client.deadlocks() == []
    told = command("list", "--deadlocks")
    assert (told.returncode, told.stdout) == (0, "")
    assert "no deadlock is seen" in told.stderr


def test_a_search_without_rights_is_no_answer(
    redis_url: str, redis_client: redis.Redis, narrow: Callable[..., str]
) -> None:
    """A user without the right to read cards gets an error with the line that permits it."""
    with connect(redis_url, lease=3) as holding, holding.lock("a"):
        card = CARD.format(holding.client_id)
        wait_until(lambda: redis_client.exists(card), GIVE_UP, "the card is written")
        with connect(narrow("~a"), card=False) as client:
            with pytest.raises(ServerUnavailableError, match=r" \+zscan ") as refused:
                client.deadlocks()
            assert refused.value.code == "NOPERM"


def test_a_long_wait_is_no_deadlock(client: Client, redis_url: str) -> None:
    """A waiter behind a busy holder, which holds a lock itself, is in no deadlock."""
    with connect(redis_url, lease=3) as other, client.lock("busy"):

        def wait() -> None:
            with other.lock("own"):
                _ = other.lock("busy").acquire(timeout=8)

        waiter = threading.Thread(target=wait)
        waiter.start()

        def long() -> bool:
            info = client.describe("busy")
            return info is not None and (info.longest_wait or 0) > 6

        wait_until(long, GIVE_UP, "it waits for long")
        assert client.deadlocks() == []
        waiter.join()


def write_cards(
    redis_client: redis.Redis,
    *,
    silent: float = 1.0,
    waited: float = 60.0,
    held: float = 60.0,
) -> None:
    """Write the cards of two clients that hold a lock each, and wait for the other's.

    Args:
        redis_client: of the server.
        silent: seconds since the first one was written.
        waited: seconds for which the second one waits, until its card was written just now.
        held: seconds for which the second one holds its lock.
    """
    about = {"format": FORMAT, "number": 1, "period": 10.0, "holds": 1, "waits": 1}
    for me, mine, theirs, ages, late in (
        (ONE, "a", "b", (60.0, 60.0), silent),
        (OTHER, "b", "a", (held, waited), 0.0),
    ):
        entries = [json.dumps({"age": age, "owner": 5}) for age in ages]
        card = {
            "client": json.dumps(about),
            "written": str((time.time() - late) * 1000),
            f"h {me}:1 {mine}": entries[0],
            f"w {me}:2 {theirs}": entries[1],
        }
        redis_client.delete(CARD.format(me))
        redis_client.hset(CARD.format(me), mapping=card)
        redis_client.zadd(INDEX, {me: time.time() * 1000 + 60_000})
        redis_client.hset(mine, f"{me}:1", 1)
        redis_client.pexpire(mine, 60_000)


def test_two_that_wait_for_each_other_are_found(client: Client, redis_client: redis.Redis) -> None:
    """One look at two cards is enough."""
    write_cards(redis_client)
    [deadlock] = client.deadlocks()
    assert {(step.waits_for, step.held_by) for step in deadlock.steps} == {
        ("a", f"{ONE}:1"),
        ("b", f"{OTHER}:1"),
    }


@pytest.mark.parametrize(
    "ages",
    [{"silent": 9.0, "waited": 8.0}, {"silent": 9.0, "held": 8.0}, {"silent": 30.0}],
    ids=["waits later", "holds later", "is silent"],
)
def test_cards_that_do_not_prove_it_are_no_deadlock(
    client: Client, redis_client: redis.Redis, ages: dict[str, float]
) -> None:
    """The first may have given up before the second began, or may be dead."""
    write_cards(redis_client, **ages)
    assert client.deadlocks() == []


@pytest.mark.parametrize("kind", ["nobody", "another"])
def test_a_hold_that_is_over_is_no_part_of_a_deadlock(
    client: Client, redis_client: redis.Redis, kind: str
) -> None:
    """The server has the last word on who holds a lock, whatever cards tell."""
    write_cards(redis_client)
    redis_client.delete("a")
    if kind == "another":
        redis_client.hset("a", f"{OTHER}:9", 1)
    assert client.deadlocks() == []
