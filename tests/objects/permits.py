"""What gives permits: each as a way to make it, to take a permit and to give it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Make = Callable[..., Any]


@dataclass(frozen=True)
class Permits:
    """One class that gives permits.

    Attributes:
        name: for the test's id.
        make: from a client, a name, a number and options to the object.
        take: from the object, how many and a time limit to what was taken.
        give: gives back what was taken.
        block: from the object to a block that takes one permit.
        free: how many are free.
        code: how another process takes one of its `client`.
        several: whether several can be taken together.
        leased: whether permits end with leases.
    """

    name: str
    make: Make
    take: Make
    give: Make
    block: Make
    free: Make
    code: str
    several: bool = True
    leased: bool = True


def _give_back(made: Any, permit: Any) -> Any:
    del made
    return permit.release()


def _take_one(made: Any, n: int = 1, timeout: float = 30) -> Any:
    assert n == 1
    return made.acquire(timeout=timeout)


def _take(made: Any, n: int = 1, timeout: float = 30) -> Any:
    return made.acquire(n, timeout=timeout)


PERMITS = [
    Permits(
        "plain",
        lambda client, name, n, **options: client.semaphore(name, n, **options),
        take=_take,
        give=lambda made, _, n=1: made.release(n),
        block=lambda made: made,
        free=lambda made: made.available_permits(),
        code="client.semaphore('the name').acquire()",
        leased=False,
    ),
    Permits(
        "leased",
        lambda client, name, n, **options: client.leased_semaphore(name, n, **options),
        take=_take,
        give=lambda made, permit, n=1: _give_back(made, permit),
        block=lambda made: made.trying(),
        free=lambda made: made.available_permits(),
        code="kept = client.leased_semaphore('the name').acquire()",
    ),
    Permits(
        "limited",
        lambda client, name, n, **options: client.limited(name, n, **options),
        take=_take_one,
        give=_give_back,
        block=lambda made: made,
        free=lambda made: made.available(),
        code="kept = client.limited('the name', 1).acquire()",
        several=False,
    ),
]
LEASED = [each for each in PERMITS if each.leased]
SEVERAL = [each for each in PERMITS if each.several]
