# Generated from interlock/asyncio/ending.py by tools/make_sync.py; change that file.
"""What the face does when something fails.

If the release at the end of a block fails, the body's own exception goes on, and is told. If no
server answers, a decorated call may go on. Each rule stands here once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from interlock._core.model.effects import GRACE
from interlock._drivers.background.log import log_now
from interlock._drivers.process.line import note_line
from interlock._traceback import shorten
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import TypeAlias

    from interlock._core.model.effects import Step

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None],
        None,
    ]
    """An ``__exit__``, of which each look-up gives the end of a new block."""

R = TypeVar("R")
T = TypeVar("T")


def go_on(error: BaseException | None, trouble: InterlockError, *, own: bool = False) -> None:
    """Raise *trouble*, which came at the end of a block; if *error* ends that, only note it there.

    But if *error* is a cancellation of our *own*, *trouble* is raised in its place.
    """
    if error is None or own:
        raise shorten(trouble) from error
    error.add_note(f"interlock: {trouble}")


def leave(
    driver: Any,
    step: Step[Any],
    error: BaseException | None,
    *,
    own: bool = False,
    once: bool = False,
) -> None:
    """Perform *step* at the end of a block: the release of what the block has.

    A block that is cancelled or interrupted ends at once, and the background releases.

    Args:
        driver: the client's.
        step: the release.
        error: ends the block; None if nothing does.
        own: whether *error* is a cancellation of our own, in place of which a failure is raised.
        once: whether what ends at once is sent all the same, because the background cannot do that.
    """
    try:
        if error is None or own or isinstance(error, (Exception, GeneratorExit)):
            driver.perform(step)
        else:
            try:
                call = step.begin()
                if once and call is not None:
                    call.deadline = driver.session.clock() + GRACE
                    driver.run(iter(call))
            finally:
                step.give_up()
    except InterlockError as trouble:
        go_on(error, trouble, own=own)


def inside(
    block: AbstractContextManager[Any, None],
    body: Callable[[], R],
    name: str,
    if_unreachable: str,
    otherwise: T,
) -> R | T:
    """Return what *body* returns inside of *block*; *otherwise* if the block got nothing.

    If no server answers when the block begins: raise, run *body* all the same, or return *otherwise*.
    """
    begun = False
    try:
        with block as hold:
            begun = True
            if hold is None:
                return otherwise
            note_line(hold._hold, 1)
            return body()
    except ServerUnavailableError as error:
        if begun or not _goes_on(error, name, if_unreachable):
            raise
    return body() if if_unreachable == "run" else otherwise


def _goes_on(error: ServerUnavailableError, name: str, if_unreachable: str) -> bool:
    """Log, and return whether a call goes on in spite of *error*: not if a right is missing."""
    if if_unreachable == "raise" or not (error.code is None or error.transient):
        return False
    done = "runs without it" if if_unreachable == "run" else "is skipped"
    text = "no server answers for lock %r, so the call %s: %s"
    log_now("call.unreachable", text, name, done, error, lock_name=name, choice=if_unreachable)
    return True
