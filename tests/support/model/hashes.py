"""Commands on hashes."""

from __future__ import annotations

from tests.support.model.keyspace import (
    Args,
    Hash,
    Keyspace,
    Reply,
    Table,
    at_least,
    exactly,
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


COMMANDS: Table = {
    b"HSET": at_least(3, _hset),
    b"HGET": exactly(2, _hget),
    b"HMGET": at_least(2, _hmget),
    b"HGETALL": exactly(1, _hgetall),
    b"HLEN": exactly(1, _hlen),
    b"HEXISTS": exactly(2, _hexists),
    b"HDEL": at_least(2, _hdel),
}
