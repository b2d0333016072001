"""The fake server: every object works on it, and it ends with its block."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.objects.awaited import resting, take_turn, until
from tests.support.doings import DOINGS, two_clients
from tests.support.holding import takes_turn
from tests.support.patience import GIVE_UP, wait_until

import interlock
import interlock.asyncio
import interlock.testing

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/testing.md"
USERS_TESTS = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("kind", sorted(DOINGS))
@pytest.mark.usefixtures("patient")
def test_every_object_does_everything(kind: str) -> None:
    """Two clients contend for one of each kind, which does all that it can."""
    with interlock.testing.fake() as fake, two_clients(fake.url) as (client, other):
        DOINGS[kind](client, other)


async def test_tasks_are_woken_by_messages() -> None:
    """The asyncio face works on it too, and no poll helps."""
    with interlock.testing.fake() as fake:
        async with (
            interlock.asyncio.connect(fake.url) as ours,
            interlock.asyncio.connect(fake.url) as theirs,
        ):
            async with ours.fair_lock("it"):
                waiting = asyncio.create_task(takes_turn(theirs.fair_lock("it")))
                await until(resting(theirs), 10, "it waits")
            assert await asyncio.wait_for(waiting, GIVE_UP)


def test_each_fake_is_empty_and_takes_options() -> None:
    """Two fakes share nothing, and the client has the options that it was given."""
    with interlock.testing.fake(lease=7) as client, interlock.testing.fake() as other:
        assert isinstance(client, interlock.Client)
        with client.lock("it") as hold, other.lock("it"):
            assert 0 < hold.remaining <= 7
    with pytest.raises(interlock.ConfigError), interlock.testing.fake(lease=-1):
        pass
    assert not serving()


def serving() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "interlock-fake"]


def test_it_ends_while_clients_are_connected() -> None:
    """The server ends with its block, also by an error, and whoever is still connected notices."""
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), interlock.testing.fake() as fake:
        client = interlock.connect(fake.url, outage_timeout=0.1)
        lock = client.lock("it")
        assert lock.acquire()
        raise ZeroDivisionError
    assert not serving()
    with pytest.raises(interlock.ServerUnavailableError):
        client.close()
    assert threading.active_count() == before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(fake.url.rpartition(":")[2])))


def test_messages_arrive_where_there_is_no_fcntl(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, where fakeredis leaves its sockets blocking, waiters are woken all the same."""
    monkeypatch.setattr("fakeredis._clients._tcp_server.HAS_FCNTL", False)
    with interlock.testing.fake() as ours, interlock.connect(ours.url) as theirs:
        lock = ours.lock("it")
        lock.acquire()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(take_turn, theirs.lock("it"), GIVE_UP)
            wait_until(resting(theirs), 10, "it waits")
            lock.release()
            assert waiting.result()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_users_tests(tmp_path: Path, workers: str) -> None:
    """The tests of the how-to pass in a user's project, also in several processes."""
    for name, source in USERS_TESTS:
        (tmp_path / name).write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-n", workers)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, tmp_path],
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("lacking", ["fakeredis", "lupa"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """Whoever asks for a fake without the extra is told what to install."""
    monkeypatch.delitem(sys.modules, "interlock.testing._fakeredis", raising=False)
    monkeypatch.setitem(sys.modules, lacking, None)
    with (
        pytest.raises(ModuleNotFoundError, match=rf"{lacking}.*pip install 'interlock\[testing\]'"),
        interlock.testing.fake(),
    ):
        pass
