"""What a face does when something fails, over any driver that is awaited.

If the release at the end of a block fails, the body's own exception goes on, and is told. If no
server answers, a decorated call may go on. Each rule stands here once. The faces call it.

tools/make_sync.py makes `blocking` from this file.
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
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

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


async def end_by(end: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """Call *end* at the end of a block, which *error* ends; None if nothing does."""
    try:
        await end()
    except InterlockError as trouble:
        go_on(error, trouble)


async def between(body: Callable[[], Awaitable[R]], end: Callable[[], Awaitable[None]]) -> R:
    """Return what *body* returns, and call *end* after it, whatever it raises."""
    try:
        result = await body()
    except BaseException as error:
        await end_by(end, error)
        raise
    await end()
    return result


async def inside(
    block: AbstractAsyncContextManager[Any, None],
    body: Callable[[], Awaitable[R]],
    name: str,
    if_unreachable: str,
) -> R | None:
    """Return what *body* returns inside of *block*.

    If no server answers when the block begins: raise, run *body* all the same, or return None.
    """
    begun = False
    try:
        async with block as hold:
            begun = True
            note_line(hold._hold, 1)  # noqa: SLF001 - one package
            return await body()
    except ServerUnavailableError as error:
        if begun or not _goes_on(error, name, if_unreachable):
            raise
    return await body() if if_unreachable == "run" else None


async def within(
    take: Callable[[], Awaitable[K | None]],
    body: Callable[[], Awaitable[R]],
    end: Callable[[K], Awaitable[None]],
    otherwise: T,
    name: str,
    if_unreachable: str,
) -> R | T:
    """Return what *body* returns between *take* and *end*; *otherwise* if nothing is taken.

    If no server answers when it is taken: raise, run *body* all the same, or return *otherwise*.
    """
    try:
        taken = await take()
    except ServerUnavailableError as error:
        if not _goes_on(error, name, if_unreachable):
            raise
        return await body() if if_unreachable == "run" else otherwise
    return otherwise if taken is None else await between(body, partial(end, taken))


def _goes_on(error: ServerUnavailableError, name: str, if_unreachable: str) -> bool:
    """Log, and return whether a call goes on in spite of *error*: not if a right is missing."""
    if if_unreachable == "raise" or not (error.code is None or error.transient):
        return False
    log_unreachable(name, if_unreachable, error)
    return True


async def adopt_ticket(driver: Any, ticket: Ticket, adopt: Callable[[str], Awaitable[R]]) -> R:
    """Adopt the hold of *ticket* by *adopt*; if it is over, tell why."""
    try:
        return await adopt(str(ticket))
    except NotHeldError as error:
        raise await driver.run(over(driver.session, ticket)) from error
