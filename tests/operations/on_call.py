"""What an operator does on any deployment: list, look, break one hold, and find a deadlock."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import HoldLostError, InterlockError, connect
from interlock.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock import Client
    from interlock.inspection import LockInfo
    from interlock.inspection.deadlocks import Deadlock

STOCK, ORDERS = "stock:7", "orders:42"
NAMES = [f"orders:{number}" for number in range(12)]
"""Of locks: in a cluster every node has some."""

PATIENCE = 20.0
"""Seconds for a command; a busy machine learns slowly who serves what."""


def described(client: Client, name: str = "orders") -> LockInfo:
    info = client.describe(name)
    assert info is not None
    return info


def holder_of(client: Client, name: str = "orders") -> str:
    return described(client, name).holders[0].holder


def operate(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Find a hold by the commands, break it, and see that its holder is told."""

    def run(*words: str) -> str:
        assert main([*words, "--url", url]) == 0
        return capsys.readouterr().out

    with renews_soon(connect(url, command_timeout=PATIENCE)) as client:
        holds = [held(client.lock(name)) for name in NAMES]
        told = threading.Event()
        holds[0].on_lost(told.set)
        listed = [
            json.loads(line)["name"]
            for line in run("list", "orders:*", "--json").split("\n")
            if line
        ]
        assert sorted(listed) == sorted(NAMES)
        shown = json.loads(run("why", NAMES[0], "--json"))["lock"]
        assert shown["holders"][0]["holder"] == holds[0].holder
        _ = run("break", NAMES[0], "--holder", str(holds[0].holder), "--reason", "it is stuck")
        # The reason is known then. `lost` is set before it is read.
        wait_until(told.is_set, GIVE_UP, "the holder is told")
        assert all(hold.valid for hold in holds[1:])
        for hold in holds[1:]:
            hold.release()
        with pytest.raises(HoldLostError, match="it is stuck"):
            holds[0].release()


@contextmanager
def deadlock(url: str) -> Iterator[None]:
    """Let two threads wait for each other until the block is left."""
    both = threading.Barrier(2)

    def take(client: Client, first: str, second: str) -> None:
        with suppress(InterlockError), client.lock(first):
            both.wait(GIVE_UP)
            with client.lock(second):
                pass

    # Cards come with each renewal, so a short lease makes a deadlock certain soon.
    with (
        connect(url, lease=3, command_timeout=PATIENCE) as one,
        connect(url, lease=3, command_timeout=PATIENCE) as other,
    ):
        ways = ((one, STOCK, ORDERS), (other, ORDERS, STOCK))
        threads = [
            threading.Thread(target=take, args=way, name=f"has {way[1]}", daemon=True)
            for way in ways
        ]
        for thread in threads:
            thread.start()
        yield
        # In a thread: the driver of a browser has an event loop in this one.
        closing = threading.Thread(target=other.close)
        closing.start()
        for thread in (closing, *threads):
            thread.join(GIVE_UP)


def find_a_deadlock(url: str) -> None:
    """Make two clients wait for each other, and find that, until one gives up."""
    with connect(url, command_timeout=PATIENCE) as client:
        found: list[Deadlock] = []

        def finds() -> bool:
            found[:] = client.deadlocks()
            return bool(found)

        with deadlock(url):
            wait_until(finds, GIVE_UP, "the deadlock is found")
            assert sorted(step.waits_for for step in found[0].steps) == [ORDERS, STOCK]
        assert client.deadlocks() == []
