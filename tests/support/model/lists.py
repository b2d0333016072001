"""Commands on lists."""

from __future__ import annotations

from tests.support.model.keyspace import (
    Args,
    Keyspace,
    List,
    Reply,
    Table,
    at_least,
    exactly,
    integer,
)


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


COMMANDS: Table = {
    b"RPUSH": at_least(2, _rpush),
    b"LPOP": exactly(1, _lpop),
    b"LINDEX": exactly(2, _lindex),
    b"LRANGE": exactly(3, _lrange),
    b"LREM": exactly(3, _lrem),
    b"LPOS": exactly(2, _lpos),
}
