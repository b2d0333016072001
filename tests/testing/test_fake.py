"""The imitated server for unit tests: the real client, both faces, runs on it."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from tests.support.cards import is_card
from tests.support.patience import let_others_run, wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock.testing.fake import FakeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
SOON = 10.0

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/testing.md"
USERS_TESTS = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """Give an empty imitated server."""
    with FakeServer() as server:
        yield server


async def test_tasks(fake: FakeServer) -> None:
    """Tasks of several clients take turns, and each finds the lock free of the others."""
    inside = turns = 0

    async def take_turn(client: interlock.asyncio.Client) -> None:
        nonlocal inside, turns
        async with client.lock("it"):
            inside += 1
            assert inside == 1
            await let_others_run()
            inside -= 1
            turns += 1

    async with (
        interlock.asyncio.connect(fake.url) as one,
        interlock.asyncio.connect(fake.url) as two,
    ):
        await asyncio.gather(*(take_turn(client) for client in (one, two) for _ in range(20)))
    assert turns == 40


def test_a_loss_can_be_made(fake: FakeServer) -> None:
    """A test deletes a lock or lets its lease pass, and the holder is told."""
    with renews_soon(interlock.connect(fake.url)) as client:
        first, second = client.lock("first"), client.lock("second")
        assert first.acquire()
        assert second.acquire()
        holds = [first.hold, second.hold]
        fake.delete("first")
        fake.advance(31)
        for lock, hold in zip((first, second), holds, strict=True):
            assert hold is not None
            assert hold.lost.wait(SOON)
            with pytest.raises(interlock.HoldLostError):
                lock.release()
        fake.clear()
        assert all(map(is_card, fake.stored())), "but for the card, which is written again"


def test_redis_py(fake: FakeServer) -> None:
    """A test looks at the data with redis-py, and what the server cannot do is an error."""
    with redis.Redis.from_url(fake.url, decode_responses=True) as client:
        assert client.ping()
        assert client.get("missing") is None
        client.hset("hash", "field", "1")
        assert client.hgetall("hash") == {"field": "1"}
        with pytest.raises(redis.ResponseError, match="unknown command 'LOLWUT'"):
            client.execute_command("LOLWUT")
        with pytest.raises(redis.ResponseError, match="out of range"):
            client.execute_command("SELECT", "5")
        with pytest.raises(redis.ResponseError, match="NOPROTO"):
            client.execute_command("HELLO", "3")
        with client.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe("news")
            wait_until(lambda: client.publish("news", "hello") == 1, SOON, "it is subscribed")
            wait_until(lambda: bool(pubsub.get_message(timeout=0.1)), SOON, "the message came")


def test_it_ends_while_clients_are_connected() -> None:
    """Leaving the block hangs up on clients, which are told that the server is not available."""
    with FakeServer() as fake:
        client = interlock.connect(fake.url, outage_timeout=0.1)
        assert client.lock("it").acquire()
    with pytest.raises(interlock.ServerUnavailableError):
        client.close()
    assert "interlock-fake" not in {thread.name for thread in threading.enumerate()}


def test_fixture(tmp_path: Path) -> None:
    """The tests of the how-to pass in a user's project, on a machine without a server program."""
    for name, source in USERS_TESTS:
        (tmp_path / name).write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTEST_")}
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, tmp_path],
        env={**environment, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout


def test_a_server_that_does_not_run_says_so() -> None:
    """Before its block and after it, a server refuses at once, and has left no event loop."""
    fake = FakeServer()
    with pytest.raises(RuntimeError, match="does not run"):
        fake.clear()
    with fake:
        assert all(map(is_card, fake.stored())), "but for the card, which is written again"
    with pytest.raises(RuntimeError, match="does not run"):
        fake.stored()
    gc.collect()  # an event loop left open would be told here
