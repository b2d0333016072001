"""The commands that scripts of the library call: on keys of any type, and of each type.

What no script says is not here: a number that is none, for example, or one argument too many, is an
error of Python's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.model.keyspace import (
    OK,
    Args,
    Hash,
    Keyspace,
    List,
    ModelError,
    Reply,
    ZSet,
    format_score,
    pairs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# On keys of any type.


def _exists(db: Keyspace, args: Args) -> Reply:
    return sum(db.entry(key) is not None for key in args)


def _del(db: Keyspace, args: Args) -> Reply:
    return sum(map(db.remove, args))


def _pexpire(db: Keyspace, args: Args) -> Reply:
    key, amount = args
    when, entry = db.now_ms + int(amount), db.entry(key)
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
        case [b"PX", amount]:
            if int(amount) <= 0:
                raise ModelError("ERR invalid expire time in 'set' command")
            expires = db.now_ms + int(amount)
        case _:
            raise ModelError("ERR syntax error")
    db.put(key, text).expires = expires
    return OK


def _add(db: Keyspace, key: bytes, amount: int) -> Reply:
    present = db.find(key, bytes)
    total = amount + (0 if present is None else int(present))
    entry = db.entry(key) or db.put(key, b"")
    entry.value = b"%d" % total
    return total


def _incrby(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], int(args[1]))


def _decr(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], -1)


def _decrby(db: Keyspace, args: Args) -> Reply:
    return _add(db, args[0], -int(args[1]))


def _strlen(db: Keyspace, args: Args) -> Reply:
    return len(db.find(args[0], bytes) or b"")


# On hashes.


def _hash(db: Keyspace, key: bytes) -> Hash:
    return db.find(key, Hash) or Hash()


def _hset(db: Keyspace, args: Args) -> Reply:
    key, *fields = args
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
    return db.take(args[0], Hash, args[1:])


# On lists.


def _list(db: Keyspace, key: bytes) -> List:
    return db.find(key, List) or List()


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
    stored, index = _list(db, args[0]), int(args[1])
    return stored[index] if -len(stored) <= index < len(stored) else None


def _lrange(db: Keyspace, args: Args) -> Reply:
    start, stop = int(args[1]), int(args[2])
    stored = _list(db, args[0])
    return [*stored[bounds(start, stop, len(stored))]]


def bounds(start: int, stop: int, length: int) -> slice:
    """Return the slice for an inclusive range whose negative ends count from the end."""
    first = max(0, start + length if start < 0 else start)
    last = stop + length if stop < 0 else stop
    return slice(first, max(first, last + 1))


def _lrem(db: Keyspace, args: Args) -> Reply:
    key, amount, item = args
    count, stored = int(amount), db.find(key, List)
    if stored is None:
        return 0
    found = [index for index, present in enumerate(stored) if present == item]
    found = found[:count] if count > 0 else found[count:]
    for index in reversed(found):
        del stored[index]
    db.drop_if_empty(key, stored)
    return len(found)


def _lpos(db: Keyspace, args: Args) -> Reply:
    key, item = args
    stored = _list(db, key)
    return stored.index(item) if item in stored else None


# On sorted sets.


def _zset(db: Keyspace, key: bytes) -> ZSet:
    return db.find(key, ZSet) or ZSet()


def _between(low: bytes, high: bytes) -> Callable[[float], bool]:
    """Return whether a score is between two bounds, of which a bracket opens one."""
    least, most = float(low.removeprefix(b"(")), float(high.removeprefix(b"("))

    def admits(score: float) -> bool:
        above = score > least if low.startswith(b"(") else score >= least
        return above and (score < most if high.startswith(b"(") else score <= most)

    return admits


def _zadd(db: Keyspace, args: Args) -> Reply:
    key, *rest = args
    flag = rest.pop(0).upper() if rest[0].upper() in (b"NX", b"XX", b"GT") else b""
    scores = [(float(score), member) for score, member in pairs(rest)]
    stored = _zset(db, key)
    added = 0
    for given, member in scores:
        before = stored.get(member)
        if flag == (b"XX" if before is None else b"NX"):
            continue
        if flag == b"GT" and before is not None and given <= before:
            continue
        stored[member] = given + 0.0  # a small sorted set keeps a score of -0 as 0
        added += before is None
    if added and added == len(stored):
        db.put(key, stored)
    return added


def _zrem(db: Keyspace, args: Args) -> Reply:
    return db.take(args[0], ZSet, args[1:])


def _zremrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high = args
    admits = _between(low, high)
    return db.take(key, ZSet, [each for each, score in _zset(db, key).items() if admits(score)])


def _zscore(db: Keyspace, args: Args) -> Reply:
    score = _zset(db, args[0]).get(args[1])
    return None if score is None else format_score(score)


def _zcard(db: Keyspace, args: Args) -> Reply:
    return len(_zset(db, args[0]))


def _zcount(db: Keyspace, args: Args) -> Reply:
    return sum(map(_between(args[1], args[2]), _zset(db, args[0]).values()))


def _reply(found: list[tuple[float, bytes]], options: list[bytes]) -> Reply:
    if not options:
        return [member for _, member in found]
    if options != [b"WITHSCORES"]:
        raise ModelError("ERR syntax error")
    return [part for score, member in found for part in (member, format_score(score))]


def _zrange(db: Keyspace, args: Args) -> Reply:
    key, start, stop, *options = args
    first, last = int(start), int(stop)
    members = _zset(db, key).ranked()
    found = members[bounds(first, last, len(members))]
    return _reply(found, [option.upper() for option in options])


def _zrangebyscore(db: Keyspace, args: Args) -> Reply:
    key, low, high, *rest = args
    admits = _between(low, high)
    found = [pair for pair in _zset(db, key).ranked() if admits(pair[0])]
    options = [option.upper() for option in rest]
    if options[-3:-1] == [b"LIMIT", b"0"]:
        *options, _, _, count = options
        found = found[: int(count)]
    return _reply(found, options)


COMMANDS: dict[bytes, Callable[[Keyspace, Args], Reply]] = {
    b"EXISTS": _exists,
    b"DEL": _del,
    b"PEXPIRE": _pexpire,
    b"PTTL": _pttl,
    b"TIME": _time,
    b"GET": _get,
    b"SET": _set,
    b"INCRBY": _incrby,
    b"DECR": _decr,
    b"DECRBY": _decrby,
    b"STRLEN": _strlen,
    b"HSET": _hset,
    b"HGET": _hget,
    b"HMGET": _hmget,
    b"HGETALL": _hgetall,
    b"HLEN": _hlen,
    b"HEXISTS": _hexists,
    b"HDEL": _hdel,
    b"RPUSH": _rpush,
    b"LPOP": _lpop,
    b"LINDEX": _lindex,
    b"LRANGE": _lrange,
    b"LREM": _lrem,
    b"LPOS": _lpos,
    b"ZADD": _zadd,
    b"ZREM": _zrem,
    b"ZREMRANGEBYSCORE": _zremrangebyscore,
    b"ZSCORE": _zscore,
    b"ZCARD": _zcard,
    b"ZCOUNT": _zcount,
    b"ZRANGE": _zrange,
    b"ZRANGEBYSCORE": _zrangebyscore,
}
