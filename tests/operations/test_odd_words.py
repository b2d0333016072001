"""Odd names and odd outputs: a command tells what it did, and never ends with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.cli_process import ENVIRON
from tests.operations.on_call import holder_of
from tests.support.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from interlock import Client

LONG = 60.0
"""Seconds that no command here takes."""
FULL = Path("/dev/full")
"""A file that no byte can be written to."""


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
