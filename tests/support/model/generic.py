"""Commands on keys of any type: existence, deadlines, names; and the time."""

from __future__ import annotations

import re
from functools import partial

from tests.support.model.keyspace import (
    MAX_INT,
    OK,
    SYNTAX_ERROR,
    TYPE_NAMES,
    Args,
    Command,
    Keyspace,
    ModelError,
    Reply,
    Status,
    Table,
    at_least,
    exactly,
    integer,
    pairs,
    printable,
)


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
}
