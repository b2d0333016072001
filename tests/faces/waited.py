"""Events, latches and permits: objects that clients wait for, and no locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.lock.lock_like import Kind

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Waited(Kind):
    """Something that is waited for.

    Attributes:
        wait: the call that waits.
        begin: what makes it wait.
        go_on: what lets all three go on who wait.
    """

    wait: Callable[[Any], Callable[..., Any]] = lambda it: it.wait
    begin: Callable[[Any], Callable[[], Any]] = lambda it: it.is_set
    go_on: Callable[[Any], Callable[[], Any]] = lambda it: it.set


WAITED = [
    Waited("event", lambda client, name: client.event(name)),
    Waited(
        "latch",
        lambda client, name: client.count_down_latch(name),
        begin=lambda it: lambda: it.try_set_count(1),
        go_on=lambda it: it.count_down,
    ),
    Waited(
        "semaphore",
        lambda client, name: client.semaphore(name),
        wait=lambda it: it.acquire,
        begin=lambda it: it.available_permits,
        go_on=lambda it: lambda: it.release(3),
    ),
    Waited(
        "leased",
        lambda client, name: client.leased_semaphore(name),
        wait=lambda it: it.try_acquire,
        begin=lambda it: lambda: it.try_set_permits(0),
        go_on=lambda it: lambda: it.set_permits(3),
    ),
]
"""All of them; a new one is another row."""
