"""Commands on sorted sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
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

_NOT_TOGETHER = "ERR GT, LT, and/or NX options at the same time are not compatible"
_LIMIT_OF_RANKS = (
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
)


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
    flags: set[bytes] = set()
    while rest and rest[0].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"):
        flags.add(rest.pop(0).upper())
    _check_flags(flags, len(rest))
    scores = [(number(score), member) for score, member in pairs(rest)]
    stored = _read(db, key)
    added = changed = 0
    after = 0.0
    for given, member in scores:
        before = stored.get(member)
        after = before + given if before is not None and b"INCR" in flags else given
        if math.isnan(after):
            raise ModelError("ERR resulting score is not a number (NaN)")
        if not _wanted(flags, before, after):
            if b"INCR" in flags:
                return None
            continue
        if before != after:
            stored[member] = after + 0.0  # a small sorted set keeps a score of -0 as 0
            changed += 1
            added += before is None
    if added and added == len(stored):
        db.put(key, stored)
    if b"INCR" in flags:
        return format_score(after)
    return changed if b"CH" in flags else added


def _check_flags(flags: set[bytes], rest: int) -> None:
    if rest == 0 or rest % 2:
        raise ModelError(SYNTAX_ERROR)
    if {b"NX", b"XX"} <= flags:
        raise ModelError("ERR XX and NX options at the same time are not compatible")
    if len(flags & {b"NX", b"GT", b"LT"}) > 1:
        raise ModelError(_NOT_TOGETHER)
    if b"INCR" in flags and rest > 2:
        raise ModelError("ERR INCR option supports a single increment-element pair")


def _wanted(flags: set[bytes], before: float | None, after: float) -> bool:
    if before is None:
        return b"XX" not in flags
    if b"NX" in flags or (b"GT" in flags and after <= before):
        return False
    return not (b"LT" in flags and after >= before)


def _zincrby(db: Keyspace, args: Args) -> Reply:
    key, amount, member = args
    return _zadd(db, (key, b"INCR", amount, member))


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


def _zremrangebyrank(db: Keyspace, args: Args) -> Reply:
    key, start, stop = args
    first, last = integer(start), integer(stop)
    members = [member for _, member in _read(db, key).ranked()]
    return _take(db, key, members[bounds(first, last, len(members))])


def _zscore(db: Keyspace, args: Args) -> Reply:
    score = _read(db, args[0]).get(args[1])
    return None if score is None else format_score(score)


def _zcard(db: Keyspace, args: Args) -> Reply:
    return len(_read(db, args[0]))


def _zcount(db: Keyspace, args: Args) -> Reply:
    limits = _Bounds.parse(args[1], args[2])
    return sum(map(limits.admit, _read(db, args[0]).values()))


def _zrank(db: Keyspace, args: Args) -> Reply:
    stored = _read(db, args[0])
    if args[1] not in stored:
        return None
    return stored.ranked().index((stored[args[1]], args[1]))


@dataclass(slots=True)
class _Selection:
    """The options of ZRANGE and its like."""

    by_score: bool = False
    reverse: bool = False
    with_scores: bool = False
    offset: int = 0
    count: int = -1  # any negative count: all

    @classmethod
    def parse(cls, options: Args) -> _Selection:
        chosen = cls()
        rest = list(options)
        while rest:
            option = rest.pop(0).upper()
            if option == b"WITHSCORES":
                chosen.with_scores = True
            elif option == b"LIMIT" and len(rest) > 1:
                chosen.offset, chosen.count = integer(rest.pop(0)), integer(rest.pop(0))
            elif option == b"REV":
                chosen.reverse = True
            elif option == b"BYSCORE":
                chosen.by_score = True
            else:
                raise ModelError(SYNTAX_ERROR)
        return chosen

    def reply(self, found: list[tuple[float, bytes]]) -> Reply:
        if self.with_scores:
            return [part for score, member in found for part in (member, format_score(score))]
        return [member for _, member in found]


def _zrange(db: Keyspace, args: Args) -> Reply:
    key, start, stop, *options = args
    chosen = _Selection.parse(options)
    if chosen.by_score:
        return _range_by_score(db, key, start, stop, chosen)
    if chosen.count != -1:
        raise ModelError(_LIMIT_OF_RANKS)
    first, last = integer(start), integer(stop)
    members = _read(db, key).ranked()
    if chosen.reverse:
        members.reverse()
    return chosen.reply(members[bounds(first, last, len(members))])


def _zrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high, *options = args
    chosen = _Selection.parse(options)
    if chosen.by_score or chosen.reverse:
        raise ModelError(SYNTAX_ERROR)
    return _range_by_score(db, key, low, high, chosen)


def _range_by_score(
    db: Keyspace, key: bytes, start: bytes, stop: bytes, chosen: _Selection
) -> Reply:
    limits = _Bounds.parse(stop, start) if chosen.reverse else _Bounds.parse(start, stop)
    found = [pair for pair in _read(db, key).ranked() if limits.admit(pair[0])]
    if chosen.reverse:
        found.reverse()
    found = found[chosen.offset :] if chosen.offset >= 0 else []
    return chosen.reply(found[: chosen.count] if chosen.count >= 0 else found)


COMMANDS: Table = {
    b"ZADD": at_least(3, _zadd),
    b"ZINCRBY": exactly(3, _zincrby),
    b"ZREM": at_least(2, _zrem),
    b"ZREMRANGEBYSCORE": exactly(3, _zremrangebyscore),
    b"ZREMRANGEBYRANK": exactly(3, _zremrangebyrank),
    b"ZSCORE": exactly(2, _zscore),
    b"ZCARD": exactly(1, _zcard),
    b"ZCOUNT": exactly(3, _zcount),
    b"ZRANK": exactly(2, _zrank),
    b"ZRANGE": at_least(3, _zrange),
    b"ZRANGEBYSCORE": at_least(3, _zrangebyscore),
}
