"""Odd names and odd outputs: a command tells what it did, and never ends with a traceback."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.cli_process import ENVIRON
from tests.support.patience import wait_until

from interlock.cli.listing import row_of
from interlock.inspection import LockInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import redis

    from interlock import Client

LONG = 60.0
"""Seconds that no command here takes."""
FULL = Path("/dev/full")
"""A file that no byte can be written to."""


def holder_of(client: Client, name: str) -> str:
    """Return the holder id of the lock *name*."""
    info = client.describe(name)
    assert info is not None
    return info.holders[0].holder


def _held_for(client: Client) -> float | None:
    info = client.describe("orders")
    return None if info is None else info.holders[0].held_for


def test_an_output_that_cannot_be_written_is_74(client: Client, redis_url: str) -> None:
    """With a full disk the status is 74, and one line says that what was asked for is done."""
    client.lock("orders").acquire()
    holder = holder_of(client, "orders")
    wait_until(lambda: _held_for(client) is not None, 10, "a card tells of it")
    for arguments in (
        ("why", "orders"),
        ("break", "orders", "--holder", holder, "--reason", "stuck"),
    ):
        with FULL.open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "interlock", *arguments],
                env={**ENVIRON, "INTERLOCK_URL": redis_url},
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=LONG,
                check=False,
            )
        assert done.returncode == 74, arguments
        *logged, last = done.stderr.splitlines()
        assert last.startswith("interlock: the output could not be written")
        assert len(logged) == (arguments[0] == "break")
    assert client.describe("orders") is None


def test_a_terminal_without_the_letters_shows_escapes(client: Client, redis_url: str) -> None:
    """A name that the output's encoding lacks is escaped, and the command does its work."""
    client.lock("\u0437\u0430\u043a\u0430\u0437").acquire()
    name, holder = (
        "\u0437\u0430\u043a\u0430\u0437",
        holder_of(client, "\u0437\u0430\u043a\u0430\u0437"),
    )
    for arguments in (
        ("list",),
        ("why", name),
        ("break", name, "--holder", holder, "--reason", "stuck"),
        ("break", "--help"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *arguments],
            env={**ENVIRON, "INTERLOCK_URL": redis_url, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        # The line that a hold is too young for a card is no error.
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert "\\u0437" in done.stdout or "--help" in arguments
    assert client.describe(name) is None


def test_a_name_that_is_no_text_is_64(command: Callable[..., CompletedProcess[str]]) -> None:
    """A name or pattern that is not UTF-8 is a usage error, told in one line."""
    for arguments in (
        ("why", "\udcff"),
        ("list", "\udcff"),
        ("list", "\udcff", "--watch"),
        ("break", "\udcff", "--holder", "a:1", "--reason", "stuck"),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (64, ""), arguments
        assert "must be valid Unicode" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_name_may_begin_with_a_dash(
    client: Client, command: Callable[..., CompletedProcess[str]]
) -> None:
    """Behind ``--`` a lock whose name looks like an option is shown, listed and released."""
    client.lock("--json").acquire()
    holder = holder_of(client, "--json")
    assert "The lock '--json' is held by" in command("why", "--", "--json").stdout
    assert "--json" in command("list", "--", "--js*").stdout
    twice = command("why", "orders", "--", "-x")
    assert twice.returncode == 64
    assert twice.stderr.startswith("interlock: unknown arguments: ")
    done = command("break", "--holder", holder, "--reason", "stuck", "--", "--json")
    assert done.returncode == 0
    assert client.describe("--json") is None


def test_a_waiters_id_reaches_no_terminal_raw(
    redis_client: redis.Redis, command: Callable[..., CompletedProcess[str]]
) -> None:
    """An escape sequence in a fair queue is shown as text."""
    waiter = "\x1b[2Jevil:1"
    redis_client.rpush("redisson_lock_queue:{fair}", waiter)
    # A waiter whose place is over is none.
    redis_client.zadd("redisson_lock_timeout:{fair}", {waiter: (time.time() + 600) * 1000})
    done = command("why", "fair", "--json")
    assert "\\\\x1b[2Jevil:1" in done.stdout
    done = command("why", "fair")
    assert "\x1b" not in done.stdout


def test_a_number_has_no_holder_that_is_known(
    client: Client, command: Callable[..., CompletedProcess[str]]
) -> None:
    """A refused release says so, and the count of a latch is not told as free permits."""
    assert client.semaphore("slots").try_set_permits(1)
    done = command("break", "slots", "--holder", "x", "--reason", "stuck")
    assert done.returncode == 1
    assert "(held by nobody that the server shows)" in done.stderr
    latch = LockInfo("gate", "count_down_latch", free=2, waiting=1)
    assert "count: 2" in row_of(latch)
