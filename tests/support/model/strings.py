"""Commands on strings, counters among them."""

from __future__ import annotations

from tests.support.model.keyspace import (
    MAX_INT,
    MIN_INT,
    OK,
    SYNTAX_ERROR,
    Args,
    Keyspace,
    ModelError,
    Reply,
    Table,
    at_least,
    exactly,
    integer,
)


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


COMMANDS: Table = {
    b"GET": exactly(1, _get),
    b"SET": at_least(2, _set),
    b"INCR": exactly(1, _incr),
    b"INCRBY": exactly(2, _incrby),
    b"DECR": exactly(1, _decr),
    b"DECRBY": exactly(2, _decrby),
    b"STRLEN": exactly(1, _strlen),
}
