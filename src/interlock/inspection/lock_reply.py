"""What the script `lock_info` answers, as `LockInfo`, and what keys mean."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from interlock._core.kinds import KINDS, recognize, seen, sight_of
from interlock._core.model import names
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.service import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock._core.kinds import Sight

OURS = ("redisson_", "interlock_")
"""How keys begin that are no names of locks."""
READ_ENTRY = ":rwlock_timeout:"
"""What is within the keys of readers' entries."""


def lock_info_of(key: str, reply: list[Any]) -> LockInfo:
    """Return the lock that `lock_info` told of."""
    told, left, count, holders, waiters, length, token, free = reply
    numbers = [count, length, *(each for each in (token, free) if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    answer = told.decode()
    kind, sight = recognize(key, answer, queued=length > 0, counted=token is not None)
    mode = answer if len(sight.answers) > 1 else ""
    return LockInfo(
        name=sight.name_of(key),
        kind=kind,
        mode=mode,
        holders=tuple(
            [_holder(holders[i : i + 3], sight, mode) for i in range(0, len(holders), 3)]
        ),
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


def _holder(part: Sequence[Any], sight: Sight, mode: str) -> HolderInfo:
    name, depth, left = part
    if sight.permits:
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
    return KINDS[info.kind].key(info.name)


def token_of(key: str) -> str:
    """Return where the fencing token of the lock with *key* is."""
    for sight in seen().values():
        if sight.apart and sight.token is not None and (name := sight.name_of(key)) != key:
            return sight.token(name)
    return names.fence_token(key)


def is_forsaken(info: LockInfo) -> bool:
    """Return whether nobody holds *info*, and its queue has only places that are over.

    The next one who acquires it removes them.
    """
    return (
        sight_of(info.kind).queue is not None
        and not info.holders
        and all(each.remaining is None for each in info.waiters)
    )


def numbers() -> dict[str, Sight]:
    """Return the kinds that are a number in Redis, by name."""
    return {kind: sight for kind, sight in seen().items() if sight.type == "string"}


def heard_kinds(sight: Sight) -> list[str]:
    """Return the kinds for which an object that looks like *sight* is taken if one listens."""
    alike = numbers()
    known = sight in alike.values() and not sight.heard
    return [kind for kind, other in alike.items() if other.heard and known]


def may_be(info: LockInfo, wanted: frozenset[str]) -> bool:
    """Return whether *info* may be of a kind that is *wanted*; none means all."""
    alike = numbers()
    return (
        not wanted or info.kind in wanted or (info.kind in alike and not wanted.isdisjoint(alike))
    )


def numbers_of(page: Iterable[LockInfo], wanted: frozenset[str]) -> Iterator[LockInfo]:
    """Yield the *wanted* ones of *page*; a number that nobody awaits may be of either kind."""
    alike = numbers()
    for info in page:
        if info.kind in wanted:
            yield info
        elif info.kind in alike and not alike[info.kind].heard and not info.waiting:
            yield replace(info, kind=next(kind for kind in alike if kind in wanted))


def _seconds(left: object) -> float | None:
    return cast("int", left) / 1000 if cast("int", left) >= 0 else None


def is_text(key: bytes) -> bool:
    """Return whether *key* can be the name of a lock, which is UTF-8."""
    with suppress(UnicodeDecodeError):
        return bool(key.decode())
    return False
