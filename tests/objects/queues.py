"""What has a queue: each as a way to wait in it, and to give way to the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.objects.kinds import KINDS, Kind
from tests.objects.permits import PERMITS, Permits

Make = Callable[..., Any]


@dataclass(frozen=True)
class Queue:
    """One class that has waiters; but for the plain semaphore, they have turns in order of arrival.

    Attributes:
        name: for the test's id.
        make: from a client and a name to an object that one can have.
        take: waits for it, with a time limit.
        give: gives it to the next one, from the object and what was taken.
        code: makes `made` of the `client` of another process, and waits for it.
    """

    name: str
    make: Make
    take: Make
    give: Make
    code: str


def _of_lock(name: str, make: Make, code: str) -> Queue:
    return Queue(
        name,
        make,
        take=lambda made, timeout=60: made.acquire(timeout=timeout),
        give=lambda made, _: made.release(),
        code=f"made = {code}; made.acquire()",
    )


def _of_kind(kind: Kind, code: str) -> Queue:
    return _of_lock(kind.name, lambda client, name: kind.make([client], name), code)


def _of_permits(kind: Permits) -> Queue:
    return Queue(
        kind.name,
        lambda client, name: kind.make(client, name, 1),
        take=lambda made, timeout=60: kind.take(made, 1, timeout),
        give=kind.give,
        code=kind.code,
    )


_CODES = {
    "lock": "client.lock('the name')",
    "fair": "client.fair_lock('the name')",
    "fenced": "client.fenced_lock('the name')",
    "write": "client.read_write_lock('the name').write",
}
QUEUES = [
    *(_of_kind(kind, _CODES[kind.name]) for kind in KINDS if kind.name in _CODES),
    *map(_of_permits, PERMITS),
    _of_lock("election", lambda client, name: client.election(name), "client.election('the name')"),
    _of_lock(
        "condition", lambda client, name: client.condition(name), "client.condition('the name')"
    ),
]
