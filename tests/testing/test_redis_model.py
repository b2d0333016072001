"""The model's commands, held against a real server and against a clock of the tests' own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.support.model.redis_model import ModelError, RedisModel, Stored
from tests.testing.redis_twin import LONG, NEAR_MS, Twin, real_redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs("redis-7.0")

# Small letters stand for arguments of that sort, see _ARGUMENTS.
_GRAMMAR = """
EXISTS key key key | DEL key | DEL key key | UNLINK key | TYPE key | KEYS glob
RENAME key key | FLUSHALL | FLUSHALL word | PERSIST key | PTTL key | TTL key
PEXPIRE key ms | PEXPIRE key ms expiry | PEXPIRE key ms expiry expiry | EXPIRE key sec
PEXPIREAT key at_ms | PEXPIREAT key at_ms GT | PEXPIREAT key at_ms LT
EXPIREAT key at_sec | EXPIREAT key at_sec expiry
GET s | SET s v | SET s v option | SET s v option option | SET s v PX ms | SET s v EX sec option
SET s v option PXAT at_ms | SET s v EXAT at_sec | SET s v PX | SETNX s v
PSETEX s ms v | SETEX s sec v | INCR s | INCRBY s i | DECR s | DECRBY s i | APPEND s v | STRLEN s
HSET h f v | HSET h f v f v | HSET h f v f | HSETNX h f v | HGET h f | HMGET h f f | HGETALL h
HKEYS h | HVALS h | HLEN h | HEXISTS h f | HDEL h f | HDEL h f f | HINCRBY h f i
LPUSH l e | LPUSH l e e e | RPUSH l e | RPUSH l e e | LPOP l | LPOP l i | RPOP l | RPOP l i
LINDEX l i | LRANGE l i i | LREM l i e | LREM l i e | LLEN l | LPOS l e | LPOS l e RANK rank
LPOS l e COUNT i | LPOS l e MAXLEN i RANK rank COUNT i | LPOS l e word i | LPOS l e COUNT
ZADD z n f | ZADD z n f n f n f | ZADD z add n f | ZADD z add add n f n f | ZADD z n f n
ZADD z add add add n f | ZADD z GT INCR n f | ZADD z INCR LT n f | ZINCRBY z n f
ZREM z f | ZREM z f f | ZREMRANGEBYSCORE z b b | ZREMRANGEBYRANK z i i
ZSCORE z f | ZCARD z | ZCOUNT z b b | ZRANK z f | ZRANGE z i i | ZRANGE z i i range
ZRANGE z b b BYSCORE | ZRANGE z b b BYSCORE range | ZRANGE z b b REV BYSCORE LIMIT i i
ZRANGE z b b BYSCORE LIMIT i i WITHSCORES | ZRANGE z i i LIMIT i i | ZRANGE z i i REV WITHSCORES
ZRANGEBYSCORE z b b | ZRANGEBYSCORE z b b range | ZRANGEBYSCORE z b b LIMIT i i
ZRANGEBYSCORE z b b WITHSCORES LIMIT i i | ZRANGEBYSCORE z b b LIMIT i
PUBLISH f v | SPUBLISH f v | NONSENSE key i | GET | GET s s | HSET h | ZADD z n
"""
_KEYS = ("s1", "s2", "h1", "h2", "l1", "l2", "z1", "z2")
_TOO_BIG = ("9223372036854775807", "9223372036854775808", "-9223372036854775808")
_SMALL = ("-3", "-2", "-1", "0", "1", "2", "3", "10") * 3
_ARGUMENTS: dict[str, tuple[str | bytes, ...]] = {
    "key": _KEYS,
    "s": ("s1", "s2") * 10 + _KEYS,
    "h": ("h1", "h2") * 10 + _KEYS,
    "l": ("l1", "l2") * 10 + _KEYS,
    "z": ("z1", "z2") * 10 + _KEYS,
    "f": ("a", "b", "c", b"\x00\xff"),
    "v": ("a", "b", b"\xff\x00\n", "", "10", "-7", "07", " 1", "9223372036854775807"),
    "e": ("a", "b", b"\xff\x00"),
    "i": (*_SMALL, *_TOO_BIG, "x", "01", "+1", "1.0", "", "-0"),
    "rank": (*_SMALL, "9223372036854775807", "x"),  # the lowest integer overflows in Redis 7.0.15
    "n": (
        *_SMALL,
        "0.1",
        "-1.5",
        "1e3",
        "1e17",
        "inf",
        "-INF",
        "+infinity",
        "nan",
        "x",
        "-0",
        ".5",
    ),
    "b": (
        *_SMALL,
        "(1",
        "(2",
        "(-1.5",
        "inf",
        "-inf",
        "+inf",
        "(inf",
        "(-inf",
        "x",
        "(",
        "",
        "nan",
    ),
    "ms": (str(LONG), str(3 * LONG), str(10**12), "0", "-5", "x", *_TOO_BIG),
    "sec": (str(LONG), str(3 * LONG), "0", "-5", "x", "9223372036854775", *_TOO_BIG),
    "at_ms": ("10000000000000", "20000000000000", "1", "0", "-1", "x"),
    "at_sec": ("10000000000", "20000000000", "1", "0", "-1", "x"),
    "expiry": ("NX", "XX", "GT", "lt", "foo"),
    "option": ("NX", "xx", "GET", "KEEPTTL", "foo"),
    "add": ("NX", "XX", "GT", "LT", "ch", "INCR"),
    "range": ("WITHSCORES", "REV", "foo"),
    "glob": (
        "*",
        "s*",
        "?1",
        "[hl]1",
        "[^s]?",
        "[a-l]*",
        "\\s1",
        "z",
        "[",
        "s[1",
        "*[1]*",
        "s.",
        "[]",
    ),
    "word": ("ASYNC", "sync", "foo"),
}
_COMMANDS = [line.split() for line in _GRAMMAR.replace("\n", "|").split("|") if line.strip()]
# What is rarely right must not empty the server too often.
_RARE = {"FLUSHALL"}


@pytest.fixture(scope="module")
def reference() -> Iterator[Path]:
    """Give the socket of the reference server."""
    with real_redis() as path:
        yield path


@pytest.fixture
def twin(reference: Path) -> Iterator[Twin]:
    """Give an empty model and an empty server."""
    with Twin(reference) as twin:
        yield twin


def _command(rng: random.Random) -> list[str | bytes]:
    words = rng.choice(_COMMANDS)
    while words[0] in _RARE and rng.random() < 0.8:
        words = rng.choice(_COMMANDS)
    return [rng.choice(_ARGUMENTS[word]) if word in _ARGUMENTS else word for word in words]


@pytest.mark.parametrize("seed", range(40))
def test_random_commands_get_the_replies_of_a_real_server(twin: Twin, seed: int) -> None:
    """Any sequence of commands, wrong ones among them, is answered as a real server answers."""
    rng = random.Random(seed)
    for step in range(700):
        command = _command(rng)
        name = command[0]
        if name == "TTL":
            expected, found = twin.ask(*command)
            assert abs(expected - found) < 20, command
        else:
            twin.check(*command, near=name == "PTTL", unordered=name == "KEYS")
        if step % 20 == 0:
            twin.check_dumps()
    twin.check_dumps()


@pytest.mark.parametrize(
    "commands",
    [
        (("HSET", "h", "a", 2**63 - 1), ("HINCRBY", "h", "a", 1)),
        (("SET", "s", -(2**63)), ("DECR", "s")),
        (("ZADD", "z", "1e999", "a"), ("ZADD", "z", "inf", "a"), ("ZINCRBY", "z", "-inf", "a")),
    ],
)
def test_numbers_end_where_those_of_a_real_server_end(twin: Twin, commands: tuple[str]) -> None:
    """A number that does not fit is refused in a real server's words and changes nothing."""
    for command in commands:
        twin.check(*command)
    twin.check_dumps()


def test_every_command_of_the_grammar_is_reached_and_can_succeed() -> None:
    """The random conversations are no luck: each command of the model is tried and succeeds."""
    rng = random.Random(0)
    model = RedisModel(now=lambda: 1000.0)
    succeeded: set[bytes | str] = set()
    for _ in range(5000):
        command = _command(rng)
        try:
            model.execute(*command)
        except ModelError:
            continue
        succeeded.add(command[0])
    assert succeeded == {words[0] for words in _COMMANDS} - {"NONSENSE"}
    elsewhere = {b"EVAL", b"EVALSHA", b"SCRIPT", b"SCAN", b"DBSIZE", b"TIME", b"PUBSUB", b"CLUSTER"}
    assert set(model._commands) - elsewhere == {str(name).encode() for name in succeeded}


def test_pubsub_counts_who_listens_as_a_real_server_does(twin: Twin) -> None:
    """PUBSUB NUMSUB names each channel and who listens; what it cannot do it refuses."""
    twin.check("PUBSUB", "NUMSUB")
    twin.check("PUBSUB", "numsub", "a", "b")
    model = RedisModel(now=lambda: 1000.0, listeners=len)
    assert model.execute("PUBSUB", "NUMSUB", "a", "bc") == [b"a", 1, b"bc", 2]
    with pytest.raises(ModelError):
        model.execute("PUBSUB", "NONSENSE")


def test_scan_and_dbsize_tell_all_keys_as_a_real_server_does(twin: Twin) -> None:
    """SCAN finds the same keys as a real server for every filter, and DBSIZE as many."""
    for command in (("SET", "s1", "x"), ("SET", "s2", "x"), ("LPUSH", "l1", "x")):
        twin.check(*command)
    twin.check("DBSIZE")
    for options in ((), ("MATCH", "s*"), ("TYPE", "list"), ("COUNT", 100, "MATCH", "*1")):
        (_, expected), (cursor, found) = twin.ask("SCAN", 0, *options)
        assert (cursor, sorted(found)) == (b"0", sorted(expected))
    for wrong in (
        ("SCAN", "x"),
        ("SCAN", 0, "COUNT", 0),
        ("SCAN", 0, "COUNT"),
        ("SCAN", 0, "A", 1),
    ):
        twin.check(*wrong)


def test_the_time_is_told_in_seconds_and_microseconds(twin: Twin) -> None:
    """TIME has the form of a real server's answer, and the time of the model's clock."""
    (expected, _), (seconds, microseconds) = twin.ask("TIME")
    assert abs(int(expected) - int(seconds)) < NEAR_MS
    assert 0 <= int(microseconds) < 1_000_000
    assert RedisModel(now=lambda: 12.000345).execute("TIME") == [b"12", b"345"]


def test_a_key_lives_through_the_millisecond_of_its_deadline() -> None:
    """A key exists at its deadline; one millisecond later it is gone without a trace."""
    now = 1000.0
    model = RedisModel(now=lambda: now)
    model.execute("SET", "k", "v", "PX", 30_000)
    now = 1029.9995
    assert model.execute("PTTL", "k") == 1
    now = 1030.0
    assert (model.execute("GET", "k"), model.execute("PTTL", "k")) == (b"v", 0)
    now = 1030.001
    assert (model.execute("GET", "k"), model.execute("PTTL", "k")) == (None, -2)
    assert (model.dump(), model.execute("DBSIZE"), model.execute("KEYS", "*")) == ({}, 0, [])


def test_an_expired_key_is_absent_for_every_kind_of_command() -> None:
    """Writing to an expired key starts anew: no old members, no old deadline, no wrong type."""
    now = 0.0
    model = RedisModel(now=lambda: now)
    for key in ("h", "z", "l", "r"):
        model.execute("HSET", key, "old", 1)
        model.execute("PEXPIRE", key, 10)
    now = 1.0
    assert model.execute("PERSIST", "h") == 0
    assert model.execute("HSET", "h", "new", 1) == 1
    assert model.execute("ZADD", "z", 1, "new") == 1
    assert model.execute("RPUSH", "l", "new") == 1
    with pytest.raises(ModelError, match="ERR no such key"):
        model.execute("RENAME", "r", "q")
    assert model.dump() == {
        b"h": Stored("hash", {b"new": b"1"}, None),
        b"z": Stored("zset", {b"new": 1.0}, None),
        b"l": Stored("list", [b"new"], None),
    }


def test_a_dump_is_a_copy() -> None:
    """What a dump returned does not change with the server."""
    model = RedisModel(now=lambda: 5.0)
    model.execute("HSET", "h", "f", 1)
    model.execute("PEXPIRE", "h", 700)
    dump = model.dump()
    model.execute("HSET", "h", "f", 2)
    assert dump == {b"h": Stored("hash", {b"f": b"1"}, 700)}


def test_messages_go_to_the_hooks() -> None:
    """PUBLISH and SPUBLISH call different hooks and return what these count."""
    sent: list[tuple[str, bytes, bytes]] = []

    def hook(kind: str, receivers: int, channel: bytes, payload: bytes) -> int:
        sent.append((kind, channel, payload))
        return receivers

    model = RedisModel(
        now=lambda: 0.0,
        on_publish=lambda channel, payload: hook("plain", 2, channel, payload),
        on_spublish=lambda channel, payload: hook("sharded", 1, channel, payload),
    )
    assert model.execute("PUBLISH", "c", b"\xff") == 2
    assert model.eval("return redis.call('spublish', KEYS[1], ARGV[1])", ["c"], [0]) == 1
    assert sent == [("plain", b"c", b"\xff"), ("sharded", b"c", b"0")]


def test_a_hook_cannot_call_the_busy_server() -> None:
    """A hook that calls the model is refused, though the script hides errors, and harms nothing."""
    model = RedisModel(now=lambda: 0.0, on_publish=lambda channel, _: bool(model.execute("DBSIZE")))
    with pytest.raises(RuntimeError, match="a hook must not call the model"):
        model.eval("return {pcall(redis.call, 'publish', 'c', '0')}", [], [])
    assert model.execute("DBSIZE") == 0


def test_executed_commands_are_counted_those_of_scripts_too() -> None:
    """The counter has every command that ran, by its name in capitals."""
    model = RedisModel(now=lambda: 0.0)
    model.eval("redis.call('set', 'k', 1) return redis.call('GET', 'k')", [], [])
    model.execute("get", "k")
    with pytest.raises(ModelError, match="ERR unknown command 'SADD', with args"):
        model.execute("SADD", "k", "v")
    assert model.commands == {"EVAL": 1, "SET": 1, "GET": 2}
