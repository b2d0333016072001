"""`interlock why`: what it says is true, and the console says the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
import redis

from interlock import connect
from interlock.cli import main
from interlock.cli.why import _with_server
from interlock.inspection import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.cards import End
from interlock.inspection.why import explain
from interlock.inspection.words import client_of, silence

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
    """Return a lock that a thread of *client* holds for a fixed lease."""
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
        (
            None,
            "free",
            ["Nobody holds or awaits 'orders:42'."],
            "",
        ),
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


def test_a_ticket_has_no_process_that_could_be_alive_or_dead() -> None:
    """Its process has ended, as it should, so nothing is told of a connection or an answer."""
    ticket = ClientInfo(
        "d", host="ann@ci", program="by ticket", answering=True, silent=24.0, connected=False
    )
    info = lock(ticket, kind="fenced_lock")
    holders = (replace(info.holders[0], thread="release 1.7"),)
    account = explain("orders:42", replace(info, holders=holders))
    assert "is held by a ticket of ann@ci (release 1.7) for 1 min 0 s." in account.text
    assert "No process is needed for that: it is held until the ticket is used." in account.text
    assert not account.commands
    assert not silence(ticket)
    assert client_of(ticket, "") == "ann@ci by ticket"
    waiters = (WaiterInfo("s:2", SLOW, waited=50.0),)
    account = explain("orders:42", lock(ticket, waiters=waiters))
    assert "Ask ann@ci whether the ticket is in use" in account.text
    assert account.commands == ("interlock break orders:42 --holder d:1 --reason TEXT",)


def test_the_dead_are_told_first_among_many_holders() -> None:
    """Permits that leak are told, with a command for each, however many others hold one."""
    alive = [HolderInfo(f"a{n:031x}", ALIVE) for n in range(5)]
    dead = [HolderInfo(f"d{n:031x}", DEAD, remaining=900.0) for n in (8, 9)]
    holders = (*alive, *dead)
    info = LockInfo("pool", "leased_semaphore", holders=holders, holder_count=7, free=0)
    account = explain("pool", info)
    assert account.state == "dead"
    assert "has 0 free, and 7 held. A permit is held by batch" in account.text
    assert account.text.count("That process is dead") == 2
    assert "4 more hold it." in account.text
    assert [command.split()[4] for command in account.commands] == [each.holder for each in dead]


def test_a_lock_of_another_library_is_told(
    redis_url: str,
    redis_client: redis.Redis[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """redis-py's Lock is a string: nobody holds our lock, and nobody can acquire it either."""
    redis_client.set("orders", "a token", px=60_000)
    redis_client.hset("stock", "count", "7")
    for name, kind in (("orders", "string"), ("stock", "hash")):
        assert main(["why", name, "--url", redis_url]) == 1
        told = capsys.readouterr()
        assert f"Its key is a {kind} without a holder" in told.out + told.err


def test_an_end_is_told_as_certain_only_where_nobody_renews() -> None:
    """Java renews without a card, and who is frozen may come back; a fixed lease ends."""
    held = lock(ALIVE).holders[0]

    def text(**changes: object) -> str:
        return explain("orders:42", replace(lock(ALIVE), holders=(replace(held, **changes),))).text

    unless = re.compile(r"ends in 48 min 20 s, at [^.]*, unless it is renewed\.")
    assert not unless.search(text())
    assert unless.search(text(client=ClientInfo("java"), renewed=None))
    assert unless.search(text(client=SLOW, renewed=True))
    assert not unless.search(text(client=DEAD, renewed=True))


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


def test_the_commands_name_the_server_that_was_given(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``--url`` they have it too, unless it may have a password."""
    with connect(redis_url) as client, client.lock("orders:42"):
        queue = "redisson_lock_queue:{orders:42}"
        with redis.Redis.from_url(redis_url) as server:
            _ = server.rpush(queue, "00000000-0000-0000-0000-00000000cafe:1")
        assert main(["why", "orders:42", "--url", redis_url]) == 0
        shown = capsys.readouterr().out
        assert f"  $ interlock break --url {redis_url} orders:42 --holder" in shown
        assert main(["why", "orders:42", "--json", "--url", redis_url]) == 0
        told = json.loads(capsys.readouterr().out)["commands"]
        assert any(each.startswith(f"interlock break --url {redis_url} orders:42") for each in told)
    secret = {"url": "redis://me:pw@db", "prefix": None}
    assert _with_server("interlock break x", secret) == "interlock break --url URL x"
    assert _with_server("py-spy dump --pid 7", secret) == "py-spy dump --pid 7"


def test_the_last_end_is_told() -> None:
    """A loss has its reason."""
    for why, told in (
        ("expired", "lost: expired"),
        ("", "lost: unknown why"),
    ):
        account = explain("orders:42", None, End("a:1", ALIVE, 12.0, lost=True, why=why))
        assert account.text.endswith(f"ended 12 s ago: it was {told}.")


def test_all_that_is_known_of_holders_and_waiters_is_told() -> None:
    """The text has what commands and logs take, and each waiter in the order of the queue."""
    waiters = tuple(
        WaiterInfo(f"s:{n}", SLOW, waited=9.0 - n, thread=f"t{n}", position=at)
        for at, n in enumerate((3, 1, 2), 1)
    )
    info = lock(ALIVE, kind="fair_lock", waiters=waiters)
    holder = replace(info.holders[0], depth=3, trace_id="4bf92f", renewed=True, lease=3000.0)
    text = explain("orders:42", replace(info, holders=(holder,), token=7, waiting=3)).text
    for each in ("a:1", "entered 3 times", "the trace 4bf92f", "fencing token is 7"):
        assert each in text
    assert "It is renewed. Without that it ends in 48 min 20 s." in text
    assert "3 wait for it, in 1 client. In the order of the queue: t3 of" in text
    assert text.index("t1 of orders") < text.index("t2 of orders (pid 9 on web-5), for 7.0 s")


def test_a_lock_that_nobody_holds_is_told(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1."""
    assert main(["why", "order:42", "--url", redis_url]) == 1
    assert "Nobody holds or awaits 'order:42'." in capsys.readouterr().out


def test_what_python_has_set_tells_a_semaphore_from_a_latch(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that Python has set up is told with what it set."""
    with connect(redis_url) as client:
        assert client.semaphore("stock", permits=5).acquire(2)
        client.count_down_latch("parts", count=3).count_down()
        assert client.count_down_latch("some").try_set_count(4)
        told: dict[str, str] = {}
        for name in ("stock", "parts", "some"):
            main(["why", name, "--url", redis_url])
            told[name] = capsys.readouterr().out
        main(["list", "--kind", "count_down_latch", "--url", redis_url])
        listed = capsys.readouterr().out
    assert "The semaphore 'stock' has 3 of 5 free." in told["stock"]
    assert "The latch 'parts' is at 2 of 3, and opens at 0." in told["parts"]
    assert "The number 'some' is 4: the free permits of a semaphore, or the" in told["some"]
    assert "parts" in listed
    assert "some" in listed
    assert "stock" not in listed
