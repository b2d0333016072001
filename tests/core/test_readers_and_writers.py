"""The queue of a read/write lock, where no face can see a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core import scripts_at

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


def entry(reader: str, number: int = 1) -> str:
    return f"{{{NAME}}}:{reader}:rwlock_timeout:{number}"


class Server(scripts_at.Server):
    """What a client's scripts do at the server, one by one."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client, QUEUE, CHANNEL)

    def holds(self, *holders: str, lease: int = 60_000, mode: str = "") -> None:
        writes = any(holder.endswith(":write") for holder in holders)
        fields = dict.fromkeys(holders, "1") | {"mode": mode or ("write" if writes else "read")}
        self.client.hset(NAME, mapping=fields)
        self.client.pexpire(NAME, lease)
        for holder in holders:
            if not holder.endswith(":write"):
                self.client.set(entry(holder), 1, px=lease)

    def stand(self, *members: str, mark: bool = False) -> None:
        seconds, rest = self.client.time()
        now = seconds * 10**6 + rest - len(members)
        places = {each: now + number for number, each in enumerate(members)}
        self.client.zadd(QUEUE, {each: -at if mark else at for each, at in places.items()})

    def inside(self) -> dict[str, int]:
        found = self.client.hgetall(NAME)
        return {each.decode(): int(found[each]) for each in found if each != b"mode"}

    def ask(self, holder: str, *named: str, lease: int = 30_000) -> Any:
        """Let *holder* ask; each of *named* is a reader, whose next entry is given."""
        seen = dict.fromkeys(named, 0)
        others = list[str]()
        for each in named:
            seen[each] += 1
            others.append(entry(each, seen[each]))
        writes = holder.endswith(":write")
        keys = [NAME, *([] if writes else [entry(holder)]), COMING, QUEUE, *others]
        args = [lease, holder, CHANNEL, "", "", "", *named]
        return self.run(WRITE_ASK if writes else READ_ASK, keys, *args)

    def release(self, holder: str, depth: int = 0, how: str = "") -> Any:
        writes = holder.endswith(":write")
        keys = [NAME, *([] if writes else [entry(holder)]), COMING, QUEUE]
        script = WRITE_RELEASE if writes else READ_RELEASE
        return self.run(script, keys, holder, depth, CHANNEL, how)

    def calls(self, command: str) -> int:
        stats = self.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


@pytest.fixture
def at(redis_client: redis.Redis) -> Iterator[Server]:
    redis_client.flushall()
    server = Server(redis_client)
    yield server
    server.listening.close()


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


@pytest.mark.parametrize("first", ["renewal", "re-entry", "inner release", "in time", "none"])
def test_a_reader_that_was_let_in_and_does_not_come_keeps_no_writer_out(
    at: Server, first: str
) -> None:
    """Its entry stands for it only from its first command on, or while it may still come."""
    at.holds("b:01")
    at.stand("b:01", mark=True)
    lock = NAME, entry("b:01"), QUEUE
    match first:
        case "renewal":
            assert at.client.eval(READ_RENEW.text, 3, *lock, 30_000, "b:01") == [1]
        case "re-entry":
            assert at.client.eval(READ_ACQUIRE.text, 3, *lock, 30_000, "b:01", 2) is None
        case "inner release":
            assert at.release("b:01", 1) == 1
        case "in time":
            at.client.set(COMING, 1, px=60_000)
        case _:
            pass
    at.listen("a")
    at.stand(WRITER)
    at.ask(WRITER)
    assert [*at.inside()] == ([WRITER] if first == "none" else ["b:01"])


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


@pytest.mark.parametrize("waits", [False, True], ids=["nobody", "writer"])
def test_java_is_told_that_it_may_read(at: Server, *, waits: bool) -> None:
    """Whoever comes down says so on Java's channel: by `1`, and where there is a queue by `01`."""
    at.holds(WRITER, READER)
    at.listen("b", java=True)
    if waits:
        at.stand("b:01:write")
    assert at.release(WRITER) == 1
    assert at.heard() == [("java", "01" if waits else "1")]


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
