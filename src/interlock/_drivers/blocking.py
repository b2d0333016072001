# Generated from interlock/_drivers/awaited.py by tools/make_sync.py; change that file.
"""What a face does when something fails, over any driver that blocks.

If the release at the end of a block fails, the body's own exception goes on, and is told. If no
server answers, a decorated call may go on. Each rule stands here once. The faces call it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from interlock._core.locks.ticket import over
from interlock._drivers.background.log import log_unreachable
from interlock._drivers.process.line import note_line
from interlock._traceback import shorten
from interlock.errors import InterlockError, NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from interlock._core.locks.ticket import Ticket

K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")


def go_on(error: BaseException | None, trouble: InterlockError, *, own: bool = False) -> None:
    """Raise *trouble*; if the body of the block has raised *error*, only note *trouble* in that.

    Args:
        error: ends the block; None if nothing does.
        trouble: what went wrong when the block was left.
        own: whether *error* is a cancellation of our own, in place of which *trouble* is raised.
    """
    if error is None or own:
        raise shorten(trouble) from error
    error.add_note(f"interlock: {trouble}")


def end_by(end: Callable[[], None], error: BaseException | None) -> None:
    """Call *end* at the end of a block, which *error* ends; None if nothing does."""
    try:
        end()
    except InterlockError as trouble:
        go_on(error, trouble)


def between(body: Callable[[], R], end: Callable[[], None]) -> R:
    """Return what *body* returns, and call *end* after it, whatever it raises."""
    try:
        result = body()
    except BaseException as error:
        end_by(end, error)
        raise
    end()
    return result


def inside(
    block: AbstractContextManager[Any, None],
    body: Callable[[], R],
    name: str,
    if_unreachable: str,
) -> R | None:
    """Return what *body* returns inside of *block*.

    If no server answers when the block begins: raise, run *body* all the same, or return None.
    """
    begun = False
    try:
        with block as hold:
            begun = True
            note_line(hold._hold, 1)  # noqa: SLF001 - one package
            return body()
    except ServerUnavailableError as error:
        if begun or not _goes_on(error, name, if_unreachable):
            raise
    return body() if if_unreachable == "run" else None


def within(
    take: Callable[[], K | None],
    body: Callable[[], R],
    end: Callable[[K], None],
    otherwise: T,
    name: str,
    if_unreachable: str,
) -> R | T:
    """Return what *body* returns between *take* and *end*; *otherwise* if nothing is taken.

    If no server answers when it is taken: raise, run *body* all the same, or return *otherwise*.
    """
    try:
        taken = take()
    except ServerUnavailableError as error:
        if not _goes_on(error, name, if_unreachable):
            raise
        return body() if if_unreachable == "run" else otherwise
    return otherwise if taken is None else between(body, partial(end, taken))


def _goes_on(error: ServerUnavailableError, name: str, if_unreachable: str) -> bool:
    """Log, and return whether a call goes on in spite of *error*: not if a right is missing."""
    if if_unreachable == "raise" or not (error.code is None or error.transient):
        return False
    log_unreachable(name, if_unreachable, error)
    return True


def adopt_ticket(driver: Any, ticket: Ticket, adopt: Callable[[str], R]) -> R:
    """Adopt the hold of *ticket* by *adopt*; if it is over, tell why."""
    try:
        return adopt(str(ticket))
    except NotHeldError as error:
        raise driver.run(over(driver.session, ticket)) from error
