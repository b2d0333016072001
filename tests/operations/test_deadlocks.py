"""Deadlocks of threads, tasks and processes are found on demand, by what cards and servers tell."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.operations.on_call import ORDERS, STOCK, deadlock
from tests.support.patience import GIVE_UP, wait_until

from interlock._core.insight.card import CARD, FORMAT, INDEX

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    import redis

    from interlock import Client

ONE, OTHER = (f"00000000-0000-0000-0000-00000000f00{number}" for number in (1, 2))


def test_a_deadlock_is_named(
    client: Client, redis_url: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Each step names its thread and process, and the list and `interlock why` show it."""
    with deadlock(redis_url):
        wait_until(lambda: bool(client.deadlocks()), GIVE_UP, "a deadlock is found")
        [found] = client.deadlocks()
        assert {step.waits_for for step in found.steps} == {STOCK, ORDERS}
        assert {step.client.pid for step in found.steps} == {os.getpid()}
        assert all(f"has {STOCK}" in s.thread for s in found.steps if s.waits_for == ORDERS)
        for info in client.locks():
            held_by = {step.held_by for step in found.steps if step.waits_for == info.name}
            assert info.deadlock
            assert held_by == {each.holder for each in info.holders}
        told = command("list", "--deadlocks")
        assert (told.returncode, told.stderr) == (1, "")
        assert told.stdout.startswith("deadlock of 2:")
        assert told.stdout.count("has waited") == 2
        assert "It is a deadlock of 2: " in command("why", STOCK).stdout
    told = command("list", "--deadlocks")
    assert (told.returncode, told.stdout) == (0, "")
    assert "no deadlock is seen" in told.stderr


def write_cards(
    redis_client: redis.Redis, *, silent: float = 1.0, waited: float = 60.0, held: float = 60.0
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
