"""Sequences of operations that leave the same by Java and by Python; `stage` plays them.

The only differences are those in `ON_PURPOSE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NAMES = ("orders", "{stock}:7")
"""One that gets braces in derived keys, one that has its own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a thread.

    One that *waits* cannot end yet: it ends with a later step. *permits* is the number of the step
    whose permits it is about.
    """

    thread: str
    do: str
    kind: str
    rest: dict[str, Any] = field(default_factory=dict)
    waits: bool = False
    permits: int | None = None


def _step(thread: str, do: str, kind: str, **rest: Any) -> Step:
    waits, permits = rest.pop("waits", False), rest.pop("permits", None)
    return Step(thread, do, kind, rest, waits, permits)


def _group(thread: str, do: str, values: str, **rest: Any) -> Step:
    return _step(thread, do, "group", values=list(values), **rest)


def _lock(kind: str) -> list[Step]:
    """Enter twice, be refused, leave twice, be freed by force, expire by lease."""
    return [
        _step("t1", "acquire", kind, lease=60),
        _step("t1", "acquire", kind, lease=60),
        _step("t2", "acquire", kind, timeout=0),
        _step("t2", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "acquire", kind),
        _step("t1", "release", kind),
        _step("t1", "release", kind),
        _step("t1", "acquire", kind, timeout=0, lease=90),
        _step("t2", "force_release", kind),
        _step("t2", "force_release", kind),
    ]


SEQUENCES: dict[str, list[Step]] = {
    "lock": _lock("lock"),
    "fenced": _lock("fenced"),
    "spin": _lock("spin"),
    "fair": _lock("fair"),
    "read": _lock("read"),
    "write": _lock("write"),
    "lock-leases": [
        _step("t1", "acquire", "lock", lease=30),
        _step("t1", "acquire", "lock", lease=90),
        _step("t1", "acquire", "lock", lease=60),
        _step("t1", "release", "lock"),
        _step("t1", "release", "lock"),
        _step("t1", "release", "lock"),
    ],
    "lock-waiting": [
        _step("t1", "acquire", "lock", lease=60),
        _step("t2", "acquire", "lock", timeout=60, lease=90, waits=True),
        _step("t1", "release", "lock"),
        _step("t2", "release", "lock"),
    ],
    "fair-waiting": [
        _step("t1", "acquire", "fair", lease=60),
        _step("t2", "acquire", "fair", timeout=60, lease=90, waits=True),
        _step("t3", "acquire", "fair", timeout=60, lease=90, waits=True),
        _step("t4", "acquire", "fair", timeout=0),
        _step("t1", "release", "fair"),
        _step("t2", "release", "fair"),
        _step("t3", "release", "fair"),
    ],
    "non_reentrant": [
        _step("t1", "acquire", "non_reentrant", lease=60),
        _step("t1", "acquire", "non_reentrant", lease=60, timeout=0),
        _step("t2", "acquire", "non_reentrant", timeout=0),
        _step("t1", "release", "non_reentrant"),
    ],
    "readers-and-writers": [
        _step("t1", "acquire", "read", lease=60),
        _step("t2", "acquire", "read", lease=90),
        _step("t3", "acquire", "write", timeout=0),
        _step("t1", "release", "read"),
        _step("t1", "release", "read"),
        _step("t2", "release", "read"),
        _step("t3", "acquire", "write", lease=60),
        _step("t1", "acquire", "read", timeout=0),
        _step("t3", "acquire", "read", lease=60),
        _step("t3", "release", "write"),
        _step("t1", "acquire", "read", lease=60),
        _step("t3", "release", "read"),
        _step("t1", "release", "read"),
    ],
    "read-force": [
        _step("t1", "acquire", "read", lease=60),
        _step("t2", "force_release", "write"),
        _step("t2", "force_release", "read"),
    ],
    "group": [
        _group("t1", "acquire", "ab", lease=60),
        _group("t2", "acquire", "bc", timeout=0, lease=60),
        _group("t2", "acquire", "cd", timeout=0, lease=90),
        _group("t1", "acquire", "ab", timeout=0, lease=60),
        _group("t2", "release", "ab"),
        _group("t1", "release", "ab"),
        _group("t1", "release", "ab"),
        _group("t2", "release", "cd"),
    ],
    "group-force": [
        _group("t1", "acquire", "ab", lease=60),
        _group("t2", "acquire", "cd", lease=60),
        _group("t2", "force_release", "ab"),
        _group("t2", "release", "cd"),
    ],
    "semaphore": [
        _step("t1", "try_set_permits", "semaphore", n=3),
        _step("t1", "try_set_permits", "semaphore", n=5),
        _step("t1", "acquire", "semaphore", n=2, timeout=0),
        _step("t2", "acquire", "semaphore", n=2, timeout=0),
        _step("t2", "acquire", "semaphore", n=2, timeout=60, waits=True),
        _step("t1", "release", "semaphore", n=1),
        _step("t1", "add_permits", "semaphore", n=4),
        _step("t1", "add_permits", "semaphore", n=-1),
        _step("t1", "available_permits", "semaphore"),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "release_if_exists", "semaphore", n=1),
    ],
    "semaphore-missing": [
        _step("t1", "acquire", "semaphore", timeout=0),
        _step("t1", "release_if_exists", "semaphore", n=1),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "available_permits", "semaphore"),
        _step("t1", "release", "semaphore", n=2),
        _step("t1", "drain_permits", "semaphore"),
        _step("t1", "add_permits", "semaphore", n=-2),
    ],
    "leased_semaphore": [
        _step("t1", "try_set_permits", "leased_semaphore", n=3),
        _step("t1", "try_set_permits", "leased_semaphore", n=4),
        _step("t1", "acquire", "leased_semaphore", n=2, timeout=0, lease=60),
        _step("t2", "acquire", "leased_semaphore", n=1, timeout=0, lease=90),
        _step("t2", "acquire", "leased_semaphore", n=1, timeout=0, lease=90),
        _step("t2", "available_permits", "leased_semaphore"),
        _step("t2", "acquired_permits", "leased_semaphore"),
        _step("t2", "permits", "leased_semaphore"),
        _step("t2", "update_lease", "leased_semaphore", lease=120, permits=3),
        _step("t1", "release", "leased_semaphore", permits=2),
        _step("t1", "release", "leased_semaphore", permits=2),
        _step("t2", "release", "leased_semaphore", permits=3),
        _step("t1", "set_permits", "leased_semaphore", n=1),
        _step("t1", "add_permits", "leased_semaphore", n=2),
        _step("t1", "add_permits", "leased_semaphore", n=-1),
    ],
    "latch": [
        _step("t1", "try_set_count", "latch", n=2),
        _step("t1", "try_set_count", "latch", n=5),
        _step("t2", "wait", "latch", timeout=60, waits=True),
        _step("t1", "count_down", "latch"),
        _step("t1", "count", "latch"),
        _step("t1", "count_down", "latch"),
        _step("t1", "count_down", "latch"),
        _step("t1", "try_set_count", "latch", n=1),
        _step("t1", "delete", "latch"),
        _step("t1", "delete", "latch"),
    ],
}


ON_PURPOSE: dict[str, dict[str, range]] = {
    "a-token-for-each-hold": {"fenced": range(1, 12)},
    "a-free-fair-lock-cannot-be-released": {"fair": range(8, 9)},
    "a-reader-has-one-entry": {"read": range(1, 4)},
    "a-forced-release-removes-the-entries-of-readers": {
        "read": range(10, 12),
        "read-force": range(2, 3),
    },
    "a-refused-release-is-silent": {"read": range(8, 9), "write": range(8, 9)},
    "writers-leases-do-not-add-up": {"write": range(1, 4)},
    "a-re-entry-never-shortens": {"lock-leases": range(2, 5)},
    "a-lock-goes-to-the-next-waiter": {"lock-waiting": range(2, 3)},
    "waiters-keep-asking": {"fair-waiting": range(1, 5)},
    "a-partial-release-is-silent": {"group": range(5, 6)},
    "a-forced-release-says-what-it-did": {"group-force": range(2, 3)},
    "a-downgrade-is-announced": {"readers-and-writers": range(9, 10)},
    "no-message-that-breaks-java": {"semaphore-missing": range(6, 7)},
}
"""Where Python leaves something else, and why: an id on docs/explanation/redisson.md."""


def purpose(sequence: str, step: int) -> str | None:
    """Return why Python differs from Java after *step* of *sequence*, or None where it must not."""
    for why, where in ON_PURPOSE.items():
        if step in where.get(sequence, ()):
            return why
    return None
