"""Missing rights are told, in one line for each kind, and never shown as nothing."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.servers import wait_until

from interlock import connect
from interlock._core.insight.card import CARD, INDEX
from interlock.check import Requirements
from interlock.cli import main
from interlock.cli.table import waiting_of
from interlock.inspection import LockInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

OTHER = "00000000-0000-0000-0000-00000000beef"
CLIENT = {"format": 1, "number": 1, "period": 60.0, "host": "web-3", "pid": 812, "program": "shop"}
ENTRY = {"age": 250.0, "owner": 1, "lease": 30.0, "renewed": True, "thread": "Thread-7"}


@pytest.fixture
def held(redis_client: redis.Redis) -> redis.Redis:
    """Give a server with a lock, its holder and a thread that polls for it, as a card tells."""
    redis_client.hset("orders", f"{OTHER}:1", 1)
    redis_client.pexpire("orders", 20_000)
    told = {
        "client": json.dumps({**CLIENT, "waits": 1}),
        "written": str(int(time.time() * 1000)),
        f"h {OTHER}:1 orders": json.dumps(ENTRY),
        f"w {OTHER}:2 orders": json.dumps({**ENTRY, "owner": 2}),
    }
    redis_client.hset(CARD.format(OTHER), mapping=told)
    redis_client.zadd(INDEX, {OTHER: int(time.time() * 1000) + 60_000})
    return redis_client


def test_waiters_are_told_without_the_right_to_count_listeners(
    held: redis.Redis, narrow: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without PUBSUB NUMSUB cards still tell who waits; where none does, a question mark stands."""
    held.hset("nightly", f"{OTHER}:3", 1)
    url = narrow("~*", "-pubsub|numsub")

    assert main(["list", "--url", url]) == 0
    shown = capsys.readouterr()
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert re.search(r"1 client, first 00:04:[1-5]\d$", rows["orders"])
    assert rows["nightly"].endswith("?")
    assert shown.err.count("\n") == 1
    assert "PUBSUB NUMSUB" in shown.err
    assert main(["list", "--waiting", "--url", url]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    for name, waiting in {
        "orders": "1 waits for it, in 1 client",
        "nightly": "It is not known whether somebody waits",
    }.items():
        assert main(["why", name, "--url", url]) == 0
        shown = capsys.readouterr()
        assert waiting in shown.out
        assert shown.err.count("\n") == 1


@pytest.mark.parametrize("command", [("list",), ("why", "orders"), ("list", "--watch")])
def test_cards_that_may_not_be_read_are_told(
    command: tuple[str, ...],
    held: redis.Redis,
    narrow: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    one_picture: int,
) -> None:
    """Without the right to read cards each command says in one line why it knows no host."""
    del held
    status = one_picture if "--watch" in command else 0
    assert main([*command, "--url", narrow("~*")]) == status
    shown = capsys.readouterr()
    assert "web-3" in shown.out
    assert shown.err == ""
    assert main([*command, "--url", narrow("~orders", "~{orders*", "~redisson_lock*")]) == status
    shown = capsys.readouterr()
    assert "web-3" not in shown.out
    assert (shown.out + shown.err).count("1 card was left out") == 1


def test_keys_that_may_not_be_read_are_told(
    held: redis.Redis, narrow: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The list says how many keys were left out."""
    held.hset("secret", f"{OTHER}:3", 1)
    assert main(["list", "--url", narrow("~*", "resetkeys", "~interlock_*")]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("interlock: 2 keys were left out")


def test_a_client_with_the_rights_for_cards_describes_an_awaited_lock(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """The rights that the doctor names for cards suffice for `describe` while a client listens."""
    wanted = Requirements(("lock", "cards"), "orders*").acl_line().split()
    redis_client.execute_command("ACL", "SETUSER", "narrow", "reset", *wanted[2:])
    url = redis_url.replace("redis://", "redis://narrow:secret@")
    try:
        with connect(url) as client, redis_client.pubsub() as listener, client.lock("orders"):
            listener.subscribe("redisson_lock__channel:{orders}")

            def listening() -> bool:
                info = client.describe("orders")
                return info is not None and info.waiting == 1

            wait_until(listening, 10, "the listener is counted")
    finally:
        redis_client.execute_command("ACL", "DELUSER", "narrow")


def test_what_is_not_known_is_not_nobody() -> None:
    """A lock of which the server does not tell who listens is not one that nobody awaits."""
    assert waiting_of(LockInfo("orders", "lock")) == "-"
    assert waiting_of(LockInfo("orders", "lock", waiting_known=False)) == "?"
