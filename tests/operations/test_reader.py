"""What is read of locks: every kind of lock, and nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.support.renewal import renews_soon
from tests.support.servers import wait_until

from interlock import connect
from interlock.asyncio import connect as asyncio_connect
from interlock.cli import listing, main
from interlock.errors import ClosedError, ConfigError, HoldLostError, ServerUnavailableError
from interlock.inspection.reader import LIMIT
from interlock.inspection.why import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import redis
    from tests.support.servers import RedisServer

    from interlock import Client, Lock
    from interlock.inspection import LockInfo

JAVA = "00000000-0000-0000-0000-00000000cafe"


def by_name(client: Client, pattern: str = "*") -> dict[str, LockInfo]:
    """Return what is listed, by name."""
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


@pytest.mark.parametrize("dead", ["first", "second"])
def test_each_reader_is_told_by_its_own_entries(
    client: Client, redis_client: redis.Redis, dead: str
) -> None:
    """A reader that has died is left out, and the leases of the others are their own."""
    contexts, lock = (
        [contextvars.copy_context() for _ in "12"],
        client.read_write_lock("orders").read,
    )
    other = client.read_write_lock("other").read
    for context, lease in zip(contexts, (500, 400), strict=True):
        assert context.run(lock.acquire, lease=lease)
    first, second = (context.run(lambda: lock.hold) for context in contexts)
    assert first
    assert second
    assert other.acquire(lease=300)

    found = by_name(client)

    left = [holder.remaining or 0 for holder in found["orders"].holders]
    assert [round(each, -2) for each in left] == [500, 400]
    assert round(found["other"].holders[0].remaining or 0, -2) == 300
    gone, living = (first, second) if dead == "first" else (second, first)
    entries = redis_client.keys(f"*{gone.holder}:rwlock_timeout:1")
    assert redis_client.delete(*entries) == 1
    (holder,) = by_name(client)["orders"].holders
    assert holder.holder == living.holder
    living.release()
    other.release()


@pytest.mark.parametrize("values", [3, 100])
def test_a_holder_of_several_values_counts_once(client: Client, values: int) -> None:
    """A group lock that one thread holds for many values has one holder."""
    with client.group_lock("group", [f"v{number}" for number in range(values)]):
        assert by_name(client)["group"].holder_count == 1
        info = client.describe("group")
        assert info is not None
        assert (info.holder_count, len(info.holders)) == (1, 1)


def test_permits_whose_leases_have_ended_are_free(
    client: Client, redis_client: redis.Redis
) -> None:
    """They count as free before the next acquire gives them back, as `available_permits` has it."""
    semaphore = client.leased_semaphore("permits")
    assert semaphore.try_set_permits(3)
    _, second = semaphore.acquire(lease=60), semaphore.acquire(lease=60)
    _ = redis_client.zadd("{permits}:timeout", {bytes.fromhex(second.ids[0]): 1})

    info = client.describe("permits")

    assert info is not None
    assert (info.holder_count, info.free) == (1, 2)
    assert semaphore.available_permits() == 2


@pytest.mark.parametrize("kind", ["lock", "read", "write", "election"])
def test_who_has_got_the_lock_waits_no_more(redis_url: str, kind: str) -> None:
    """The card of a client that has just acquired a lock still tells of its wait."""
    entered, leave = threading.Event(), threading.Event()

    def lock(client: Client, kind: str) -> Lock:
        if kind == "election":
            return client.election("orders")
        both = client.read_write_lock("orders")
        return {"read": both.read, "write": both.write}.get(kind) or client.lock("orders")

    def wait() -> None:
        with lock(second, kind):
            entered.set()
            assert leave.wait(30)

    with connect(redis_url) as first, connect(redis_url) as second:
        thread = threading.Thread(target=wait)
        with lock(first, "write" if kind == "read" else kind):
            thread.start()
            wait_until(lambda: bool(by_name(first)["orders"].waiters), 20, "a card tells the wait")
        assert entered.wait(20)
        info = first.describe("orders")
        leave.set()
        thread.join()
    assert info is not None
    assert (info.holder_count, info.waiters, info.waiter_count) == (1, (), 0)


def test_a_fair_queue_is_listed_in_its_order(client: Client, redis_url: str) -> None:
    """The waiters of a fair lock are told in the order in which they will get it."""
    queued: list[str] = []
    with connect(redis_url) as other, client.fair_lock("fair"):
        threads: list[threading.Thread] = []

        def wait() -> None:
            with pytest.raises(ClosedError):
                other.fair_lock("fair").acquire(timeout=20)

        for number in range(3):
            thread = threading.Thread(target=wait)
            thread.start()
            threads.append(thread)

            def all_queued(wanted: int = number + 1) -> bool:
                info = client.describe("fair")
                return info is not None and len(info.waiters) == wanted

            wait_until(all_queued, 10, "the next one queues up")
            info = client.describe("fair")
            assert info is not None
            queued.append(info.waiters[-1].holder)
        info = by_name(client)["fair"]
        assert info.kind == "fair_lock"
        assert info.waiting == 3
        assert [waiter.holder for waiter in info.waiters] == queued
        assert all(waiter.holder.startswith(other.client_id) for waiter in info.waiters)
        for each in threads:
            assert each.is_alive()
        other.close()
        for each in threads:
            each.join()


def test_a_queue_before_a_free_lock_is_listed(client: Client, redis_client: redis.Redis) -> None:
    """While the first in its queue takes its time, nobody holds a fair lock; it is listed."""
    seconds, _ = redis_client.time()
    for name, ends in (("slow", seconds + 600), ("{a}:slow", seconds + 600), ("over", seconds - 9)):
        braces = name if "{" in name else f"{{{name}}}"
        redis_client.rpush(f"redisson_lock_queue:{braces}", f"{JAVA}:1")
        _ = redis_client.zadd(f"redisson_lock_timeout:{braces}", {f"{JAVA}:1": 1000 * ends})
    found = by_name(client)
    assert set(found) == {"slow", "{a}:slow"}
    for info in found.values():
        assert (info.kind, info.holders, info.waiting, info.awaited) == ("fair_lock", (), 1, True)
    assert client.describe("over") is None
    assert [info.name for info in client.locks("slow", kinds=["fair_lock"])] == ["slow"]


def test_a_lock_whose_name_ends_like_a_key_of_leases_is_itself(
    client: Client, redis_url: str
) -> None:
    """The lock `db:timeout` has its own token, and not the queue of the fair lock `db`."""

    def wait() -> None:
        with pytest.raises(ClosedError):
            other.fair_lock("db").acquire(timeout=20)

    def awaited() -> bool:
        info = client.describe("db")
        return info is not None and len(info.waiters) == 1

    with (
        connect(redis_url) as other,
        client.fair_lock("db"),
        client.fenced_lock("db:timeout") as hold,
    ):
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(awaited, 10, "the waiter queues up")
        for info in (client.describe("db:timeout"), by_name(client)["db:timeout"]):
            assert info is not None
            assert (info.kind, info.waiters, info.token) == ("fenced_lock", (), hold.token)
        other.close()
        thread.join()


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


def test_cards_tell_who_waits_for_permits_or_a_latch(
    client: Client, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Threads of clients that hold nothing are named, with their processes, the longest first."""
    slots, latch = client.semaphore("slots", 1), client.count_down_latch("latch", 1)
    leased = client.leased_semaphore("leased", 1)
    assert slots.acquire()

    def take_leased(other: Client) -> None:
        with other.leased_semaphore("leased", 1).acquire():
            pass

    waits: dict[str, Callable[[Client], object]] = {
        "slots": lambda other: other.semaphore("slots", 1).acquire(),
        "leased": take_leased,
        "latch": lambda other: other.count_down_latch("latch", 1).wait(),
    }

    def told() -> bool:
        found = by_name(client)
        return all(name in found and found[name].waiter_count == 2 for name in waits)

    with renews_soon(connect(redis_url)) as other:
        with leased.acquire():
            threads = [
                threading.Thread(target=wait, args=(other,), name=f"{name}-{number}")
                for number in (1, 2)
                for name, wait in waits.items()
            ]
            for thread in threads:
                thread.start()
            wait_until(told, 20, "a card tells of all threads")
            for name, info in by_name(client).items():
                assert {each.thread for each in info.waiters} == {
                    *(f"thread '{name}-1'", f"thread '{name}-2'")
                }
                assert {each.client.pid for each in info.waiters} == {os.getpid()}
                assert info.waiting_clients == 1
                assert info.longest_wait == max(each.waited or 0 for each in info.waiters)
                text = explain(name, client.describe(name)).text
                if name != "leased":  # who waits for that stands in a queue, which is told in order
                    assert "2 wait for it, in 1 client. The longest wait first: thread '" in text
                assert f"pid {os.getpid()} on " in text
        slots.release(2)
        latch.count_down()
        for thread in threads:
            thread.join(30)


def test_holds_without_a_process_are_told_as_such(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    """A ticket has a card of its own beside its client's; without one it is told all the same."""
    with connect(redis_url, lease=3) as other, other.lock("own"):
        with other.lock("announced") as hold:
            ticket = hold.hand_over(lease=timedelta(minutes=1))
        ticket.announce(60, "training", who="ann")
        with other.lock("queued") as hold:
            queued = hold.hand_over(lease=timedelta(minutes=1))
        other.single("short", min_hold=60)(lambda: None)()
        wait_until(lambda: by_name(client)["own"].held_for is not None, 20, "its client has a card")
        told = {name: explain(name, info).text for name, info in by_name(client).items()}
        assert "is held by a ticket of ann (training)" in told["announced"]
        assert "held by a ticket that nobody announced" in told["queued"]
        assert "held by a call that has ended, and left it locked" in told["short"]
        for name in ("announced", "queued", "short"):
            assert "No process is needed for that" in told[name]
            assert "unless" not in told[name]
        with connect(redis_url, card=False) as another:
            another.ticket(str(ticket)).release()
            another.ticket(str(queued)).release()
        assert redis_client.exists(f"interlock_client:{{{other.client_id}}}")
        assert not redis_client.exists(f"interlock_client:{{{ticket.holder.partition(':')[0]}}}")


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


def test_huge_values_of_a_foreign_hash_are_not_read(fresh_server: RedisServer) -> None:
    """Of a large hash with huge values the list reads a few fields, and not all of them."""
    with fresh_server.client() as redis_client, connect(fresh_server.url()) as client:
        for number in range(LIMIT + 1):
            redis_client.hset("foreign", f"field {number}", "x" * 500_000)
        redis_client.config_resetstat()
        before = redis_client.info("memory")["used_memory_peak"]
        assert by_name(client) == {}
        assert redis_client.info("memory")["used_memory_peak"] - before < 10_000_000


def test_semaphores_are_listed_on_request(client: Client) -> None:
    """A plain semaphore looks like a number, so it is listed only by its kind."""
    assert client.semaphore("slots").try_set_permits(4)

    assert by_name(client) == {}
    [info] = client.locks(kinds=["semaphore"])
    assert (info.name, info.free) == ("slots", 4)
    with pytest.raises(ConfigError, match="found 'sponge'"):
        list(client.locks(kinds=["sponge"]))


@pytest.mark.parametrize(
    "pattern", ["*", "orders:?", "h[ae]llo", "h[^e]llo", r"a\*", "a(b", "[a-c]x"]
)
def test_patterns_mean_what_they_mean_to_the_server(
    client: Client, redis_client: redis.Redis, pattern: str
) -> None:
    """Names that are read from other keys are matched as KEYS matches keys."""
    every = ("orders:1", "orders:12", "hallo", "hello", "a*", "ab", "a(b", "bx", "dx")
    seconds, _ = redis_client.time()
    for name in every:
        redis_client.rpush(f"redisson_lock_queue:{{{name}}}", f"{JAVA}:1")
        places = {f"{JAVA}:1": 1000 * seconds + 600_000}
        _ = redis_client.zadd(f"redisson_lock_timeout:{{{name}}}", places)
    found = by_name(client, pattern).keys()
    redis_client.flushdb()
    redis_client.mset(dict.fromkeys(every, "1"))
    assert found == {key.decode() for key in redis_client.keys(pattern)}


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
    client: Client,
    redis_url: str,
    one_picture: int,
    capsys: pytest.CaptureFixture[str],
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


def test_an_error_while_watching_cannot_move_the_cursor(
    one_picture: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of an unavailable server is one line, and no terminal acts on it."""

    def away(*_: object) -> None:
        raise ServerUnavailableError("gone:\n\x1b[2Jevil")

    monkeypatch.setattr(listing, "open_reader", away)
    assert main(["list", "--watch"], {}) == one_picture
    assert capsys.readouterr().out.endswith(": gone: \\x1b[2Jevil\n\n")
