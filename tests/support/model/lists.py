"""Commands on lists."""

from __future__ import annotations

from functools import partial

from tests.support.model.keyspace import (
    SYNTAX_ERROR,
    Args,
    Command,
    Keyspace,
    List,
    ModelError,
    Reply,
    Table,
    at_least,
    exactly,
    integer,
    pairs,
)

_RANK_ZERO = (
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
    "or use negative to start from the end of the list"
)


def _push(db: Keyspace, args: Args, *, left: bool) -> Reply:
    key, *items = args
    stored = db.make(key, List)
    if left:
        stored[:0] = reversed(items)
    else:
        stored.extend(items)
    return len(stored)


def _pop(db: Keyspace, args: Args, *, left: bool) -> Reply:
    key, *amount = args
    count = _positive(amount[0]) if amount else 1
    stored = db.find(key, List)
    if stored is None:
        return None
    taken = [stored.pop(0 if left else -1) for _ in range(min(count, len(stored)))]
    db.drop_if_empty(key, stored)
    return [*taken] if amount else taken[0]


def _positive(text: bytes) -> int:
    value = integer(text, "ERR value is out of range, must be positive")
    if value < 0:
        raise ModelError("ERR value is out of range, must be positive")
    return value


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


def _llen(db: Keyspace, args: Args) -> Reply:
    return len(db.find(args[0], List) or ())


def _lpos(db: Keyspace, args: Args) -> Reply:
    key, item, *options = args
    if len(options) % 2:
        raise ModelError(SYNTAX_ERROR)
    rank, count, longest = 1, None, 0
    for name, text in pairs(options):
        option = name.upper()
        if option == b"RANK":
            rank = _rank(text)
        elif option == b"COUNT":
            count = _not_negative(text, "COUNT")
        elif option == b"MAXLEN":
            longest = _not_negative(text, "MAXLEN")
        else:
            raise ModelError(SYNTAX_ERROR)
    stored = db.find(key, List) or List()
    order = range(len(stored)) if rank > 0 else range(len(stored) - 1, -1, -1)
    looked_at = order[:longest] if longest else order
    found = [index for index in looked_at if stored[index] == item][abs(rank) - 1 :]
    if count is None:
        return found[0] if found else None
    return [*(found[:count] if count else found)]


def _rank(text: bytes) -> int:
    rank = integer(text)
    if rank == 0:
        raise ModelError(_RANK_ZERO)
    return rank


def _not_negative(text: bytes, name: str) -> int:
    value = integer(text, f"ERR {name} can't be negative")
    if value < 0:
        raise ModelError(f"ERR {name} can't be negative")
    return value


COMMANDS: Table = {
    b"LPUSH": at_least(2, partial(_push, left=True)),
    b"RPUSH": at_least(2, partial(_push, left=False)),
    b"LPOP": Command(partial(_pop, left=True), 1, 2),
    b"RPOP": Command(partial(_pop, left=False), 1, 2),
    b"LINDEX": exactly(2, _lindex),
    b"LRANGE": exactly(3, _lrange),
    b"LREM": exactly(3, _lrem),
    b"LLEN": exactly(1, _llen),
    b"LPOS": at_least(2, _lpos),
}
