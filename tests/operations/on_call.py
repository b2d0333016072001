"""What an operator does on any deployment: list, look, break one hold, and find a deadlock."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import HoldLostError, connect
from interlock.cli import main

if TYPE_CHECKING:
    from interlock import Client, Lock

NAMES = [f"orders:{number}" for number in range(12)]
"""Of locks: in a cluster every node has some."""

PATIENCE = 20.0
"""Seconds for a command; a busy machine learns slowly who serves what."""


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


def find_a_deadlock(url: str) -> None:
    """Make two clients wait for each other, find that, and break one hold."""

    def take(first: Lock, second: Lock, both: threading.Barrier) -> None:
        with suppress(HoldLostError), first:
            _ = both.wait(GIVE_UP)
            with second:
                pass

    def client() -> Client:
        return renews_soon(connect(url, command_timeout=PATIENCE))

    with client() as one, client() as two:
        both = threading.Barrier(2)
        threads = [
            threading.Thread(target=take, args=(one.lock("a"), one.lock("b"), both)),
            threading.Thread(target=take, args=(two.lock("b"), two.lock("a"), both)),
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: bool(one.deadlocks()), GIVE_UP, "the deadlock is found")
        assert sorted(step.waits_for for step in one.deadlocks()[0].steps) == ["a", "b"]
        assert one.lock("a").force_release()
        for thread in threads:
            thread.join(GIVE_UP)
        assert not any(thread.is_alive() for thread in threads)
