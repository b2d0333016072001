"""What the invariants must know of each kind of lock, by `rules_of`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from interlock._core.locks.group_lock import GroupLock
from interlock._core.model import highway_hash, names
from tests.support.model.redis_model import Stored

if TYPE_CHECKING:
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.holds import CoreLock, Hold

Dump: TypeAlias = Mapping[str, Stored]
"""What a server stores, by key."""
Dumps: TypeAlias = Mapping[str, Dump]
"""What all servers store, by their names."""


def depth_in_hash(hold: Hold, dump: Dump) -> int:
    """Return how deep the server has *hold*, for locks that are a hash of depths by holder."""
    stored = dump.get(hold.key)
    if stored is None or not isinstance(stored.value, dict):
        return 0
    return int(stored.value.get(hold.holder.encode(), 0))


def one_holder(lock: LockBase, dump: Dump) -> str | None:
    """Return what is wrong with an exclusive lock that is a hash."""
    stored = dump.get(lock.key)
    if stored is not None and isinstance(stored.value, dict) and len(stored.value) > 1:
        return f"{len(stored.value)} holders"
    return None


def fair_queue(lock: LockBase, dump: Dump) -> str | None:
    """Return what is wrong with a fair lock: its holders, or who waits."""
    queue, timeouts = (dump.get(key) for key in sorted(places(lock)))
    waiting = [] if queue is None else list(queue.value)
    known: set[object] = set() if timeouts is None else set(timeouts.value)
    if len(waiting) != len(known) or set(waiting) != known:
        return f"waiting: {waiting}, with deadlines: {known}"
    return one_holder(lock, dump)


def places(lock: LockBase) -> frozenset[str]:
    """Return the keys that say who waits for a fair lock.

    In the order of their names, the list comes before the deadlines.
    """
    return frozenset({names.fair_queue(lock.key), names.fair_timeouts(lock.key)})


def depth_of_reader(hold: Hold, dump: Dump) -> int:
    """Return how deep the server has *hold* for reading; 0 if it has no living entry.

    A hold without one may be removed at any time.
    """
    entry = names.read_entry(names.read_entries(hold.key), hold.holder, 1)
    return depth_in_hash(hold, dump) if entry in dump else 0


def readers_or_writer(lock: LockBase, dump: Dump) -> str | None:
    """Return what is wrong with a read/write lock: who holds it, or a lease that outlasts it."""
    stored = dump.get(lock.key)
    if stored is None or not isinstance(stored.value, dict):
        return None
    holders = {field.decode() for field in stored.value} - {"mode"}
    writers = [holder for holder in holders if holder.endswith(":write")]
    if stored.value[b"mode"] != (b"write" if writers else b"read") or len(writers) > 1:
        return f"mode {stored.value[b'mode']!r} with {sorted(holders)}"
    if writers and len({holder.partition(":")[0] for holder in holders}) > 1:
        return f"others read while {writers} writes: {sorted(holders)}"
    prefix = names.read_entries(lock.key)
    entries = [dump.get(names.read_entry(prefix, reader, 1)) for reader in holders]
    longest = max((entry.ttl or 0 for entry in entries if entry), default=0)
    return "an entry outlasts it" if longest > (stored.ttl or 0) else None


def apart(one: Hold, other: Hold) -> bool:
    """Return whether two holds of a read/write lock exclude each other.

    They do if their owners differ and not both read.
    """
    both_read = one.core.kind == other.core.kind == "read lock"
    return not both_read and one.owner() is not other.owner()


def depth_in_group(hold: Hold, dump: Dump) -> int:
    """Return how deep the server has *hold* of a group lock: all of its values, in this depth."""
    stored = dump.get(hold.key)
    if stored is None or not isinstance(stored.value, dict) or not isinstance(hold.core, GroupLock):
        return 0
    found = stored.value
    fields = [highway_hash.field(value) for value in hold.core.values]
    if any(found.get(field.encode()) != hold.holder.encode() for field in fields):
        return 0
    return min(int(found[f"{field}:{hold.holder}:lock_count".encode()]) for field in fields)


def fields_of_values(lock: LockBase, dump: Dump) -> str | None:
    """Return what is wrong with a group lock.

    A value has a holder, a time and a depth, or nothing of it is there.
    """
    stored = dump.get(lock.key)
    if stored is None or not isinstance(stored.value, dict):
        return None
    fields = stored.value
    expected = {
        (field if part is None else f"{field.decode()}:{holder.decode()}:{part}".encode())
        for field, holder in fields.items()
        if b":" not in field and isinstance(holder, bytes)
        for part in (None, "expire_time", "lock_count")
    }
    return None if expected == fields.keys() else f"fields: {sorted(fields)}"


def _as_known(hold: Hold, dump: Dump) -> int:
    """Return the depth of one who waits: a look tells it that the server has it no more."""
    del dump
    return hold.depth


def _never(_one: Hold, _other: Hold) -> bool:
    return False


def _no_keys(_: LockBase) -> frozenset[str]:
    return frozenset()


def _kept_by_election(key: str) -> frozenset[str]:
    return frozenset({names.fence_token(key), names.beside("interlock_election_leader", key)})


@dataclass(frozen=True, slots=True)
class Rules:
    """What the invariants must know of one kind of lock.

    Attributes:
        depth: how deep the server has a hold; 0 when it does not.
        wrong: what is wrong with what the server stores, None when nothing is (I-01).
        exclude: whether two holds of one name by different owners may not be valid together (I-02).
        free: whether somebody who waits could have it now; None when that cannot be told from the
            keys (I-05).
        survivors: keys that have no TTL, or stay when nobody holds the lock (I-11, I-12).
    """

    depth: Callable[[Hold, Dump], int] = depth_in_hash
    wrong: Callable[[LockBase, Dump], str | None] = one_holder
    exclude: Callable[[Hold, Hold], bool] = lambda _one, _other: True
    free: Callable[[LockBase, Dump], bool] | None = lambda lock, dump: lock.key not in dump
    survivors: Callable[[LockBase], frozenset[str]] = _no_keys


RULES: dict[str, Rules] = {
    "lock": Rules(),
    "spin lock": Rules(free=None),
    # A dead waiter stays in the queue until somebody asks again. Each waiter has its own channel.
    "fair lock": Rules(wrong=fair_queue, free=None, survivors=places),
    "group lock": Rules(depth_in_group, fields_of_values),
    "read lock": Rules(depth_of_reader, readers_or_writer, apart),
    "write lock": Rules(wrong=readers_or_writer, exclude=apart),
    "fenced lock": Rules(survivors=lambda lock: frozenset({names.fence_token(lock.key)})),
    # A party or a waiter owns nothing. The tests of both count how many go on.
    "barrier": Rules(_as_known, exclude=_never),
    "condition": Rules(_as_known, exclude=_never),
    "election": Rules(survivors=lambda lock: _kept_by_election(lock.key)),
}
"""The rules of each kind."""


def rules_of(lock: CoreLock | type[LockBase]) -> Rules:
    """Return the rules of *lock*, or of a class of locks; KeyError: `RULES` does not know it."""
    return RULES[lock.kind]
