"""What many cases begin with, and questions that they ask."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from tests.objects.kinds import EXCLUSIVE, KINDS
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor, played
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import AcquireTimeoutError, HoldLostError, MisuseWarning

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
"""Seconds in which a message comes on a busy machine; see the fixture `by_message`."""
SOON = {"lease": 3}
"""Options of a client that renews each second, and so hears soon of a loss."""


def of_kinds(wanted: Callable[[Any], bool]) -> pytest.MarkDecorator:
    """Return the mark of a test of those lock-likes alone."""
    chosen = [kind for kind in KINDS if wanted(kind)]
    return pytest.mark.parametrize("kind", chosen, ids=lambda kind: kind.name)


exclusive = of_kinds(lambda kind: kind in EXCLUSIVE)
reentrant = of_kinds(lambda kind: kind.reentrant)


@contextlib.contextmanager
def warned(word: str, count: int = 1) -> Iterator[None]:
    """Check that *count* times somebody is warned of *word*, in the block or soon after."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield

        def told() -> bool:
            found = [each for each in caught if issubclass(each.category, MisuseWarning)]
            return len([each for each in found if word in str(each.message)]) >= count

        wait_until(told, 10, f"{count} warnings of {word}")


def two(stage: Stage, *, same_client: bool = False, **options: Any) -> tuple[Any, Any]:
    ours = stage.clients(**options)
    theirs = ours if same_client else stage.clients(**options)
    return stage.lock(*ours), stage.lock(*theirs)


def held(owner: Actor, lock: Any, **options: Any) -> Any:
    """Let *owner* acquire *lock* by hand; return its hold."""
    assert owner.do(lock.acquire, **options)
    return owner.do(lambda: lock.hold)


def lost(stage: Stage, hold: Any) -> None:
    """Let an operator free the lock, and wait until its holder is told."""
    assert stage.actor().do(stage.lock().force_release)
    wait_until(hold.lost.is_set, 10, "the holder is told")


def freed(stage: Stage) -> None:
    """Wait until nothing is left of the lock: a reader's entry may end with its lease."""
    wait_until(lambda: not stage.left(), 5, "nothing is left")


def loss_of(hold: Any) -> str:
    try:
        hold.ensure()
    except HoldLostError as error:
        return str(error)
    return ""


def renewed(hold: Any) -> None:
    """Wait until *hold* is renewed from now on: only then its end moves."""
    end = time.monotonic() + hold.remaining
    wait_until(lambda: time.monotonic() + hold.remaining > end + 0.3, 10, "it is renewed")


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
    stays: bool = True,
) -> Future[Any]:
    """Let *actor* begin a call that waits for *name*; return what will come of it when it waits.

    Whoever stands behind others of its client need not ask a server: say so by *asks*. One with a
    short time may have given up by then, and not *stay*.
    """
    before, begun = scene.place.asked(), actor.start(int)
    future = actor.start(call, *args)
    begun.result(GIVE_UP)
    if asks:
        wait_until(lambda: scene.place.asked() > before, 10, "it asks")
    scene.place.rests(name)
    assert not (stays and future.done()), future
    return future


def enter(scene: Stage, actor: Actor, block: Any) -> Callable[[], Any]:
    """Enter *block* as a ``with`` statement does, and return what leaves it."""
    if scene.world.face is not interlock:
        awaited = contextlib.AsyncExitStack()
        actor.do(awaited.enter_async_context, block)
        return awaited.aclose
    stack = contextlib.ExitStack()
    actor.do(stack.enter_context, block)
    return stack.close


def kept(scene: Stage) -> set[str]:
    """Return the keys that are there, but for notes, which end by themselves."""
    notes = ("interlock_latch_ending", "interlock_request")
    return {key for key in scene.place.keys_left() if not key.startswith(notes)}


class Inside:
    """Counts who is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = self.entries = 0

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.entries += 1
            self.most = max(self.most, self.now)

    def leave(self) -> None:
        with self._lock:
            self.now -= 1


class Block:
    """A ``with`` block in a generator, whose body goes on when an actor lets it."""

    def __init__(self, lock: Any, *, awaits: bool) -> None:
        """Say whether the block of *lock* is entered by ``async with``."""
        self._awaits = awaits
        self._generator: Any = _inside_async(lock) if self._awaits else _inside(lock)

    def enter(self) -> Any:
        return anext(self._generator) if self._awaits else next(self._generator)

    def leave(self) -> Any:
        """Run the body to its end."""
        return anext(self._generator, None) if self._awaits else next(self._generator, None)

    def close(self) -> Any:
        return self._generator.aclose() if self._awaits else self._generator.close()

    def fail(self, error: BaseException) -> Any:
        return self._generator.athrow(error) if self._awaits else self._generator.throw(error)


def _inside(lock: Any) -> Iterator[Any]:
    with lock as hold:
        yield hold


async def _inside_async(lock: Any) -> AsyncIterator[Any]:
    async with lock as hold:
        yield hold
