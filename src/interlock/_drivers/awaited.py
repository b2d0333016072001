"""What a face does when something fails, over any driver that is awaited.

If the release at the end of a block fails, the body's own exception goes on, and is told. If no
server answers, a decorated call may go on. Each rule stands here once. The faces call it.

tools/make_sync.py makes `blocking` from this file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from interlock._core.locks.ticket import over
from interlock._core.model.effects import GRACE, Wait
from interlock._drivers.background.log import log_unreachable
from interlock._drivers.process.lifecycle import report
from interlock._drivers.process.line import note_line
from interlock._drivers.tasks import run_user
from interlock._traceback import shorten
from interlock.errors import ClosedError, InterlockError, NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from types import CoroutineType, TracebackType
    from typing import TypeAlias

    from interlock._core.locks.ticket import Ticket
    from interlock._core.model.effects import Step

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None],
        CoroutineType[Any, Any, None],
    ]
    """An ``__aexit__``, of which each look-up gives the end of a new block."""

R = TypeVar("R")
T = TypeVar("T")
RETRY = 0.5
"""Seconds after which an observer looks again if the server did not answer."""


def go_on(error: BaseException | None, trouble: InterlockError, *, own: bool = False) -> None:
    """Raise *trouble*, which came at the end of a block; if *error* ends that, only note it there.

    But if *error* is a cancellation of our *own*, *trouble* is raised in its place.
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


async def leave(
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
            await driver.perform(step)
        else:
            try:
                call = step.begin()
                if once and call is not None:
                    call.deadline = driver.session.clock() + GRACE
                    await driver.run_shielded(iter(call))
            finally:
                step.give_up()
    except InterlockError as trouble:
        go_on(error, trouble, own=own)


async def inside(
    block: AbstractAsyncContextManager[Any, None],
    body: Callable[[], Awaitable[R]],
    name: str,
    if_unreachable: str,
    otherwise: T,
) -> R | T:
    """Return what *body* returns inside of *block*; *otherwise* if the block got nothing.

    If no server answers when the block begins: raise, run *body* all the same, or return *otherwise*.
    """
    begun = False
    try:
        async with block as hold:
            begun = True
            if hold is None:
                return otherwise
            note_line(hold._hold, 1)  # noqa: SLF001 - one package
            return await body()
    except ServerUnavailableError as error:
        if begun or not _goes_on(error, name, if_unreachable):
            raise
    return await body() if if_unreachable == "run" else otherwise


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


def watch(
    driver: Any,
    what: str,
    changed: Callable[[], Awaitable[bool]],
    tell: Callable[[], object],
) -> Callable[[], Awaitable[None]]:
    """Call *tell* after each change, in a task of its own; return what waits for the end of that.

    An error is reported, and the next change is told all the same.

    Args:
        driver: the client's.
        what: is observed, in words.
        changed: waits for a change; it returns False when it is stopped.
        tell: calls the user.

    Raises:
        ClosedError: the client is closed.
    """
    if driver.closed:
        raise ClosedError("the client is closed")

    async def observe() -> None:
        with suppress(ClosedError):
            while True:
                try:
                    if not await changed():
                        return
                except Exception as error:  # noqa: BLE001 - the next look may succeed
                    if driver.closed:
                        return
                    report(f"an observer of {what}", error)
                    await driver.run(iter(Wait(None, driver.session.clock() + RETRY)))
                else:
                    await run_user(f"a callback of {what}", tell)

    ended: Callable[[], Awaitable[None]] = driver.start(observe)
    return ended
