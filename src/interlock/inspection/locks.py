"""Ask servers what locks there are: who holds and awaits each key, without what cards tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import BY_TICKET
from interlock._core.locks.transfer import LEFT_MARK, TICKET_MARK
from interlock._core.model import names
from interlock._links.resp import ReplyError
from interlock.errors import ServerUnavailableError
from interlock.inspection.info import LEFT_LOCKED, ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.kinds import (
    KINDS,
    channel_of,
    queues_permits,
    recognize,
    seen,
)
from interlock.inspection.service import GONE, code_of, load, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.kinds import Sight
    from interlock.inspection.service import Call, Service

LOCK_INFO = load("lock_info")
DIGITS = 16
"""Of the largest number of permits, or count."""
LONGEST_MEMBER = 100
"""Characters of a member of a queue for permits: a client's id, and how many it wants."""
DEEPEST = 100
"""Entries of one reader that are looked at, at most."""
_NOBODY = {TICKET_MARK: BY_TICKET, LEFT_MARK: LEFT_LOCKED}
"""How client ids begin that no client has -> what such a hold is called."""


def look(
    service: Service, node: Endpoint, keys: Sequence[str], limit: int, apart: Sight | None = None
) -> list[LockInfo]:
    """Return those of *keys* that are locks.

    Args:
        service: the servers.
        node: has the keys.
        keys: any keys.
        limit: of the holders and waiters of each.
        apart: the kind that has *keys* beside those that are called like its objects.

    Raises:
        ServerUnavailableError: the server refused; but a key that has moved is passed over.
    """
    calls: list[Call] = [(_keys_of(key, apart), ()) for key in keys]
    replies = service.run(node, LOCK_INFO, limit, calls)
    _time_readers(service, node, keys, replies)
    found: list[LockInfo] = []
    for key, reply in zip(keys, replies, strict=True):
        if isinstance(reply, ReplyError):
            if code_of(reply) not in ("MOVED", "ASK", "TRYAGAIN"):
                raise ServerUnavailableError(f"{node.where} cannot be read: {reply}")
        elif reply is not None:
            info = lock_info_of(key, cast("list[Any]", reply))
            if not _is_forsaken(info):
                found.append(info)
    return found


def lock_info_of(key: str, reply: list[Any]) -> LockInfo:
    """Return the lock that `lock_info` told of."""
    told, left, count, holders, waiters, length, token, free = reply
    numbers = [count, length, *(each for each in (token, free) if each is not None)]
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"wanted numbers, found {str(numbers)[:100]}")
    answer = told.decode()
    kind, sight = recognize(key, answer, queued=length > 0, counted=token is not None)
    mode = answer if len(sight.answers) > 1 else ""
    parts = [holders[i : i + 3] for i in range(0, len(holders), 3)]
    queue = [(text_of(waiters[i]), waiters[i + 1]) for i in range(0, len(waiters), 2)]
    return LockInfo(
        name=sight.name_of(key),
        kind=kind,
        mode=mode,
        holders=tuple([_holder(part, sight, mode) for part in parts]),
        holder_count=count,
        remaining=_seconds(left),
        waiters=tuple(
            [WaiterInfo(each, _client_of(each), remaining=_seconds(left)) for each, left in queue]
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
    client = _client_of(holder)
    renewed = False if client.program else None
    return HolderInfo(holder, client, mode, int(depth), _seconds(left), renewed=renewed)


def _client_of(holder: str) -> ClientInfo:
    client_id = holder.partition(":")[0]
    return ClientInfo(client_id, program=_NOBODY.get(client_id.partition("-")[0], ""))


def _seconds(left: object) -> float | None:
    return cast("int", left) / 1000 if cast("int", left) >= 0 else None


def _time_readers(
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
    told = iter(service.ask(node, list(chain.from_iterable(asked))))
    left = [list(islice(told, len(each))) for each in asked]
    # From behind: a dead one is removed.
    for (_, reply, place), each in zip(reversed(readers), reversed(left), strict=True):
        # What is refused, or is moving just now, counts as alive as long as the lock.
        times = [one if isinstance(one, int) else cast("int", reply[1]) for one in each]
        longest = max(times, default=GONE)
        if longest == GONE:
            del reply[3][place : place + 3]
            reply[2] -= 1
        else:
            reply[3][place + 2] = longest


def _is_forsaken(info: LockInfo) -> bool:
    """Return whether nobody holds *info*, and its queue has only places that are over.

    The next one who acquires it removes them.
    """
    over = all(each.remaining is None for each in info.waiters)
    return info.queued and not info.holders and over


def key_of(info: LockInfo) -> str:
    """Return the key under which cards know *info*."""
    return KINDS[info.kind].key(info.name)


def _keys_of(key: str, apart: Sight | None) -> tuple[str, ...]:
    """Return the keys that `lock_info` looks at for *key*; it stands for those that there are not.

    A user may have no right to keys that no object has.
    """
    for each in seen().values() if apart is None else ():
        if each.apart and each.token is not None and each.name_of(key) != key:
            apart = each
    if apart is None:
        queue, places = names.fair_queue(key), names.fair_timeouts(key)
        return key, queue, places, names.fence_token(key), key
    name = apart.name_of(key)
    token = key if apart.token is None else apart.token(name)
    # The number of free permits is called like the semaphore.
    return key, key, key, token, name if apart.permits else key


def numbers() -> dict[str, Sight]:
    """Return the kinds that are a number in Redis, by name."""
    return {kind: sight for kind, sight in seen().items() if sight.type == "string"}


def as_number(info: LockInfo, wanted: frozenset[str]) -> LockInfo | None:
    """Return *info* if its kind is *wanted*; a number that nobody awaits may be of any such kind.

    None if it is not wanted.
    """
    alike = numbers()
    if info.kind in wanted or not wanted:
        return info
    known = alike.get(info.kind) is None or alike[info.kind].heard
    if known or info.waiting or info.total is not None:
        return None
    return next((replace(info, kind=kind) for kind in alike if kind in wanted), None)


def read_totals(
    service: Service, node: Endpoint, page: Sequence[LockInfo]
) -> dict[str, tuple[str, int]]:
    """Return the kind of each number in *page* that Python has set up, and what it set.

    Cost:
        A round trip if there is a number.
    """
    alike = numbers()
    asked = [
        (key_of(info), kind, sight.total(info.name))
        for info in page
        if info.kind in alike
        for kind, sight in alike.items()
        if sight.total is not None
    ]
    replies = service.ask(node, [("GET", total) for _, _, total in asked])
    return {
        key: (kind, int(number))
        for (key, kind, _), reply in zip(asked, replies, strict=True)
        # Another program may have put anything there.
        if isinstance(reply, bytes)
        # The epoch of a semaphore follows its number.
        and (number := reply.partition(b" ")[0]).isdigit()
        and len(number) <= DIGITS
    }


def listeners_of(
    service: Service, node: Endpoint, page: Sequence[LockInfo]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return how many clients listen for each key of *page*, and what that tells of its kind."""
    channels: dict[str, str] = {}
    twins: dict[str, str] = {}
    for info in page:
        if not info.queued:
            channels[channel_of(info.kind, info.name)] = key_of(info)
        alike = numbers()
        for kind in alike if info.kind in alike and not alike[info.kind].heard else ():
            if alike[kind].heard:
                channel = channel_of(kind, info.name)
                channels[channel], twins[channel] = info.name, kind
    if not channels or service.options.pubsub == "off":
        return {}, {}
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for channel, count in count_listeners(service, node, channels).items():
        key = channels.get(channel, "")
        counts[key] = counts.get(key, 0) + count
        if count and channel in twins:
            found[key] = twins[channel]
    return counts, found


def count_listeners(service: Service, node: Endpoint, channels: Iterable[str]) -> dict[str, int]:
    """Return how many clients listen to each of *channels*."""
    asking = "SHARDNUMSUB" if service.sharded else "NUMSUB"
    counts: dict[str, int] = {}
    # Plain channels of a cluster are counted by each node for its own clients.
    for each in [node] if service.sharded else service.nodes:
        [reply] = service.ask(each, [("PUBSUB", asking, *channels)])
        if isinstance(reply, ReplyError):
            raise ServerUnavailableError(f"{each.where} refused PUBSUB {asking}: {reply}")
        flat = cast("list[Any]", reply)
        for channel, count in zip(map(text_of, flat[::2]), map(int, flat[1::2]), strict=True):
            counts[channel] = counts.get(channel, 0) + count
    return counts


def permit_waiters(
    service: Service, node: Endpoint, awaited: Iterable[LockInfo], limit: int
) -> dict[str, tuple[WaiterInfo, ...]]:
    """Return by key the clients in the queues for the permits of *awaited*, at most *limit*.

    The first one that came is the first. Java has no place there, nor has a client without the
    right to the queue. A client that wants one permit, and also two, comes twice.

    Cost:
        Two round trips if *awaited* has a semaphore.
    """
    asked = {
        key_of(info): channel_of(info.kind, info.name)
        for info in awaited
        if queues_permits(info.kind)
    }
    if not asked:
        return {}
    commands = [
        ("ZRANGE", names.waiting_queue(each), 0, limit - 1, "WITHSCORES") for each in asked.values()
    ]
    time, *replies = service.ask(node, [("TIME",), *commands])
    seconds, micros = map(int, cast("list[bytes]", time))
    found: dict[str, list[tuple[str, WaiterInfo]]] = {}
    for (key, channel), reply in zip(asked.items(), replies, strict=True):
        # Another program may have put anything there.
        flat = [] if isinstance(reply, ReplyError) else cast("list[bytes]", reply)
        for member, came in zip(map(text_of, flat[::2]), map(float, flat[1::2]), strict=True):
            client_id = member.partition(":")[0]
            # A claim begins with "+". Its client has a place, or has been given its permits.
            if came > 0 and len(member) <= LONGEST_MEMBER:
                waited = max(seconds + micros / 1e6 - came / 1000, 0.0)
                waiter = WaiterInfo(member, ClientInfo(client_id), waited)
                found.setdefault(key, []).append((names.wake_channel(channel, client_id), waiter))
    # One that has died stands in the queue until its turn comes.
    channels = dict.fromkeys(wake for each in found.values() for wake, _ in each)
    heard = count_listeners(service, node, channels) if channels else {}
    return {
        key: tuple([waiter for wake, waiter in each if heard.get(wake)])
        for key, each in found.items()
    }


def read_beside(service: Service, name: str) -> dict[str, str]:
    """Return what there is of other objects called *name*, which have no holders: kind -> state.

    A semaphore or latch is told only by its number of all permits, or its first count. ``"key"`` is
    the type of a key of that name.

    Cost:
        A round trip, or two.
    """
    asked = {
        "event": ("GET", names.event_key(name)),
        "condition": ("EXISTS", names.condition_waiting(name)),
        "barrier": ("EXISTS", names.barrier_parties(name)),
        "semaphore": ("GET", names.semaphore_total(name)),
        "count_down_latch": ("GET", names.latch_total(name)),
    }
    node = service.owner(name)
    foreign, *replies = service.ask(node, [("TYPE", name), *asked.values()])
    found = {
        kind: text_of(reply).partition(" ")[0] if isinstance(reply, bytes) else str(reply)
        for kind, reply in zip(asked, replies, strict=True)
        if reply and not isinstance(reply, ReplyError)
    }
    if isinstance(foreign, bytes) and (kind := text_of(foreign)) != "none":
        found["key"] = kind
    if "event" not in found and service.options.pubsub != "off":
        # Before it is set for the first time, an event is only what its waiters listen to.
        heard = count_listeners(service, node, [names.event_channel(name)])
        if waiting := sum(heard.values()):
            found["event_waiters"] = str(waiting)
    return found
