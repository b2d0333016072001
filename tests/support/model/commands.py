"""The commands of the model: on keys of any type, strings, hashes, lists and sorted sets."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import NamedTuple

from tests.support.model.keyspace import (
    MAX_INT,
    MIN_INT,
    OK,
    SYNTAX_ERROR,
    TYPE_NAMES,
    Args,
    Command,
    Hash,
    Keyspace,
    List,
    ModelError,
    Reply,
    Status,
    Table,
    ZSet,
    at_least,
    exactly,
    format_score,
    integer,
    number,
    pairs,
    printable,
    wrong_arguments,
)

# On keys of any type.


def _exists(db: Keyspace, args: Args) -> Reply:
    return sum(db.entry(key) is not None for key in args)


def _del(db: Keyspace, args: Args) -> Reply:
    return sum(map(db.remove, args))


def _type(db: Keyspace, args: Args) -> Reply:
    entry = db.entry(args[0])
    return Status(b"none" if entry is None else TYPE_NAMES[type(entry.value)].encode())


def _expire(db: Keyspace, args: Args, *, absolute: bool, command: str) -> Reply:
    key, amount = args
    when = integer(amount)
    base = 0 if absolute else db.now_ms
    if when > MAX_INT - base:
        raise ModelError(f"ERR invalid expire time in '{command}' command")
    when += base
    entry = db.entry(key)
    if entry is None:
        return 0
    if when <= db.now_ms:
        db.remove(key)
    else:
        entry.expires = when
    return 1


def _pttl(db: Keyspace, args: Args) -> int:
    entry = db.entry(args[0])
    if entry is None:
        return -2
    return -1 if entry.expires is None else entry.expires - db.now_ms


def _persist(db: Keyspace, args: Args) -> Reply:
    entry = db.entry(args[0])
    if entry is None or entry.expires is None:
        return 0
    entry.expires = None
    return 1


def _flushall(db: Keyspace, args: Args) -> Reply:
    if args and args[0].upper() not in (b"SYNC", b"ASYNC"):
        raise ModelError(SYNTAX_ERROR)
    db.clear()
    return OK


def _scan(db: Keyspace, args: Args) -> Reply:
    """Return everything at once, which a server may do too."""
    cursor, *options = args
    integer(cursor, "ERR invalid cursor")
    if len(options) % 2:
        raise ModelError(SYNTAX_ERROR)
    pattern, kind = _glob(b"*"), None
    for name, value in pairs(options):
        option = name.upper()
        if option == b"MATCH":
            pattern = _glob(value)
        elif option == b"TYPE":
            kind = value.decode().lower()
        elif option != b"COUNT" or integer(value) < 1:
            raise ModelError(SYNTAX_ERROR)
    found: list[Reply] = [
        key
        for key, entry in db.items()
        if pattern.fullmatch(key) and kind in (None, TYPE_NAMES[type(entry.value)])
    ]
    return [b"0", found]


def _glob(pattern: bytes) -> re.Pattern[bytes]:
    """Translate a pattern of KEYS, in which ``*`` alone is special, into a regular expression."""
    if re.search(rb"[?\[\\]", pattern):
        raise ModelError(f"ERR the model knows no pattern such as '{printable(pattern)}'")
    return re.compile(b".*".join(map(re.escape, pattern.split(b"*"))), re.DOTALL)


def _time(db: Keyspace, _args: Args) -> Reply:
    seconds, microseconds = divmod(db.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % microseconds]


# On strings, counters among them.


def _get(db: Keyspace, args: Args) -> Reply:
    return db.find(args[0], bytes)


def _set(db: Keyspace, args: Args) -> Reply:
    key, text, *options = args
    expires = None
    match [option.upper() for option in options]:
        case []:
            pass
        case [b"NX"]:
            if db.entry(key) is not None:
                return None
        case [b"PX" | b"PXAT" as unit, amount]:
            given = integer(amount)
            expires = given + (db.now_ms if unit == b"PX" else 0)
            if given <= 0 or expires > MAX_INT:
                raise ModelError("ERR invalid expire time in 'set' command")
        case _:
            raise ModelError(SYNTAX_ERROR)
    db.put(key, text).expires = expires
    return OK


def _add(db: Keyspace, key: bytes, amount: int) -> Reply:
    present = db.find(key, bytes)
    total = amount if present is None else integer(present) + amount
    if not MIN_INT <= total <= MAX_INT:
        raise ModelError("ERR increment or decrement would overflow")
    db.update(key, b"%d" % total)
    return total


def _incr(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], 1)


def _incrby(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], integer(args[1]))


def _decr(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], -1)


def _decrby(db: Keyspace, args: Args) -> Reply:
    amount = integer(args[1])
    if amount == MIN_INT:
        raise ModelError("ERR decrement would overflow")
    return _add(db, args[0], -amount)


def _strlen(db: Keyspace, args: Args) -> Reply:
    return len(db.find(args[0], bytes) or b"")


# On hashes.


def _hash(db: Keyspace, key: bytes) -> Hash:
    return db.find(key, Hash) or Hash()


def _hset(db: Keyspace, args: Args) -> Reply:
    key, *fields = args
    if len(fields) % 2:
        raise wrong_arguments(b"hset")
    stored = db.make(key, Hash)
    before = len(stored)
    stored.update(pairs(fields))
    return len(stored) - before


def _hget(db: Keyspace, args: Args) -> Reply:
    return _hash(db, args[0]).get(args[1])


def _hmget(db: Keyspace, args: Args) -> Reply:
    stored = _hash(db, args[0])
    return [stored.get(field) for field in args[1:]]


def _hgetall(db: Keyspace, args: Args) -> Reply:
    return [part for pair in _hash(db, args[0]).items() for part in pair]


def _hlen(db: Keyspace, args: Args) -> Reply:
    return len(_hash(db, args[0]))


def _hexists(db: Keyspace, args: Args) -> Reply:
    return int(args[1] in _hash(db, args[0]))


def _hdel(db: Keyspace, args: Args) -> Reply:
    key, *fields = args
    stored = db.find(key, Hash)
    if stored is None:
        return 0
    before = len(stored)
    for field in fields:
        stored.pop(field, None)
    removed = before - len(stored)
    db.drop_if_empty(key, stored)
    return removed


# On lists.


def _rpush(db: Keyspace, args: Args) -> Reply:
    key, *items = args
    stored = db.make(key, List)
    stored.extend(items)
    return len(stored)


def _lpop(db: Keyspace, args: Args) -> Reply:
    [key] = args
    stored = db.find(key, List)
    if stored is None:
        return None
    taken = stored.pop(0)
    db.drop_if_empty(key, stored)
    return taken


def _lindex(db: Keyspace, args: Args) -> Reply:
    stored = db.find(args[0], List)
    if stored is None:
        return None
    index = integer(args[1])
    return stored[index] if -len(stored) <= index < len(stored) else None


def _lrange(db: Keyspace, args: Args) -> Reply:
    start, stop = integer(args[1]), integer(args[2])
    stored = db.find(args[0], List) or List()
    return [*stored[bounds(start, stop, len(stored))]]


def bounds(start: int, stop: int, length: int) -> slice:
    """Return the slice for an inclusive range whose negative ends count from the end."""
    first = max(0, start + length if start < 0 else start)
    last = stop + length if stop < 0 else stop
    return slice(first, max(first, last + 1))


def _lrem(db: Keyspace, args: Args) -> Reply:
    key, amount, item = args
    count = integer(amount)
    stored = db.find(key, List)
    if stored is None:
        return 0
    found = [index for index, present in enumerate(stored) if present == item]
    if count > 0:
        found = found[:count]
    elif count < 0:
        found = found[count:]
    for index in reversed(found):
        del stored[index]
    db.drop_if_empty(key, stored)
    return len(found)


def _lpos(db: Keyspace, args: Args) -> Reply:
    key, item = args
    stored = db.find(key, List) or List()
    return stored.index(item) if item in stored else None


# On sorted sets.


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


def _zset(db: Keyspace, key: bytes) -> ZSet:
    return db.find(key, ZSet) or ZSet()


def _zadd(db: Keyspace, args: Args) -> Reply:
    key, *rest = args
    flag = rest.pop(0).upper() if rest[0].upper() in (b"NX", b"XX", b"INCR") else b""
    if not rest or len(rest) % 2:
        raise ModelError(SYNTAX_ERROR)
    if flag == b"INCR" and len(rest) > 2:
        raise ModelError("ERR INCR option supports a single increment-element pair")
    scores = [(number(score), member) for score, member in pairs(rest)]
    stored = _zset(db, key)
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
    stored = _zset(db, key)
    return _take(db, key, [member for member, score in stored.items() if limits.admit(score)])


def _zscore(db: Keyspace, args: Args) -> Reply:
    score = _zset(db, args[0]).get(args[1])
    return None if score is None else format_score(score)


def _zcard(db: Keyspace, args: Args) -> Reply:
    return len(_zset(db, args[0]))


def _zcount(db: Keyspace, args: Args) -> Reply:
    limits = _Bounds.parse(args[1], args[2])
    return sum(map(limits.admit, _zset(db, args[0]).values()))


def _reply(found: list[tuple[float, bytes]], options: list[bytes]) -> Reply:
    if not options:
        return [member for _, member in found]
    if options != [b"WITHSCORES"]:
        raise ModelError(SYNTAX_ERROR)
    return [part for score, member in found for part in (member, format_score(score))]


def _zrange(db: Keyspace, args: Args) -> Reply:
    key, start, stop, *options = args
    first, last = integer(start), integer(stop)
    members = _zset(db, key).ranked()
    found = members[bounds(first, last, len(members))]
    return _reply(found, [option.upper() for option in options])


def _zrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high, *rest = args
    limits = _Bounds.parse(low, high)
    found = [pair for pair in _zset(db, key).ranked() if limits.admit(pair[0])]
    options = [option.upper() for option in rest]
    if options[-3:-1] == [b"LIMIT", b"0"]:
        *options, _, _, count = options
        found = found[: integer(count)]
    return _reply(found, options)


COMMANDS: Table = {
    b"EXISTS": at_least(1, _exists),
    b"DEL": at_least(1, _del),
    b"TYPE": exactly(1, _type),
    b"PEXPIRE": exactly(2, partial(_expire, absolute=False, command="pexpire")),
    b"PEXPIREAT": exactly(2, partial(_expire, absolute=True, command="pexpireat")),
    b"PTTL": exactly(1, _pttl),
    b"PERSIST": exactly(1, _persist),
    b"FLUSHALL": Command(_flushall, 0, 1),
    b"SCAN": at_least(1, _scan),
    b"TIME": exactly(0, _time),
    b"GET": exactly(1, _get),
    b"SET": at_least(2, _set),
    b"INCR": exactly(1, _incr),
    b"INCRBY": exactly(2, _incrby),
    b"DECR": exactly(1, _decr),
    b"DECRBY": exactly(2, _decrby),
    b"STRLEN": exactly(1, _strlen),
    b"HSET": at_least(3, _hset),
    b"HGET": exactly(2, _hget),
    b"HMGET": at_least(2, _hmget),
    b"HGETALL": exactly(1, _hgetall),
    b"HLEN": exactly(1, _hlen),
    b"HEXISTS": exactly(2, _hexists),
    b"HDEL": at_least(2, _hdel),
    b"RPUSH": at_least(2, _rpush),
    b"LPOP": exactly(1, _lpop),
    b"LINDEX": exactly(2, _lindex),
    b"LRANGE": exactly(3, _lrange),
    b"LREM": exactly(3, _lrem),
    b"LPOS": exactly(2, _lpos),
    b"ZADD": at_least(3, _zadd),
    b"ZREM": at_least(2, _zrem),
    b"ZREMRANGEBYSCORE": exactly(3, _zremrangebyscore),
    b"ZSCORE": exactly(2, _zscore),
    b"ZCARD": exactly(1, _zcard),
    b"ZCOUNT": exactly(3, _zcount),
    b"ZRANGE": at_least(3, _zrange),
    b"ZRANGEBYSCORE": at_least(3, _zrangebyscore),
}
