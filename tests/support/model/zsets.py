"""Commands on sorted sets."""

from __future__ import annotations

import math
from typing import NamedTuple

from tests.support.model.keyspace import (
    SYNTAX_ERROR,
    Args,
    Keyspace,
    ModelError,
    Reply,
    Table,
    ZSet,
    at_least,
    exactly,
    format_score,
    integer,
    number,
    pairs,
)
from tests.support.model.lists import bounds


class _Bounds(NamedTuple):
    low: float
    low_open: bool
    high: float
    high_open: bool

    @classmethod
    def parse(cls, low: bytes, high: bytes) -> _Bounds:
        return cls(*_bound(low), *_bound(high))

    def admit(self, score: float) -> bool:
        above = score > self.low if self.low_open else score >= self.low
        return above and (score < self.high if self.high_open else score <= self.high)


def _bound(text: bytes) -> tuple[float, bool]:
    is_open = text.startswith(b"(")
    # A bound without digits is taken for 0, unlike a score.
    return number(text[is_open:] or b"0", "ERR min or max is not a float"), is_open


def _read(db: Keyspace, key: bytes) -> ZSet:
    return db.find(key, ZSet) or ZSet()


def _zadd(db: Keyspace, args: Args) -> Reply:
    key, *rest = args
    flag = rest.pop(0).upper() if rest[0].upper() in (b"NX", b"XX", b"INCR") else b""
    if not rest or len(rest) % 2:
        raise ModelError(SYNTAX_ERROR)
    if flag == b"INCR" and len(rest) > 2:
        raise ModelError("ERR INCR option supports a single increment-element pair")
    scores = [(number(score), member) for score, member in pairs(rest)]
    stored = _read(db, key)
    added = 0
    after = 0.0
    for given, member in scores:
        before = stored.get(member)
        if flag == (b"XX" if before is None else b"NX"):
            continue
        after = before + given if before is not None and flag == b"INCR" else given
        if math.isnan(after):
            raise ModelError("ERR resulting score is not a number (NaN)")
        stored[member] = after + 0.0  # a small sorted set keeps a score of -0 as 0
        added += before is None
    if added and added == len(stored):
        db.put(key, stored)
    return format_score(after) if flag == b"INCR" else added


def _zrem(db: Keyspace, args: Args) -> Reply:
    key, *members = args
    return _take(db, key, members)


def _take(db: Keyspace, key: bytes, members: Args) -> int:
    stored = db.find(key, ZSet)
    if stored is None:
        return 0
    before = len(stored)
    for member in members:
        stored.pop(member, None)
    removed = before - len(stored)
    db.drop_if_empty(key, stored)
    return removed


def _zremrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high = args
    limits = _Bounds.parse(low, high)
    stored = _read(db, key)
    return _take(db, key, [member for member, score in stored.items() if limits.admit(score)])


def _zscore(db: Keyspace, args: Args) -> Reply:
    score = _read(db, args[0]).get(args[1])
    return None if score is None else format_score(score)


def _zcard(db: Keyspace, args: Args) -> Reply:
    return len(_read(db, args[0]))


def _zcount(db: Keyspace, args: Args) -> Reply:
    limits = _Bounds.parse(args[1], args[2])
    return sum(map(limits.admit, _read(db, args[0]).values()))


def _reply(found: list[tuple[float, bytes]], options: list[bytes]) -> Reply:
    if not options:
        return [member for _, member in found]
    if options != [b"WITHSCORES"]:
        raise ModelError(SYNTAX_ERROR)
    return [part for score, member in found for part in (member, format_score(score))]


def _zrange(db: Keyspace, args: Args) -> Reply:
    key, start, stop, *options = args
    first, last = integer(start), integer(stop)
    members = _read(db, key).ranked()
    found = members[bounds(first, last, len(members))]
    return _reply(found, [option.upper() for option in options])


def _zrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high, *rest = args
    limits = _Bounds.parse(low, high)
    found = [pair for pair in _read(db, key).ranked() if limits.admit(pair[0])]
    options = [option.upper() for option in rest]
    if options[-3:-1] == [b"LIMIT", b"0"]:
        *options, _, _, count = options
        found = found[: integer(count)]
    return _reply(found, options)


COMMANDS: Table = {
    b"ZADD": at_least(3, _zadd),
    b"ZREM": at_least(2, _zrem),
    b"ZREMRANGEBYSCORE": exactly(3, _zremrangebyscore),
    b"ZSCORE": exactly(2, _zscore),
    b"ZCARD": exactly(1, _zcard),
    b"ZCOUNT": exactly(3, _zcount),
    b"ZRANGE": at_least(3, _zrange),
    b"ZRANGEBYSCORE": at_least(3, _zrangebyscore),
}
