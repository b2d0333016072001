"""The queue of a read/write lock, where no face can see a rule."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock._core.scripts.read_write_lock import (
    READ_ACQUIRE,
    READ_ASK,
    READ_RELEASE,
    READ_RENEW,
    WRITE_ASK,
    WRITE_RELEASE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

NAME = "the name"
QUEUE, COMING = f"interlock_rw_queue:{{{NAME}}}", f"interlock_coming:{{{NAME}}}"
CHANNEL = f"redisson_rwlock:{{{NAME}}}"
WRITER, READER = "a:000000000001:write", "a:000000000002"
PROMPT = 1.0
"""Seconds within which nobody looks who listens."""


def entry(reader: str, number: int = 1) -> str:
    """Return the key of an entry of *reader*."""
    return f"{{{NAME}}}:{reader}:rwlock_timeout:{number}"


class Server:
    """What a client's scripts do at the server, one by one; its clients listen or do not."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self._listening = client.pubsub()

    def listen(self, *clients: str, java: bool = False) -> None:
        """Subscribe as *clients* whose waiters stand in the queue do, and as Java does."""
        channels = [f"interlock_rw_wake:{{{NAME}}}:{each}" for each in clients]
        self._listening.subscribe(CHANNEL, *([] if java else [f"interlock_rw_waiting:{{{NAME}}}"]))
        if channels:
            self._listening.subscribe(*channels)
        self.heard()

    def heard(self) -> list[tuple[str, str]]:
        """Return the messages since the last call: channel and text."""
        found = list[tuple[str, str]]()
        while (message := self._listening.get_message(timeout=0.05)) is not None:
            if message["type"] == "message":
                channel = message["channel"].decode()
                found.append((channel.rpartition("}")[2][1:] or "java", message["data"].decode()))
        return found

    def holds(self, *holders: str, lease: int = 60_000, mode: str = "") -> None:
        """Let *holders* be in; readers have entries."""
        writes = any(holder.endswith(":write") for holder in holders)
        fields = dict.fromkeys(holders, "1") | {"mode": mode or ("write" if writes else "read")}
        self.client.hset(NAME, mapping=fields)
        self.client.pexpire(NAME, lease)
        for holder in holders:
            if not holder.endswith(":write"):
                self.client.set(entry(holder), 1, px=lease)

    def stand(self, *members: str, mark: bool = False) -> None:
        """Let *members* stand in the queue, in this order."""
        seconds, rest = self.client.time()
        now = seconds * 10**6 + rest - len(members)
        places = {each: now + number for number, each in enumerate(members)}
        self.client.zadd(QUEUE, {each: -at if mark else at for each, at in places.items()})

    def inside(self) -> dict[str, int]:
        """Return who is in, and how deep."""
        found = self.client.hgetall(NAME)
        return {each.decode(): int(found[each]) for each in found if each != b"mode"}

    def queue(self) -> list[str]:
        """Return who stands in the queue, in order; who was let in has a minus."""
        members = self.client.zrange(QUEUE, 0, -1, withscores=True)
        return [f"{'-' if score < 0 else ''}{each.decode()}" for each, score in members]

    def ask(self, holder: str, *named: str, lease: int = 30_000) -> Any:
        """Let *holder* ask; each of *named* is a reader, whose next entry is given."""
        seen = dict.fromkeys(named, 0)
        others = list[str]()
        for each in named:
            seen[each] += 1
            others.append(entry(each, seen[each]))
        writes = holder.endswith(":write")
        keys = [NAME, *([] if writes else [entry(holder)]), COMING, QUEUE, *others]
        script = (WRITE_ASK if writes else READ_ASK)["PUBLISH"].text
        args = [lease, holder, CHANNEL, "", "", "", *named]
        return self.client.eval(script, len(keys), *keys, *args)

    def release(self, holder: str, depth: int = 0, how: str = "") -> Any:
        """Let *holder* go down to *depth*."""
        writes = holder.endswith(":write")
        keys = [NAME, *([] if writes else [entry(holder)]), COMING, QUEUE]
        script = (WRITE_RELEASE if writes else READ_RELEASE)["PUBLISH"].text
        return self.client.eval(script, len(keys), *keys, holder, depth, CHANNEL, how)

    def calls(self, command: str) -> int:
        """Return how often *command* was called."""
        stats = self.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


@pytest.fixture
def at(redis_client: redis.Redis) -> Iterator[Server]:
    """Give an empty server."""
    redis_client.flushall()
    server = Server(redis_client)
    yield server
    server._listening.close()


@contextlib.contextmanager
def sides(url: str, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Give both sides of the lock, of a new client."""
    with interlock.connect(url, **options) as client:
        lock = client.read_write_lock(NAME)
        yield lock.read, lock.write


def stands(at: Server, count: int) -> None:
    """Wait until *count* stand in the queue."""
    wait_until(lambda: len(at.queue()) == count, 10, f"{count} stand in the queue")


# 1. A reader's entry is written when it joins.


def test_a_reader_that_is_let_in_starts_with_its_message(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """Its entry is there while it waits, so it sends nothing; its mark ends when it is renewed."""
    with sides(redis_url) as (ours, _), sides(redis_url) as (_, theirs):
        assert theirs.acquire()
        got = pool.submit(ours.acquire, timeout=60)
        stands(at, 1)
        (reader,) = at.queue()
        wait_until(lambda: at.client.pttl(entry(reader)) > 9_000, 10, "its entry is there")
        time.sleep(0.3)
        before = at.calls("evalsha")
        theirs.release()
        assert got.result(PROMPT)
        assert at.calls("evalsha") - before == 1
        assert at.queue() == [f"-{reader}"]
        wait_until(lambda: not at.queue(), 3, "it is renewed")
        assert at.client.pttl(entry(reader)) > 20_000
        ours.release()
    assert not at.client.keys()


def test_a_reader_whose_entry_ends_before_its_grant_asks(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """It was refused so long ago that the entry may end before the grant does."""
    with sides(redis_url) as (ours, _), sides(redis_url) as (_, theirs):
        assert theirs.acquire()
        got = pool.submit(ours.acquire, timeout=60)
        stands(at, 1)
        (waiting,) = ours._core.session.lines[ours._core.channel].waiters
        wait_until(lambda: waiting.place.refused, 10, "it was refused")
        waiting.place.refused -= 28_000_000
        waiting.place.sent -= 28
        before = at.calls("evalsha")
        theirs.release()
        assert got.result(PROMPT)
        assert at.calls("evalsha") - before == 2
        assert at.queue() == []


# 2. A release lets in from the front while it fits.


def test_a_release_lets_in_all_readers_up_to_the_next_writer(at: Server) -> None:
    """Each client gets one message for all its readers, and the releaser's client the reply."""
    at.holds(WRITER)
    at.listen("a", "b", "c")
    front = ["b:01", "a:02", "c:03", "b:04", "a:05", "dead:06", "dead:07:write", "b:08"]
    at.stand(*front, "b:09:write", "b:10")
    numbers, news = at.release(WRITER)
    assert numbers == b"02 05"
    ours = [each for each in front if not each.startswith("dead")]
    assert sorted(at.inside()) == sorted(ours)
    assert sorted(at.queue()) == sorted([*[f"-{each}" for each in ours], "b:09:write", "b:10"])
    told = dict(at.heard())
    assert told == {"b": f"01 04 08|{news.decode()}", "c": f"03|{news.decode()}"}
    assert news.endswith(b"||1")
    assert 2_900 < at.client.pttl(NAME) <= 3_000
    assert 2_900 < at.client.pttl(COMING) <= 3_000


def test_a_release_lets_in_one_writer(at: Server) -> None:
    """Nobody behind it comes in, and it keeps its mark until it releases."""
    at.holds(READER)
    at.listen("a", "b")
    at.stand("b:01:write", "b:02", "b:03:write")
    assert at.release(READER) == 1
    assert at.inside() == {"b:01:write": 1}
    assert at.queue() == ["-b:01:write", "b:02", "b:03:write"]
    assert at.release("b:01:write")[0] == b"02"
    assert at.queue() == ["-b:02", "b:03:write"]


@pytest.mark.parametrize("count", [499, 508, 5_000])
def test_thousands_of_readers_come_in_by_pages(at: Server, count: int) -> None:
    """However many there are, all come in at once; the server asks once for each client who listens."""
    at.holds(WRITER)
    at.listen("a", "b")
    readers = [f"{'ab'[number % 2]}:{number:012}" for number in range(count)]
    at.stand(*readers, "b:000000900000:write")
    before = at.calls("pubsub|numsub")
    numbers, _ = at.release(WRITER)
    assert at.calls("pubsub|numsub") - before == 2
    assert sorted(at.inside()) == sorted(readers)
    assert at.client.zcount(QUEUE, "-inf", "(0") == count
    ((_, told),) = at.heard()
    assert [int(each) for each in numbers.split()] == list(range(0, count, 2))
    assert [int(each) for each in told.split("|")[0].split()] == list(range(1, count, 2))


def test_the_deaf_in_front_lose_their_places_by_pages(at: Server) -> None:
    """Whoever does not listen any more keeps nobody out."""
    at.holds(WRITER)
    at.listen("b")
    at.stand(*[f"dead:{number:012}:write" for number in range(1_200)], "b:01")
    assert at.release(WRITER) == 1
    assert at.queue() == ["-b:01"]


def test_a_reader_that_leaves_others_behind_lets_nobody_in(at: Server) -> None:
    """It removes its field, its entry and its mark, and looks at nothing else."""
    at.holds(READER, "b:03")
    at.listen("a", "b", "c")
    at.stand(READER, "b:03", mark=True)
    at.stand("c:04:write")
    before = at.calls("zrangebyscore")
    assert at.release(READER) == 1
    assert at.calls("zrangebyscore") == before
    assert at.inside() == {"b:03": 1}
    assert at.queue() == ["-b:03", "c:04:write"]
    assert not at.client.exists(entry(READER))
    assert at.release("b:03") == 1
    assert at.inside() == {"c:04:write": 1}


def test_a_waiting_writer_that_gives_up_lets_in_the_readers_behind_it(at: Server) -> None:
    """They share the lock with those who are in."""
    at.holds(READER)
    at.listen("b")
    at.stand("b:01:write", "b:02", "b:03")
    assert at.release("b:01:write") == 0
    assert at.inside() == {READER: 1, "b:02": 1, "b:03": 1}
    assert [told for _, told in at.heard()] != []


def test_a_copy_of_a_release_tells_all_that_its_client_was_granted(at: Server) -> None:
    """Nobody may have read the reply that told it first; a look is told only what is older."""
    at.holds(WRITER)
    at.listen("a")
    at.stand("a:02", "a:03", "a:04:write")
    assert at.release(WRITER)[0] == b"02 03"
    assert at.release(WRITER) == [b"02 03"]
    assert at.ask("a:04:write")[4] == b""
    time.sleep(0.15)
    assert at.ask("a:04:write")[4] == b"02 03"


# 3. A reader's mark ends with any command of its.


def test_a_mark_of_a_reader_ends_with_its_first_command(at: Server) -> None:
    """A second entry, an inner release, a renewal or an ask: afterwards only its entry counts."""
    reader, keys = "a:02", [NAME, entry("a:02"), QUEUE]
    commands = [
        lambda: at.client.eval(READ_ACQUIRE.text, 3, *keys, 30_000, reader, 2),
        lambda: at.release(reader, 1),
        lambda: at.client.eval(READ_RENEW.text, 3, *keys, 30_000, reader),
        lambda: at.ask(reader),
    ]
    for command in commands:
        at.holds(reader)
        at.stand(reader, mark=True)
        command()
        assert at.queue() == []
        assert reader in at.inside()


# 4. Who was let in and never came.


def test_a_reader_that_never_came_costs_its_grant(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """A writer behind it gets the lock after three seconds and a look, and the client's places go."""
    at.holds(WRITER)
    at.listen("dead")
    at.stand("dead:01", "dead:02", "dead:03:write", "dead:04")
    at.client.set(entry("dead:01"), 1, px=60_000)
    at.client.set(entry("dead:02"), 1, px=60_000)
    with sides(redis_url) as (_, ours):
        got = pool.submit(ours.acquire, timeout=60)
        stands(at, 5)
        began = time.monotonic()
        at.release(WRITER)
        assert sorted(at.inside()) == ["dead:01", "dead:02"]
        assert got.result(20)
        assert 2.8 < time.monotonic() - began < 7.5
        assert not [each for each in at.queue() if "dead" in each]


def test_while_readers_may_come_their_marks_are_not_held_against_them(at: Server) -> None:
    """A look in that time removes nobody; one after it does, with the places of that client."""
    at.holds("b:01", "c:01")
    at.stand("b:01", mark=True)
    at.stand("b:02:write", "c:02:write")
    at.listen("b", "c")
    at.client.set(COMING, 1, px=60_000)
    at.ask("c:02:write")
    assert sorted(at.inside()) == ["b:01", "c:01"]
    at.client.delete(COMING)
    at.ask("c:02:write")
    assert sorted(at.inside()) == ["c:01"]
    assert at.queue() == ["c:02:write"]
    assert ("b", "") in at.heard()


def test_a_mark_without_its_field_has_failed(at: Server) -> None:
    """A writer that let its grant pass loses all places of its client."""
    at.stand("b:01:write", mark=True)
    at.stand("b:02", "c:02")
    at.listen("b", "c")
    assert len(at.ask("c:02")) == 2
    assert at.inside() == {"c:02": 1}
    assert at.queue() == []


# 5. Readers that died later.


def test_a_dead_reader_keeps_a_writer_out_for_two_looks(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """Its entries have ended; the lock has a long lease, because a living one is in as well."""
    at.holds("dead:01", READER)
    at.client.delete(entry("dead:01"))
    with sides(redis_url) as (_, ours):
        got = pool.submit(ours.acquire, timeout=60)
        stands(at, 1)
        wait_until(lambda: list(at.inside()) == [READER], 10, "the dead one is removed")
        assert not got.done()
        at.release(READER)
        assert got.result(PROMPT)


def test_a_dead_reader_keeps_no_writer_out_that_waits_for_a_moment(
    redis_url: str, at: Server
) -> None:
    """Else such a writer would never get in beside readers that keep the lock alive."""
    at.holds("dead:01")
    at.client.delete(entry("dead:01"))
    with sides(redis_url) as (_, ours):
        assert not ours.acquire(timeout=0)
        assert ours.acquire(timeout=1)
        ours.release()


def test_only_readers_without_any_entry_are_gone(at: Server) -> None:
    """Not who may still come, nor who has another entry, nor who entered again since it was named."""
    readers = ["b:01", "b:02", "b:03", "b:04"]
    at.holds(*readers)
    at.stand("b:01", mark=True)
    at.client.set(COMING, 1, px=60_000)
    at.listen("a", "b")
    at.client.hset(NAME, "b:03", 2)
    at.client.hset(NAME, "b:02", 2)
    at.client.set(entry("b:02", 2), 1, px=60_000)
    at.client.delete(*map(entry, readers))
    at.stand(WRITER)
    named = at.ask(WRITER)[6:]
    depths = dict(zip(named[::2], named[1::2], strict=True))
    assert depths.pop(b"mode") == b"read"
    assert {each: depths[each.encode()] for each in readers} == dict(
        zip(readers, [b"1", b"2", b"2", b"1"], strict=True)
    )
    at.ask(WRITER, "b:01", "b:02", "b:02", "b:03", "b:04")
    assert sorted(at.inside()) == ["b:01", "b:02", "b:03"]


def test_a_refusal_names_a_hundred_readers_and_others_the_next_time(at: Server) -> None:
    """So each of very many is looked at in the end."""
    at.holds(*[f"b:{number:04}" for number in range(250)])
    at.listen("a")
    at.stand(WRITER)
    named = set[bytes]()
    for _ in range(100):
        answer = at.ask(WRITER)
        assert len(answer) == 6 + 2 * 100
        named |= set(answer[6::2])
    assert len(named) == 251


# 6. A reader's first try names the queue.


def test_a_reader_does_not_pass_a_waiting_writer(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """Not even by a mere try, nor when the lock is left free for a moment."""
    at.holds(READER)
    with sides(redis_url) as (_, writer), sides(redis_url) as (reader, _):
        got = pool.submit(writer.acquire, timeout=60)
        stands(at, 1)
        assert not reader.acquire(timeout=0)
        at.release(READER)
        assert got.result(PROMPT)
        writer.release()
        assert reader.acquire(timeout=0)
        reader.release()
    at.stand("b:01:write")
    keys = [NAME, entry(READER), QUEUE]
    assert at.client.eval(READ_ACQUIRE.text, 3, *keys, 30_000, READER, 1) == -2
    assert not at.inside()


# 7. Downgrade.


def test_who_comes_down_lets_readers_in(at: Server) -> None:
    """The write's release lets in the readers in front; while the mode is write, nobody comes in."""
    at.holds(WRITER, READER)
    at.listen("a", "b")
    at.stand("b:01", "b:02:write")
    assert at.release(READER) == 1
    assert at.inside() == {WRITER: 1}
    at.holds(WRITER, READER)
    assert at.release(WRITER) == 1
    assert at.inside() == {READER: 1, "b:01": 1}
    assert at.client.hget(NAME, "mode") == b"read"
    ((client, told),) = at.heard()
    assert (client, told.partition("|")[0]) == ("b", "01")


@pytest.mark.parametrize("waits", [False, True], ids=["nobody", "writer"])
def test_java_is_told_that_it_may_read(at: Server, *, waits: bool) -> None:
    """Whoever comes down says so on Java's channel: by `1`, and where there is a queue by `01`."""
    at.holds(WRITER, READER)
    at.listen("b", java=True)
    if waits:
        at.stand("b:01:write")
    assert at.release(WRITER) == 1
    assert at.heard() == [("java", "01" if waits else "1")]


# 8. Java's readers.


@pytest.mark.parametrize("java", [False, True])
def test_java_is_told_when_readers_come_in(at: Server, *, java: bool) -> None:
    """Its readers may join ours; with nobody but us there is no message on its channel."""
    at.holds(WRITER)
    at.listen("b", java=java)
    at.stand("b:01")
    at.release(WRITER)
    assert (("java", "01") in at.heard()) == java


@pytest.mark.parametrize(("holder", "freed"), [(WRITER, "01"), (READER, "00")])
def test_java_has_its_turn_after_a_grant(at: Server, holder: str, freed: str) -> None:
    """Who was let in by a release frees the lock, and the first of the queue asks a moment later."""
    at.holds(holder)
    at.listen("b", java=True)
    at.stand("b:01:write")
    assert at.release(holder, how="1") == 1
    assert not at.client.exists(NAME)
    assert at.heard() == [("java", freed), ("b", "01:write")]


# Who cannot listen, and who gives up.


def test_readers_and_writers_that_cannot_listen_have_their_turns(
    redis_url: str, at: Server, pool: ThreadPoolExecutor
) -> None:
    """They stand in the queue beside those who listen, with a mark of their own."""
    with (
        sides(redis_url) as (reader, writer),
        sides(redis_url, pubsub="off") as (deaf_reader, deaf_writer),
    ):
        assert writer.acquire()
        waits = list[Any]()
        for number, side in enumerate([deaf_reader, reader, deaf_writer, deaf_reader]):
            waits.append(pool.submit(side.acquire, timeout=60))
            stands(at, number + 1)
        assert [each.endswith("?") for each in at.queue()] == [True, False, True, True]
        writer.release()
        assert waits[0].result(PROMPT)
        assert waits[1].result(PROMPT)
        assert not waits[2].done()
        pool.submit(reader.release)
        time.sleep(0.1)
        assert not waits[2].done()


def test_who_had_to_ask_lets_the_next_one_ask(redis_url: str, at: Server) -> None:
    """Readers that were let in without a message find that out one after the other, at once."""
    with ThreadPoolExecutor(30) as pool, sides(redis_url, pubsub="off") as (read, write):
        assert write.acquire()
        waits = [pool.submit(read.acquire, timeout=60) for _ in range(30)]
        stands(at, 30)
        began = time.monotonic()
        write.release()
        assert all(each.result(20) for each in waits)
        assert time.monotonic() - began < 1.5
