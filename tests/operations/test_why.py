"""`interlock why`: what it says is true, and the console says the same."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlock.cli import main
from interlock.inspection import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.why import explain

if TYPE_CHECKING:
    import redis

ALIVE = ClientInfo("a", host="web-3", pid=812, program="orders", answering=True, silent=3.0)
DEAD = ClientInfo(
    "d", host="web-9", pid=7, program="batch", answering=False, silent=700.0, connected=False
)
SLOW = ClientInfo(
    "s", host="web-5", pid=9, program="orders", answering=False, silent=40.0, connected=True
)


def lock(
    client: ClientInfo, *, kind: str = "lock", waiters: tuple[WaiterInfo, ...] = ()
) -> LockInfo:
    holder = HolderInfo(
        f"{client.client_id}:1", client, remaining=2900.0, held_for=60.0, renewed=False, thread="t"
    )
    return LockInfo(
        "orders:42",
        kind,
        holders=(holder,),
        holder_count=1,
        waiters=waiters,
        waiter_count=len(waiters),
    )


@pytest.mark.parametrize(
    ("info", "state", "words", "command"),
    [
        (None, "free", ["Nobody holds or awaits 'orders:42'."], ""),
        (lock(ALIVE), "held", ["t of orders (pid 812 on web-3)", "is alive", "Nobody waits."], ""),
        (lock(DEAD), "dead", ["is dead", "(11 min 40 s)", "ends in 48 min"], "interlock break"),
        (lock(SLOW), "silent", ["slow, frozen or cut off", "(40 s)"], "py-spy dump --pid 9"),
        (
            lock(ALIVE, waiters=(WaiterInfo("s:2", SLOW, waited=50.0),) * 8),
            "held",
            ["8 wait for it, in 1 client.", "50 s"],
            "py-spy dump --pid 812",
        ),
        (
            LockInfo(
                "orders:42",
                "fair_lock",
                waiters=(WaiterInfo("s:2", SLOW, waited=50.0, remaining=5.0, position=1),),
                waiting=1,
            ),
            "awaited",
            ["Nobody holds the fair lock", "In the order of the queue"],
            "",
        ),
        (
            LockInfo("orders:42", "semaphore", free=0, waiting=2),
            "awaited",
            ["has 0 free", "does not show who holds its permits", "2 clients wait"],
            "",
        ),
        (
            LockInfo("orders:42", "semaphore", free=3),
            "free",
            ["The number 'orders:42' is 3", "or the count of a latch", "Nobody waits."],
            "",
        ),
        (
            LockInfo("orders:42", "count_down_latch", free=2, waiting=1),
            "awaited",
            ["The latch 'orders:42' is at 2, and opens at 0.", "1 client waits for it"],
            "",
        ),
    ],
)
def test_each_state_has_its_words(
    info: LockInfo | None, state: str, words: list[str], command: str
) -> None:
    """The paragraph tells holders and waiters, who is alive, and the time that is left."""
    account = explain("orders:42", info)
    assert account.state == state
    for each in words:
        assert each in account.text
    assert (account.commands or ("",))[0].startswith(command)
    assert bool(account.commands) == bool(command)


def test_a_lock_of_another_library_is_told(
    redis_url: str, redis_client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """redis-py's Lock is a string: nobody holds our lock, and nobody can acquire it either."""
    redis_client.set("orders", "a token", px=60_000)
    redis_client.hset("stock", "count", "7")
    for name, kind in (("orders", "string"), ("stock", "hash")):
        assert main(["why", name, "--url", redis_url]) == 1
        told = capsys.readouterr()
        assert f"Its key is a {kind} without a holder" in told.out + told.err


@pytest.mark.parametrize(
    "name", ["-x", "--holder", "two words", "it's", "a\x1b[31m'\\1\n", "a\u202eb", "$HOME `id`"]
)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for such a shell")
def test_the_commands_can_be_typed_whatever_the_name(name: str) -> None:
    """A shell that is given what is printed hands the name on, and it is no option."""
    info = replace(lock(ALIVE, waiters=(WaiterInfo("s:2", SLOW, waited=5.0),)), name=name)
    [_, command] = explain(name, info).commands
    assert command.isprintable()
    line = f"printf '%s\\0' {command}"
    told = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    words = told.decode().split("\0")[1:-1]
    assert name in words
    assert words[-2:] == ["--", name] or not name.startswith("-")
