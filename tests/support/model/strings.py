"""Commands on strings, counters among them."""

from __future__ import annotations

from functools import partial

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

# Milliseconds per unit, and whether the number is a time rather than a duration.
_EXPIRY = {b"EX": (1000, False), b"PX": (1, False), b"EXAT": (1000, True), b"PXAT": (1, True)}


def _get(db: Keyspace, args: Args) -> Reply:
    return db.find(args[0], bytes)


def _set(db: Keyspace, args: Args) -> Reply:
    key, text, *options = args
    flags: set[bytes] = set()
    unit, amount = b"", b""
    rest = iter(options)
    for word in rest:
        option = word.upper()
        if option in (b"NX", b"XX", b"GET", b"KEEPTTL"):
            flags.add(option)
        elif option in _EXPIRY and unit in (b"", option):
            value = next(rest, None)
            if value is None:
                raise ModelError(SYNTAX_ERROR)
            unit, amount = option, value
        else:
            raise ModelError(SYNTAX_ERROR)
    if {b"NX", b"XX"} <= flags or (unit and b"KEEPTTL" in flags):
        raise ModelError(SYNTAX_ERROR)
    expires = _deadline(db, amount, unit, "set") if unit else None
    former = db.find(key, bytes) if b"GET" in flags else None
    entry = db.entry(key)
    if (b"NX" in flags and entry is not None) or (b"XX" in flags and entry is None):
        return former
    if entry is not None and b"KEEPTTL" in flags:
        expires = entry.expires
    db.put(key, text).expires = expires
    return former if b"GET" in flags else OK


def _deadline(db: Keyspace, amount: bytes, unit: bytes, command: str) -> int:
    factor, absolute = _EXPIRY[unit]
    given = integer(amount)
    milliseconds = given * factor + (0 if absolute else db.now_ms)
    if given <= 0 or milliseconds > MAX_INT:
        raise ModelError(f"ERR invalid expire time in '{command}' command")
    return milliseconds


def _setnx(db: Keyspace, args: Args) -> Reply:
    key, text = args
    if db.entry(key) is not None:
        return 0
    db.put(key, text)
    return 1


def _set_with_ttl(db: Keyspace, args: Args, *, unit: bytes, command: str) -> Reply:
    key, amount, text = args
    expires = _deadline(db, amount, unit, command)
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


def _append(db: Keyspace, args: Args) -> Reply:
    key, tail = args
    text = (db.find(key, bytes) or b"") + tail
    db.update(key, text)
    return len(text)


def _strlen(db: Keyspace, args: Args) -> Reply:
    return len(db.find(args[0], bytes) or b"")


COMMANDS: Table = {
    b"GET": exactly(1, _get),
    b"SET": at_least(2, _set),
    b"SETNX": exactly(2, _setnx),
    b"SETEX": exactly(3, partial(_set_with_ttl, unit=b"EX", command="setex")),
    b"PSETEX": exactly(3, partial(_set_with_ttl, unit=b"PX", command="psetex")),
    b"INCR": exactly(1, _incr),
    b"INCRBY": exactly(2, _incrby),
    b"DECR": exactly(1, _decr),
    b"DECRBY": exactly(2, _decrby),
    b"APPEND": exactly(2, _append),
    b"STRLEN": exactly(1, _strlen),
}
