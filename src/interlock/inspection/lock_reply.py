"""What the script `lock_info` answers, as `LockInfo`, and what keys mean."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import BY_TICKET
from interlock._core.kinds import KINDS, recognize, seen, sight_of
from interlock._core.locks.transfer import LEFT_MARK, TICKET_MARK
from interlock._core.model import names
from interlock.inspection.info import LEFT_LOCKED, ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.service import GONE, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from interlock._core.kinds import Named, Sight
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.service import Service

OURS = ("redisson_", "interlock_")
"""How keys begin that are no names of locks."""
READ_ENTRY = ":rwlock_timeout:"
"""What is within the keys of readers' entries."""
_NOBODY = {TICKET_MARK: BY_TICKET, LEFT_MARK: LEFT_LOCKED}
"""How client ids begin that no client has -> what such a hold is called."""
DEEPEST = 100
"""Entries of one reader that are looked at, at most."""


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
    client = _client(holder.partition(":")[0])
    renewed = False if client.program else None
    return HolderInfo(holder, client, mode, int(depth), _seconds(left), renewed=renewed)


def time_readers(
    service: Service, node: Endpoint, keys: Sequence[str], replies: Sequence[object]
) -> None:
    """Replace what *replies* tell of readers by what is left of them; the dead are left out."""
    readers: list[tuple[str, Any, int]] = [
        (key, reply, place)
        for key, reply in zip(keys, cast("Sequence[Any]", replies), strict=True)
        if reply.__class__ is list and reply[0] in (b"read", b"write")
        for place in range(0, len(reply[3]), 3)
        if not reply[3][place].endswith(b":write")
    ]
    asked = [
        [
            ("PTTL", names.read_entry(names.read_entries(key), text_of(reply[3][place]), n + 1))
            for n in range(min(reply[3][place + 1], DEEPEST))
        ]
        for key, reply, place in readers
    ]
    told = iter(service.ask(node, list(chain.from_iterable(asked))) if asked else ())
    # From behind: a dead one is removed.
    left = [list(islice(told, len(each))) for each in asked]
    for (_, reply, place), each in zip(reversed(readers), reversed(left), strict=True):
        # What is refused, or is moving just now, counts as alive as long as the lock.
        times = [one if isinstance(one, int) else cast("int", reply[1]) for one in each]
        longest = max(times, default=GONE)
        if longest == GONE:
            del reply[3][place : place + 3]
            reply[2] -= 1
        else:
            reply[3][place + 2] = longest


@lru_cache(maxsize=1024)
def _client(client_id: str) -> ClientInfo:
    begin = client_id.partition("-")[0]
    return ClientInfo(client_id, program=_NOBODY.get(begin, ""))


def key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return KINDS[info.kind].key(info.name)


def token_of(key: str) -> str:
    """Return where the fencing token of the lock with *key* is."""
    for sight, token in _apart_with_tokens():
        if (name := sight.name_of(key)) != key:
            return token(name)
    return names.fence_token(key)


@cache
def _apart_with_tokens() -> list[tuple[Sight, Named]]:
    """Return the kinds with fencing tokens whose key has another name than the object."""
    return [
        (sight, sight.token) for sight in seen().values() if sight.apart and sight.token is not None
    ]


def is_forsaken(info: LockInfo) -> bool:
    """Return whether nobody holds *info*, and its queue has only places that are over.

    The next one who acquires it removes them.
    """
    return (
        sight_of(info.kind).queue is not None
        and not info.holders
        and all(each.remaining is None for each in info.waiters)
    )


@cache
def numbers() -> Mapping[str, Sight]:
    """Return the kinds that are a number in Redis, by name."""
    return {kind: sight for kind, sight in seen().items() if sight.type == "string"}


def heard_kinds(sight: Sight) -> list[str]:
    """Return the kinds for which an object that looks like *sight* is taken if one listens."""
    alike = numbers()
    known = sight in alike.values() and not sight.heard
    return [kind for kind, other in alike.items() if other.heard and known]


def may_be(info: LockInfo, wanted: frozenset[str]) -> bool:
    """Return whether *info* may be of a kind that is *wanted*; none means all."""
    if not wanted or info.kind in wanted:
        return True
    alike = numbers()
    return info.kind in alike and not wanted.isdisjoint(alike)


def numbers_of(page: Iterable[LockInfo], wanted: frozenset[str]) -> Iterator[LockInfo]:
    """Yield the *wanted* ones of *page*; a number that nobody awaits may be of either kind."""
    alike = numbers()
    for info in page:
        if info.kind in wanted:
            yield info
        elif (
            info.kind in alike
            and not alike[info.kind].heard
            and not (info.waiting or info.total is not None)
        ):
            yield replace(info, kind=next(kind for kind in alike if kind in wanted))


def _seconds(left: object) -> float | None:
    return cast("int", left) / 1000 if cast("int", left) >= 0 else None


def is_text(key: bytes) -> bool:
    """Return whether *key* can be the name of a lock, which is UTF-8."""
    try:
        return bool(key.decode())
    except UnicodeDecodeError:
        return False
