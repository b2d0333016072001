"""What the script `lock_info` answers, as `LockInfo`, and what keys mean."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from interlock._core.model import names
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.service import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KINDS = (
    "lock",
    "fair_lock",
    "fenced_lock",
    "read_write_lock",
    "group_lock",
    "leased_semaphore",
    "semaphore",
    "count_down_latch",
    "election",
)
"""What `LockInfo.kind` may be."""
OURS = ("redisson_", "interlock_")
"""How keys begin that are no names of locks."""
NUMBERS = frozenset({"semaphore", "count_down_latch"})
"""Kinds that are a number in Redis."""
ELECTION = "interlock_election:"
"""How the keys of elections begin."""
LEASES = ":timeout"
"""How the keys of permits' leases end."""
QUEUE = "redisson_lock_queue:"
"""How the keys of the queues of fair locks begin."""
READ_ENTRY = ":rwlock_timeout:"
"""What is within the keys of readers' entries."""


def lock_info_of(key: str, reply: list[Any]) -> LockInfo:
    """Return the lock that `lock_info` told of."""
    told, left, count, holders, waiters, length, token, free = reply
    numbers = [count, length, *(each for each in (token, free) if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    kind, mode, name = told.decode(), "", key
    if key.startswith(ELECTION):
        kind, name = "election", election_of(key)
    elif kind in ("read", "write"):
        kind, mode = "read_write_lock", kind
    elif kind == "group":
        kind = "group_lock"
    elif kind == "leased":
        kind, name = "leased_semaphore", semaphore_of(key)
    elif kind == "number":
        kind = "semaphore"
    elif length:
        kind = "fair_lock"
    elif token is not None:
        kind = "fenced_lock"
    return LockInfo(
        name=name,
        kind=kind,
        mode=mode,
        holders=tuple([_holder(holders[i : i + 3], kind, mode) for i in range(0, len(holders), 3)]),
        holder_count=count,
        remaining=_seconds(left),
        waiters=tuple(
            [
                WaiterInfo(
                    text_of(waiters[i]),
                    _client(text_of(waiters[i]).partition(":")[0]),
                    remaining=_seconds(waiters[i + 1]),
                )
                for i in range(0, len(waiters), 2)
            ]
        ),
        waiting=length,
        free=free,
        token=token,
    )


def _holder(part: Sequence[Any], kind: str, mode: str) -> HolderInfo:
    name, depth, left = part
    if kind == "leased_semaphore":
        return HolderInfo(name.hex(), ClientInfo(""), remaining=_seconds(left))
    holder = text_of(name)
    if mode:
        mode = "write" if holder.endswith(":write") else "read"
    return HolderInfo(holder, _client(holder.partition(":")[0]), mode, int(depth), _seconds(left))


@lru_cache(maxsize=1024)
def _client(client_id: str) -> ClientInfo:
    return ClientInfo(client_id)


def key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return names.election_key(info.name) if info.kind == "election" else info.name


def is_forsaken(info: LockInfo) -> bool:
    """Return whether nobody holds *info*, and its queue has only places that are over.

    The next one who acquires it removes them.
    """
    return (
        info.kind == "fair_lock"
        and not info.holders
        and all(each.remaining is None for each in info.waiters)
    )


def may_be(info: LockInfo, wanted: frozenset[str]) -> bool:
    """Return whether *info* may be of a kind that is *wanted*; none means all."""
    return (
        not wanted or info.kind in wanted or (info.kind == "semaphore" and bool(wanted & NUMBERS))
    )


def numbers_of(page: Iterable[LockInfo], wanted: frozenset[str]) -> Iterator[LockInfo]:
    """Yield the *wanted* ones of *page*; a number that nobody awaits may be of either kind."""
    for info in page:
        unknown = info.kind == "semaphore" and not info.waiting
        if info.kind in wanted:
            yield info
        elif unknown:
            yield replace(info, kind="count_down_latch")


def channel_of(info: LockInfo) -> str:
    """Return the channel of the releases of *info*."""
    if info.kind == "election":
        return names.election_channel(info.name)
    if info.kind == "read_write_lock":
        return names.read_write_channel(info.name)
    if info.kind in ("leased_semaphore", "semaphore"):
        return names.semaphore_channel(info.name)
    return names.lock_channel(info.name)


def queued_of(key: str) -> str:
    """Return the name of the fair lock whose queue is in *key*."""
    return _within_braces(key.removeprefix(QUEUE))


def election_of(key: str) -> str:
    """Return the name of the election whose leader is in *key*."""
    return _within_braces(key.removeprefix(ELECTION))


def _within_braces(name: str) -> str:
    """Return *name* without the braces that `names.prefix_name` has put around it."""
    return name[1:-1] if names.shares_channels(name) else name


def semaphore_of(key: str) -> str:
    """Return the name of the leased semaphore whose leases are in *key*."""
    name = key.removesuffix(LEASES)
    inner = name[1:-1]
    braced = name.startswith("{") and name.endswith("}") and "{" not in inner
    return inner if braced else name


def _seconds(left: object) -> float | None:
    return cast("int", left) / 1000 if cast("int", left) >= 0 else None


def is_text(key: bytes) -> bool:
    """Return whether *key* can be the name of a lock, which is UTF-8."""
    with suppress(UnicodeDecodeError):
        return bool(key.decode())
    return False
