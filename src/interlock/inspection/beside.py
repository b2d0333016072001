"""Read what stands beside the keys of objects: first numbers, and objects that nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model import names
from interlock._links.resp import ReplyError
from interlock.inspection.listeners import count_listeners
from interlock.inspection.lock_reply import key_of, numbers
from interlock.inspection.service import code_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import LockInfo
    from interlock.inspection.service import Service

DIGITS = 16
"""Of the largest number of permits, or count."""


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
    replies = service.ask(node, [("GET", total) for _, _, total in asked]) if asked else ()
    return {
        key: (kind, int(number))
        for (key, kind, _), reply in zip(asked, replies, strict=True)
        # The user may lack the right, and another program may have put anything there.
        if isinstance(reply, bytes)
        # The epoch of a semaphore follows its number.
        and (number := reply.partition(b" ")[0]).isdigit()
        and len(number) <= DIGITS
    }


def read_beside(service: Service, name: str) -> dict[str, str] | None:
    """Return what there is of other objects called *name*, which have no holders: kind -> state.

    A semaphore or latch is told only by its number of all permits, or its first count. ``"key"`` is
    the type of a key of that name. None if the user may not read one of them.

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
    if any(isinstance(reply, ReplyError) and code_of(reply) == "NOPERM" for reply in replies):
        return None
    found = {
        kind: text_of(reply).partition(" ")[0] if isinstance(reply, bytes) else str(reply)
        for kind, reply in zip(asked, replies, strict=True)
        if reply and not isinstance(reply, ReplyError)
    }
    # A user may do without the right to this.
    if isinstance(foreign, bytes) and (kind := text_of(foreign)) != "none":
        found["key"] = kind
    if "event" not in found and service.options.pubsub != "off":
        # Before it is set for the first time, an event is only what its waiters listen to.
        heard = count_listeners(service, node, [names.event_channel(name)]) or {}
        if waiting := sum(heard.values()):
            found["event_waiters"] = str(waiting)
    return found
