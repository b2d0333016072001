"""The model's clock, which no real server can be compared with: it stands where a test puts it."""

from __future__ import annotations

from tests.support.model.redis_model import RedisModel, Stored


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
    assert (model.dump(), model.execute("KEYS", "*")) == ({}, [])


def test_an_expired_key_is_absent_for_every_kind_of_command() -> None:
    """Writing to an expired key starts anew: no old members, no old deadline, no wrong type."""
    now = 0.0
    model = RedisModel(now=lambda: now)
    for key in ("h", "z", "l"):
        model.execute("HSET", key, "old", 1)
        model.execute("PEXPIRE", key, 10)
    now = 1.0
    assert model.execute("PERSIST", "h") == 0
    assert model.execute("HSET", "h", "new", 1) == 1
    assert model.execute("ZADD", "z", 1, "new") == 1
    assert model.execute("RPUSH", "l", "new") == 1
    assert model.dump() == {
        b"h": Stored("hash", {b"new": b"1"}, None),
        b"z": Stored("zset", {b"new": 1.0}, None),
        b"l": Stored("list", [b"new"], None),
    }


def test_time_stands_still_within_a_script() -> None:
    """A script sees one time, so that a key that it has found does not expire under its hands."""
    ticks = iter(range(100))
    model = RedisModel(now=lambda: next(ticks))
    model.execute("SET", "k", "v", "PX", 1500)
    text = (
        "local a = redis.call('time')[1] return {a, redis.call('time')[1], redis.call('pttl', 'k')}"
    )
    assert model.eval(text, [], []) == [b"1", b"1", 500]
