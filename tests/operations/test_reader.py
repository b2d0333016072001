"""What is read of locks: every kind of lock, and nothing else."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.servers import wait_until

from interlock import connect
from interlock.asyncio import connect as asyncio_connect
from interlock.cli import main
from interlock.errors import ConfigError, HoldLostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import redis

    from interlock import Client
    from interlock.inspection import LockInfo

JAVA = "00000000-0000-0000-0000-00000000cafe"


def by_name(client: Client, pattern: str = "*") -> dict[str, LockInfo]:
    return {info.name: info for info in client.locks(pattern)}


def test_every_kind_of_lock_is_listed(client: Client) -> None:
    """Each kind of lock is listed once, with its kind, its holders, their depths and leases."""
    plain, fenced = client.lock("plain"), client.fenced_lock("fenced")
    both = client.read_write_lock("reading"), client.read_write_lock("writing")
    group, permits = client.group_lock("group", ["a", "b"]), client.leased_semaphore("permits")
    assert permits.try_set_permits(5)
    with plain, plain, fenced as hold, both[0].read, both[1].write, group, permits.acquire(2):
        found = by_name(client)

        assert {name: info.kind for name, info in found.items()} == {
            "plain": "lock",
            "fenced": "fenced_lock",
            "reading": "read_write_lock",
            "writing": "read_write_lock",
            "group": "group_lock",
            "permits": "leased_semaphore",
        }
        assert found["plain"].holders[0].depth == 2
        assert found["fenced"].token == hold.token
        assert [found[name].mode for name in ("reading", "writing")] == ["read", "write"]
        assert (found["permits"].holder_count, found["permits"].free) == (2, 3)
        for info in found.values():
            assert 10 < (info.remaining or 0) <= 30
            for holder in info.holders:
                assert 10 < (holder.remaining or 0) <= 30
        assert found["plain"].holders[0].client.client_id == client.client_id
    assert by_name(client) == {}


def test_what_java_left_is_listed(client: Client, redis_client: redis.Redis) -> None:
    """A hash as Redisson writes it is a lock, though no card tells of its holder."""
    redis_client.hset("java", f"{JAVA}:88", 3)
    redis_client.pexpire("java", 20_000)

    info = by_name(client)["java"]

    assert info.holders[0].holder == f"{JAVA}:88"
    assert info.holders[0].depth == 3
    assert info.holders[0].held_for is None
    assert not info.late


def test_awaited_latches_and_elections_are_listed(
    client: Client, redis_url: str, command: Callable[..., CompletedProcess[str]]
) -> None:
    """A latch that a client waits for is told from a semaphore, and an election by its name."""
    with connect(redis_url, lease=3) as other:
        assert client.count_down_latch("latch").try_set_count(1)
        assert client.semaphore("idle").try_set_permits(3)
        assert client.count_down_latch("number").try_set_count(2)
        waiter = threading.Thread(target=other.count_down_latch("latch").wait)
        waiter.start()
        with pytest.raises(HoldLostError), other.election("boss") as term:
            wait_until(lambda: "latch" in by_name(client), 20, "the waiter listens")
            found = by_name(client)
            kinds = {name: info.kind for name, info in found.items()}
            assert kinds == {"latch": "count_down_latch", "boss": "election"}
            assert (found["latch"].free, found["latch"].waiting) == (1, 1)
            assert found["boss"].token == term.token
            assert found["boss"].holders[0].client.client_id == other.client_id
            assert by_name(client, "bo*").keys() == {"boss"}
            numbers = {info.name: info.kind for info in client.locks(kinds=["count_down_latch"])}
            assert numbers == {"latch": "count_down_latch", "number": "count_down_latch"}
            permits = {info.name: info.total for info in client.locks(kinds=["semaphore"])}
            assert permits == {"idle": 3, "number": None}
            assert "The election 'boss'" in command("why", "boss").stdout
            holder = found["boss"].holders[0].holder
            assert client.force_release("boss", holder=holder)
            assert client.describe("boss") is None
            assert term.lost.wait(30)
        client.count_down_latch("latch").count_down()
        waiter.join(30)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("hash", {"user": "ada"}),
        ("hash", {f"{JAVA}:1": "many"}),
        ("hash", {f"{JAVA}:1": "1" * 5000}),
        ("hash", {"x" * 100_000: "1"}),
        ("hash", {"mode": "read", "user": "ada"}),
        ("hash", {str(number): "1" for number in range(3000)}),
        ("string", {"7": ""}),
    ],
)
def test_what_is_no_lock_is_left_out(
    client: Client, redis_client: redis.Redis, kind: str, fields: dict[str, str]
) -> None:
    """An application's own keys are not taken for locks, whatever their look and size."""
    if kind == "hash":
        redis_client.hset("own", mapping=fields)
    else:
        redis_client.set("own", next(iter(fields)))

    assert by_name(client) == {}
    assert (client.describe("own") is None) is (kind == "hash")


def test_semaphores_are_listed_on_request(client: Client) -> None:
    """A plain semaphore looks like a number, so it is listed only by its kind."""
    assert client.semaphore("slots").try_set_permits(4)

    assert by_name(client) == {}
    [info] = client.locks(kinds=["semaphore"])
    assert (info.name, info.free) == ("slots", 4)
    with pytest.raises(ConfigError, match="found 'sponge'"):
        list(client.locks(kinds=["sponge"]))


async def test_the_asyncio_face_reads_the_same(redis_url: str) -> None:
    """Both faces tell the same of a lock."""
    async with asyncio_connect(redis_url) as client, client.lock("same") as hold:
        [listed] = [info async for info in client.locks("sa*")]
        described = await client.describe("same")
        with connect(redis_url) as other:
            [told] = await asyncio.to_thread(lambda: list(other.locks("sa*")))
        assert described is not None
        for info in (listed, described, told):
            assert (info.name, info.holders[0].holder) == ("same", hold.holder)


def test_the_list_is_printed(client: Client, command: Callable[..., CompletedProcess[str]]) -> None:
    """`interlock list` prints a line for each lock, and one JSON object with --json."""
    with client.lock("orders:1"), client.lock("orders:\x1b[31m"), client.lock("other"):
        wait_until(
            lambda: all(info.holders[0].held_for is not None for info in client.locks()),
            20,
            "their ages are known",
        )
        shown = command("list", "orders:*")
        told = command("list", "orders:1", "--json")
        none = command("list", "--older-than", "1h")

    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "HELD", "FOR", "RENEWED", "HOLDER", "WAITING"]
    assert len(lines) == 3
    assert "\x1b" not in shown.stdout
    assert json.loads(told.stdout)["holders"][0]["client"]["client_id"] == client.client_id
    assert (none.returncode, none.stdout) == (0, "")


def test_watching_shows_the_worst_first(
    client: Client, redis_url: str, one_picture: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`list --watch` shows awaited locks above others, and tells of a server that is away."""
    wanted = client.lock("wanted")
    with client.lock("idle"), connect(redis_url) as other:
        assert wanted.acquire()

        def turn() -> None:
            with other.lock("wanted"):
                pass

        waiter = threading.Thread(target=turn)
        waiter.start()
        wait_until(lambda: by_name(client)["wanted"].waiting == 1, 20, "it waits")
        assert main(["list", "--watch", "--url", redis_url]) == one_picture
        shown = capsys.readouterr().out
        assert main(["list", "--watch", "--waiting", "--url", redis_url]) == one_picture
        awaited = capsys.readouterr().out
        wanted.release()
        waiter.join(60)
    head, _, _, first, second, *_ = shown.splitlines()
    assert "locks: 2, 0 dead, 0 late, 1 awaited" in head
    assert (first.split()[0], second.split()[0]) == ("wanted", "idle")
    assert "locks: 1, 0 dead" in awaited
    assert main(["list", "--watch", "--url", "redis://127.0.0.1:1"]) == one_picture
    assert "cannot connect" in capsys.readouterr().out
