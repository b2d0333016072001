"""What several files of the suite need: in which worlds, how long, and who waits behind whom."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor, played
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import AcquireTimeoutError

cancelling = played("asyncio", "trio", "uvloop")
"""Worlds whose calls can be cancelled."""
in_asyncio = played("asyncio", "uvloop")
"""Worlds whose tasks the library cancels."""
each_face = played("threads", "asyncio")
"""A world of each face: for what takes long, or depends on the face alone."""
one_or_several = pytest.mark.parametrize(
    "same_client", [True, False], ids=["one-client", "several-clients"]
)
PROMPT = 10.0
"""Seconds in which a message comes on a busy machine: far below the poll caps of these tests."""


def outcome(future: Future[Any], timeout: float = GIVE_UP) -> Any:
    """Return what a call acquired; None if it gave up."""
    try:
        return future.result(timeout) or None
    except AcquireTimeoutError:
        return None


def later(call: Callable[..., Any], made: Any, future: Future[Any]) -> Callable[[], Any]:
    """Return what calls *call* with *made* and the result of *future*, which is there by then."""
    return lambda: call(made, future.result(0))


def joins(
    scene: Stage,
    actor: Actor,
    call: Callable[..., Any],
    *args: Any,
    name: str = NAME,
    asks: bool = True,
) -> Future[Any]:
    """Let *actor* begin a call that waits, and return what will come of it when it waits.

    Args:
        scene: where.
        actor: makes the call.
        call: waits.
        args: of the call.
        name: of what it waits for.
        asks: whether it asks a server. Whoever stands behind others of its client need not.
    """
    before, begun = scene.place.asked(), actor.start(int)
    future = actor.start(call, *args)
    begun.result(GIVE_UP)
    if asks:
        wait_until(lambda: scene.place.asked() > before, 10, "it asks")
    scene.place.rests(name)
    assert not future.done(), future
    return future


def enter(scene: Stage, actor: Actor, block: Any) -> Callable[[], Any]:
    """Enter *block* as a ``with`` statement does, and return what leaves it."""
    if scene.world.face is not interlock:
        awaited = AsyncExitStack()
        actor.do(awaited.enter_async_context, block)
        return awaited.aclose
    stack = ExitStack()
    actor.do(stack.enter_context, block)
    return stack.close


def kept(scene: Stage) -> set[str]:
    """Return the keys that are there, but for notes, which end by themselves."""
    notes = ("redisson_unlock_latch", "interlock_latch_ending", "interlock_request")
    return {key for key in scene.place.keys_left() if not key.startswith(notes)}
