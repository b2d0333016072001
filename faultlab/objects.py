"""What the programs of the lab share, and what the checker knows of it.

A *resource* has a capacity. A hold of an object takes some of one or more resources.
Nothing here imports the library: the checker must not share code with it.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = 1000
"""The capacity of a read/write lock: a writer takes all of it."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object that programs use.

    Attributes:
        kind: Which factory makes it.
        name: Its name on the server.
        takes: The resources of a hold, each with a weight.
        values: Of a group lock.
        members: Names of the locks of a multi lock or red lock.
        reentrant: Whether programs enter it twice.
        unsafe: Whether others may end a hold (``force_release``): exclusion is not judged.
    """

    kind: str
    name: str
    takes: tuple[tuple[str, int], ...] = ()
    values: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    reentrant: bool = True
    unsafe: bool = False


def _simple(kind: str, name: str, *, reentrant: bool = True) -> Object:
    return Object(kind, name, ((name, 1),), reentrant=reentrant)


def _group(values: str) -> Object:
    return Object(
        "group", "group", tuple((f"group/{v}", 1) for v in values), tuple(values), reentrant=False
    )


_MEMBERS = ("member0", "member1", "member2")

OBJECTS: dict[str, Object] = {
    "plain": _simple("lock", "plain"),
    "fair": _simple("fair", "fair"),
    "fenced": _simple("fenced", "fenced"),
    "spin": _simple("spin", "spin"),
    "read": Object("read", "rw", (("rw", 1),)),
    "write": Object("write", "rw", (("rw", WHOLE),)),
    "group-ab": _group("ab"),
    "group-bc": _group("bc"),
    "multi": Object("multi", "multi", tuple((name, 1) for name in _MEMBERS), members=_MEMBERS),
    "member": _simple("lock", "member0"),
    "red": Object("red", "red", (("red", 1),), members=("red",), reentrant=False),
    "forced": Object("lock", "forced", (("forced", 1),), reentrant=False, unsafe=True),
    "permits": Object("semaphore", "permits"),
    "leased": Object("leased", "leased", (("leased", 1),), reentrant=False),
    "latch": Object("latch", "latch"),
    "election": _simple("election", "election", reentrant=False),
    "event": Object("event", "event"),
    "barrier": Object("barrier", "barrier"),
    "condition": _simple("condition", "condition", reentrant=False),
}
"""Every object by the name that histories use."""

CAPACITY = {"rw": WHOLE, "leased": 2}
"""Of resources that more than one owner may have; all others have 1."""

PERMITS = 3
"""What the semaphore has at the start."""

PARTIES = 3
"""Whom the barrier waits for."""

COUNTERS = ("permits", "latch", "leased", "event", "barrier")
"""Objects whose state a server that forgets loses for good."""

SINGLE = tuple(name for name in OBJECTS if name != "red")
"""The objects of one server."""
