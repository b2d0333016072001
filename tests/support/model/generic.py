"""Commands on keys of any type: existence, deadlines, names; and the time."""

from __future__ import annotations

import re
from functools import partial

from tests.support.model.keyspace import (
    MAX_INT,
    MIN_INT,
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

_NX_WITH_OTHERS = "ERR NX and XX, GT or LT options at the same time are not compatible"
_GT_WITH_LT = "ERR GT and LT options at the same time are not compatible"


def _exists(db: Keyspace, args: Args) -> Reply:
    return sum(db.entry(key) is not None for key in args)


def _del(db: Keyspace, args: Args) -> Reply:
    return sum(map(db.remove, args))


def _type(db: Keyspace, args: Args) -> Reply:
    entry = db.entry(args[0])
    return Status(b"none" if entry is None else TYPE_NAMES[type(entry.value)].encode())


def _expire(db: Keyspace, args: Args, *, unit: int, absolute: bool, command: str) -> Reply:
    key, amount, *options = args
    flags = {option.upper() for option in options}
    for option in options:
        if option.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise ModelError(f"ERR Unsupported option {printable(option)}")
    if b"NX" in flags and len(flags) > 1:
        raise ModelError(_NX_WITH_OTHERS)
    if {b"GT", b"LT"} <= flags:
        raise ModelError(_GT_WITH_LT)
    when = integer(amount) * unit
    base = 0 if absolute else db.now_ms
    if not MIN_INT <= when <= MAX_INT - base:
        raise ModelError(f"ERR invalid expire time in '{command}' command")
    when += base
    entry = db.entry(key)
    if entry is None or not _may_expire(flags, entry.expires, when):
        return 0
    if when <= db.now_ms:
        db.remove(key)
    else:
        entry.expires = when
    return 1


def _may_expire(flags: set[bytes], present: int | None, when: int) -> bool:
    # A key without a deadline counts as one that expires infinitely late.
    if present is None:
        return not flags & {b"XX", b"GT"}
    if b"NX" in flags or (b"GT" in flags and when <= present):
        return False
    return not (b"LT" in flags and when >= present)


def _pttl(db: Keyspace, args: Args) -> int:
    entry = db.entry(args[0])
    if entry is None:
        return -2
    return -1 if entry.expires is None else entry.expires - db.now_ms


def _ttl(db: Keyspace, args: Args) -> Reply:
    left = _pttl(db, args)
    return left if left < 0 else (left + 500) // 1000


def _persist(db: Keyspace, args: Args) -> Reply:
    entry = db.entry(args[0])
    if entry is None or entry.expires is None:
        return 0
    entry.expires = None
    return 1


def _rename(db: Keyspace, args: Args) -> Reply:
    source, target = args
    if db.entry(source) is None:
        raise ModelError("ERR no such key")
    db.rename(source, target)
    return OK


def _dbsize(db: Keyspace, _args: Args) -> Reply:
    return sum(1 for _ in db.items())


def _flushall(db: Keyspace, args: Args) -> Reply:
    if args and args[0].upper() not in (b"SYNC", b"ASYNC"):
        raise ModelError(SYNTAX_ERROR)
    db.clear()
    return OK


def _keys(db: Keyspace, args: Args) -> Reply:
    pattern = _glob(args[0])
    return [key for key, _ in db.items() if pattern.fullmatch(key)]


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


_GLOB = re.compile(
    rb"\\(?P<plain>.)|(?P<star>\*)|(?P<any>\?)|\[(?P<set>(?:\\.|[^\]])*)\]?", re.DOTALL
)


def _glob(pattern: bytes) -> re.Pattern[bytes]:
    """Translate a pattern of KEYS into a regular expression."""
    parts: list[bytes] = []
    end = 0
    for token in _GLOB.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        end = token.end()
        if token["plain"] is not None:
            parts.append(re.escape(token["plain"]))
        elif token["star"]:
            parts.append(b".*")
        elif token["any"]:
            parts.append(b".")
        else:
            parts.append(_glob_set(token["set"]))
    parts.append(re.escape(pattern[end:]))
    return re.compile(b"".join(parts), re.DOTALL)


def _glob_set(inner: bytes) -> bytes:
    negated = inner.startswith(b"^")
    if not inner[negated:]:
        return b"." if negated else b"(?!)"
    # Redis escapes with a backslash and has ranges, as regular expressions do; "[" means itself.
    members = inner[negated:].replace(b"[", rb"\[")
    return b"[" + b"^" * negated + members + b"]"


def _time(db: Keyspace, _args: Args) -> Reply:
    seconds, microseconds = divmod(db.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % microseconds]


COMMANDS: Table = {
    b"EXISTS": at_least(1, _exists),
    b"DEL": at_least(1, _del),
    b"UNLINK": at_least(1, _del),
    b"TYPE": exactly(1, _type),
    b"EXPIRE": at_least(2, partial(_expire, unit=1000, absolute=False, command="expire")),
    b"PEXPIRE": at_least(2, partial(_expire, unit=1, absolute=False, command="pexpire")),
    b"EXPIREAT": at_least(2, partial(_expire, unit=1000, absolute=True, command="expireat")),
    b"PEXPIREAT": at_least(2, partial(_expire, unit=1, absolute=True, command="pexpireat")),
    b"TTL": exactly(1, _ttl),
    b"PTTL": exactly(1, _pttl),
    b"PERSIST": exactly(1, _persist),
    b"RENAME": exactly(2, _rename),
    b"DBSIZE": exactly(0, _dbsize),
    b"FLUSHALL": Command(_flushall, 0, 1),
    b"KEYS": exactly(1, _keys),
    b"SCAN": at_least(1, _scan),
    b"TIME": exactly(0, _time),
}
