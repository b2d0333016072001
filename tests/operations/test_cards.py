"""Cards: what lasts is written down for operators, and nothing that is written there is trusted."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.operations.on_call import described
from tests.support.servers import wait_until

from interlock import Options, connect
from interlock._core.insight.card import CARD, INDEX, LASTING, MOST
from interlock._links.urls import open_url
from interlock.check import Requirements, examine
from interlock.cli import main
from interlock.errors import ClosedError, HoldLostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import redis
    from tests.support.servers import RedisServer

    from interlock import Client, Hold
    from interlock.inspection import LockInfo

LEASE = 1.5
FORGER = "00000000-0000-0000-0000-00000000f00d"


def test_a_lasting_hold_tells_whose_it_is(redis_url: str, redis_client: redis.Redis) -> None:
    """After about a second the host, process, thread and age of a hold can be read."""
    with connect(redis_url, lease=LEASE) as client:
        with client.lock("orders"):
            wait_until(
                lambda: described(client).holders[0].held_for is not None, 10, "a card tells"
            )
            holder = described(client).holders[0]
            assert 1 <= (holder.held_for or 0) < 10
            assert holder.client.host == socket.gethostname()
            assert holder.client.pid == os.getpid()
            assert holder.client.answering
            assert "MainThread" in holder.thread
            assert (holder.lease, holder.renewed, holder.late) == (LEASE, True, False)
            assert redis_client.zrange(INDEX, 0, -1) == [client.client_id.encode()]
        card = CARD.format(client.client_id)
        wait_until(lambda: not redis_client.exists(card), 10, "nothing lasts any more")


def test_short_holds_cost_nothing(redis_url: str, redis_client: redis.Redis) -> None:
    """A client whose holds are all short never writes a card."""

    def calls() -> int:
        return redis_client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

    spent = pairs = written = 0
    longest = LASTING
    while longest > LASTING / 2:  # again, if the machine stood still in a hold
        with connect(redis_url) as client:
            before, end, pairs, longest = calls(), time.monotonic() + 2.5, 0, 0.0
            while (began := time.monotonic()) < end:
                with client.lock("orders"):
                    pairs += 1
                longest = max(longest, time.monotonic() - began)
            spent = calls() - before
            written = redis_client.exists(CARD.format(client.client_id), INDEX)
    assert spent <= 2 * pairs + 4
    assert not written


def test_a_card_tells_of_a_bounded_number_of_holds(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """A client with more lasting holds than a card tells of counts the rest only."""
    with connect(redis_url, lease=3) as client:
        locks = [client.lock(f"many:{number}") for number in range(MOST + 10)]
        for lock in locks:
            lock.acquire()
        card = CARD.format(client.client_id)

        def told() -> list[LockInfo]:
            return [info for info in client.locks() if info.held_for is not None]

        wait_until(lambda: len(told()) == MOST, 10, "the card is full")
        assert sum(key.startswith(b"h ") for key in redis_client.hkeys(card)) == MOST
        assert told()[0].holders[0].client.holds == MOST + 10
        rest = [info.holders[0] for info in client.locks() if info.held_for is None]
        assert [(each.client.pid, each.client.doubt) for each in rest] == [(os.getpid(), "")] * 10


@pytest.mark.parametrize("card", [False, "names"])
def test_a_card_tells_no_more_than_allowed(
    card: bool | str, redis_url: str, redis_client: redis.Redis
) -> None:
    """With card="names" neither thread nor line is told, and with card=False nothing at all."""
    allowed: Any = card
    with connect(redis_url, lease=LEASE, card=allowed) as client, client.lock("orders"):
        if card:
            wait_until(
                lambda: described(client).holders[0].held_for is not None, 10, "a card tells"
            )
            holder = described(client).holders[0]
            assert (holder.thread, holder.place) == ("", "")
        else:
            threading.Event().wait(2.2)  # cards are looked at every half second
            assert redis_client.keys() == [b"orders"]


GOOD = {"format": 1, "number": 1, "period": 10.0, "host": "web", "pid": 7, "program": "p"}
ENTRY = {"age": 5.0, "owner": 1, "lease": 30.0, "renewed": True, "thread": "t"}
HOLD = f"h {FORGER}:1 forged"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"client": "not JSON", "written": "1"},
        {"client": json.dumps(GOOD), "written": "tomorrow"},
        {"client": json.dumps({**GOOD, "format": 2}), "written": "1"},
        {"client": json.dumps(GOOD), "written": "99999999999999"},
        {"client": json.dumps({**GOOD, "host": "x" * 1_000_000}), "written": "1"},
        {"client": "[" * 100_000, "written": "1"},
        {"client": json.dumps(GOOD), "written": "1", HOLD: "1" * 1_000_000},
        {"client": json.dumps(GOOD), "written": "1", HOLD: json.dumps({**ENTRY, "age": "old"})},
        {"client": json.dumps(GOOD), "written": "1", HOLD: '{"age": NaN, "owner": 1}'},
    ],
)
def test_a_forged_card_is_marked_as_doubtful(
    fields: dict[str, str], client: Client, redis_client: redis.Redis
) -> None:
    """A card that no client has written is marked as doubtful, and the list goes on."""
    redis_client.hset("forged", f"{FORGER}:1", 1)
    redis_client.pexpire("forged", 20_000)
    if fields:
        redis_client.hset(CARD.format(FORGER), mapping=fields)
    else:
        redis_client.set(CARD.format(FORGER), "no hash")
    with client.lock("sound"):
        found = {info.name: info for info in client.locks()}

    assert set(found) == {"forged", "sound"}
    assert found["forged"].holders[0].client.doubt
    assert found["forged"].holders[0].held_for is None


def test_without_rights_one_line_says_so(
    fresh_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A user who may not write cards locks as before, and one log line names the lack."""
    fresh_server.execute(
        *("ACL", "SETUSER", "app", "on", ">secret", "+@all"),
        *("resetkeys", "~orders*", "resetchannels", "allchannels"),
    )
    url = fresh_server.url().replace("://", "://app:secret@", 1)
    with connect(url, lease=LEASE) as client, client.lock("orders") as hold:
        wait_until(lambda: "no card" in caplog.text, 10, "the lack is told")
        assert not hold.lost.wait(2)
    assert caplog.text.count("no card") == 1
    [record] = [record for record in caplog.records if "no card" in record.message]
    assert vars(record)["event"] == "card.refused"
    assert "NOPERM" in vars(record)["detail"]


def test_a_permit_tells_whose_it_is(
    client: Client, command: Callable[..., CompletedProcess[str]]
) -> None:
    """The holders of permits are known by their cards, though the server knows permit ids only."""
    semaphore = client.leased_semaphore("slots")
    assert semaphore.try_set_permits(5)
    with semaphore.acquire(2) as two, semaphore.acquire() as one:

        def told() -> bool:
            return all(each.held_for is not None for each in described(client, "slots").holders)

        wait_until(told, 20, "cards tell of all permits")
        holders = described(client, "slots").holders
        assert {each.holder for each in holders} == {*two.ids, *one.ids}
        assert {each.client.pid for each in holders} == {os.getpid()}
        [listed] = client.locks("slots")
        assert {each.client.pid for each in listed.holders} == {os.getpid()}
        assert f"pid {os.getpid()}" in command("list", "slots").stdout


@pytest.mark.parametrize(
    ("kind", "pubsub"),
    [("lock", "auto"), ("fair_lock", "auto"), ("spin_lock", "auto"), ("lock", "off")],
)
def test_waiters_are_told_with_and_without_a_queue(
    kind: str, pubsub: Any, redis_url: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """`describe`, the list and `interlock why` tell which threads wait, and for how long.

    That includes those who poll.
    """
    with connect(redis_url, lease=LEASE, pubsub=pubsub) as waiting:
        locks: list[Any] = [getattr(each, kind)("orders") for each in (client, waiting, waiting)]
        locks[0].acquire()

        def wait(lock: Any) -> None:
            with suppress(ClosedError):
                lock.acquire()

        threads = [
            threading.Thread(target=wait, args=[lock], name=f"eager {number}")
            for number, lock in enumerate(locks[1:])
        ]
        for thread in threads:
            thread.start()

        def told() -> bool:
            waiters = described(client).waiters
            return len(waiters) == 2 and all(each.thread for each in waiters)

        wait_until(told, 20, "cards tell of both waiters")
        info = described(client)
        assert (info.waiter_count, info.waiting_clients) == (2, 1)
        assert {each.client.client_id for each in info.waiters} == {waiting.client_id}
        assert all(each.waited is not None for each in info.waiters)
        assert sorted(each.thread[-8:-1] for each in info.waiters) == ["eager 0", "eager 1"]
        assert [each.waiter_count for each in client.locks("orders")] == [2]
        assert main(["why", "orders", "--url", redis_url]) == 0
        shown = capsys.readouterr().out
        assert "2 wait for it, in 1 client." in shown
        assert "thread 'eager " in shown
        assert main(["list", "orders", "--url", redis_url]) == 0
        assert "2 in 1 client, first" in capsys.readouterr().out
        waiting.close()
        for thread in threads:
            thread.join(30)
        locks[0].release()


def _detail(hold: Hold) -> str:
    with pytest.raises(HoldLostError) as told:
        hold.ensure()
    return told.value.detail or ""


@pytest.mark.parametrize("version", ["redis-7.0", "valkey-8.1"])
def test_cards_and_commands_need_what_the_doctor_says(
    version: str,
    server_of_version: Callable[[str], RedisServer],
    command: Callable[..., CompletedProcess[str]],
) -> None:
    """With the rights that `interlock doctor` prints, and no others, nothing is refused."""
    server = server_of_version(version)
    server.execute("FLUSHALL")
    redis_url = server.url()
    with server.client() as redis_client:
        redis_client.execute_command("SCRIPT", "FLUSH")
        _check_rights(redis_client, redis_url, command)


def _check_rights(
    redis_client: redis.Redis, redis_url: str, command: Callable[..., CompletedProcess[str]]
) -> None:
    """Do what clients and operators do, as users with just the printed rights."""
    clients, operators = [
        examine(
            [open_url(redis_url, Options())[0]], Requirements(("lock", "fair_lock", kind), "shop:*")
        ).acl.split()
        for kind in ("cards", "operator")
    ]
    redis_client.execute_command("ACL", "SETUSER", "shop", "reset", *clients[2:])
    redis_client.execute_command("ACL", "SETUSER", "ops", "reset", *operators[2:])
    redis_client.execute_command("ACL", "LOG", "RESET")
    place = redis_url.partition("//")[2].rpartition("@")[2]
    operator = f"redis://ops:secret@{place}"
    try:
        with connect(f"redis://shop:secret@{place}", lease=LEASE) as client:
            lock = client.lock("shop:1")
            lock.acquire()
            with client.fair_lock("shop:2"):
                card = CARD.format(client.client_id)
                wait_until(lambda: redis_client.hlen(card) >= 4, 20, "a card tells of both")
                assert "is held by" in command("why", "shop:2", url=operator).stdout
                assert "shop:1" in command("list", "shop:*", url=operator).stdout
                assert command("list", "--deadlocks", url=operator).returncode == 0
                shown = command("why", "shop:1", "--json", url=operator)
                holder = json.loads(shown.stdout)["lock"]["holders"][0]["holder"]
                broken = command(
                    *("break", "shop:1", "--holder", holder, "--reason", "test"), url=operator
                )
                assert (broken.returncode, broken.stderr.count("\n")) == (0, 1)
                hold = lock.hold
                assert hold is not None
                assert hold.lost.wait(60)
                wait_until(lambda: _detail(hold) == "test", 20, "the holder reads the reason")
        assert redis_client.execute_command("ACL", "LOG") == []
    finally:
        redis_client.execute_command("ACL", "DELUSER", "shop", "ops")
