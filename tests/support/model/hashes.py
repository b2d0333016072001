"""Commands on hashes."""

from __future__ import annotations

from tests.support.model.keyspace import (
    MAX_INT,
    MIN_INT,
    Args,
    Hash,
    Keyspace,
    ModelError,
    Reply,
    Table,
    at_least,
    exactly,
    integer,
    pairs,
    wrong_arguments,
)


def _read(db: Keyspace, key: bytes) -> Hash:
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
    return _read(db, args[0]).get(args[1])


def _hmget(db: Keyspace, args: Args) -> Reply:
    stored = _read(db, args[0])
    return [stored.get(field) for field in args[1:]]


def _hgetall(db: Keyspace, args: Args) -> Reply:
    return [part for pair in _read(db, args[0]).items() for part in pair]


def _hkeys(db: Keyspace, args: Args) -> Reply:
    return list(_read(db, args[0]))


def _hlen(db: Keyspace, args: Args) -> Reply:
    return len(_read(db, args[0]))


def _hexists(db: Keyspace, args: Args) -> Reply:
    return int(args[1] in _read(db, args[0]))


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


def _hincrby(db: Keyspace, args: Args) -> Reply:
    key, field, text = args
    amount = integer(text)
    stored = db.make(key, Hash)
    total = integer(stored.get(field, b"0"), "ERR hash value is not an integer") + amount
    if not MIN_INT <= total <= MAX_INT:
        raise ModelError("ERR increment or decrement would overflow")
    stored[field] = b"%d" % total
    return total


COMMANDS: Table = {
    b"HSET": at_least(3, _hset),
    b"HGET": exactly(2, _hget),
    b"HMGET": at_least(2, _hmget),
    b"HGETALL": exactly(1, _hgetall),
    b"HKEYS": exactly(1, _hkeys),
    b"HLEN": exactly(1, _hlen),
    b"HEXISTS": exactly(2, _hexists),
    b"HDEL": at_least(2, _hdel),
    b"HINCRBY": exactly(3, _hincrby),
}
